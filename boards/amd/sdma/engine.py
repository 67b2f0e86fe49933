"""An SDMA queue: a ring of packets that copy, fill, wait and signal."""

from __future__ import annotations

from boards.amd.cp.context import Context, Progress, bits, join
from boards.amd.cp.pm4 import check_wptr
from boards.amd.cp.state import Stream
from boards.amd.sdma import kernel
from boards.amd.sdma import layouts as layout
from boards.amd.sdma.packets import HANDLERS
from boards.machine.clock import TICKS_PER_S

_IB_ALIGN_BYTES, _IB_ALIGN_DW = 32, 8


class Pace:
    """When copies begin and end: one at a time, each behind its doorbell and the one before."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._rung: list[tuple[int, int]] = []
        """(write pointer, ticks) of doorbells whose packets were not all run."""
        self._begin: int | None = None
        self._free = 0

    def rung(self, wptr: int) -> None:
        """A doorbell."""
        if self._context.copy_bytes_per_s:
            self._rung.append((wptr, self._context.host.ticks()))

    def over(self, nbytes: int, read: int) -> bool:
        """Whether the copy at `read`, a byte of the ring, has had its time; then its trace."""
        context = self._context
        if not context.copy_bytes_per_s:
            return True
        if self._begin is None:
            while len(self._rung) > 1 and self._rung[0][0] <= read:
                self._rung.pop(0)
            self._begin = max(self._free, self._rung[0][1])
        end = self._begin + round(nbytes * TICKS_PER_S / context.copy_bytes_per_s)
        if context.host.ticks() < end:
            return False
        context.host.trace(
            "copying", queue=context.spec.queue_id, nbytes=nbytes, begin=self._begin, end=end
        )
        self._begin, self._free = None, end
        return True


class SdmaQueue:
    """A ring whose doorbell and pointers count bytes and never wrap."""

    # src: sdma_v6_0.c sdma_v6_0_ring_set_wptr: the doorbell is wptr << 2; kfdtest SDMAQueue.cpp.
    def __init__(self, context: Context) -> None:
        spec = context.spec
        self.context = context
        first = spec.start // 4
        self.ring = Stream(spec.ring_va, first, spec.ring_bytes // 4, position=first)
        self.buffer: Stream | None = None
        self.wptr = spec.start
        self.pace = Pace(context)
        self.forms = layout.VERSIONS.get(context.host.chip.sdma[0], {})

    def doorbell(self, value: int) -> None:
        """A new write pointer in bytes. Raises: PacketFault when it cannot be one."""
        spec = self.context.spec
        check_wptr(self.context, value, self.wptr, 4 * self.ring.position, spec.ring_bytes)
        if value % 4:
            raise self.context.fault("write pointer", f"{value} is in bytes, and no whole dword")
        self.wptr, self.ring.limit = value, value // 4
        self.pace.rung(value)

    @property
    def idle(self) -> bool:
        """Whether everything submitted is done."""
        return self.buffer is None and self.ring.position == self.ring.limit

    @property
    def read_pointer(self) -> int:
        """Bytes that were read."""
        return 4 * self.ring.position

    def step(self) -> Progress:
        """One packet. Raises: PacketFault, MemoryFault."""
        self.ring.follow(self.context)
        if self.buffer is not None:
            progress = self._run(self.buffer)
            if self.buffer.position >= self.buffer.limit:
                self.buffer = None
            return progress
        before = self.ring.position
        progress = self._run(self.ring)
        if self.ring.position != before and self.context.spec.rptr_va:
            self.context.write_int(self.context.spec.rptr_va, 4 * self.ring.position, 8)
        return progress

    def _run(self, stream: Stream) -> Progress:
        context = self.context
        if stream.position >= stream.limit:
            return Progress.IDLE
        at = stream.position
        context.va, context.name = stream.va(at), ""
        context.words = stream.read(context, at, 1)
        form = self._form(context.words[0])
        length = self._length(stream, at, form)
        if at + length > stream.limit:
            where = "write pointer" if stream.size_dw else "indirect buffer's end"
            raise context.fault("wrong length", f"{length} words run past the {where}")
        words = context.words = stream.read(context, at, length)
        self._check(form, words)
        op = bits(words[0], 7, 0)
        if op == layout.COPY and not self.pace.over(words[1] + 1, 4 * self.ring.position):
            return Progress.WAITING
        context.host.trace("packet", queue=context.spec.queue_id, op=form.name, va=context.va)
        if op == layout.INDIRECT:
            self._indirect(stream, words, at + length)
        elif op == layout.COND_EXE:
            length += self._conditional(stream, words, at + length)
        elif self._of_kernel(words[0]):
            if not kernel.run(context, form, words):
                return Progress.WAITING
        elif not HANDLERS[op](context, words):
            return Progress.WAITING
        stream.position = at + length
        return Progress.MOVED

    def _form(self, header: int) -> layout.Form:
        context, op = self.context, bits(header, 7, 0)
        own = self._of_kernel(header)
        if own is not None:
            context.name = own.name
            return own
        if op in layout.PRIVILEGED:
            raise context.fault("privileged", layout.PRIVILEGED[op])
        form = self.forms.get(op)
        if form is None:
            version = ".".join(str(part) for part in context.host.chip.sdma)
            raise context.fault("unknown opcode", f"{op} on SDMA {version}")
        long_copy = op == layout.COPY and context.host.chip.sdma[0] == 7
        if long_copy and header >> layout.CPV & 1:
            form = layout.LONG_COPY
        context.name = form.name
        if bits(header, 15, 8) not in form.subs:
            raise context.fault("unknown opcode", f"{op} with sub-operation {header >> 8 & 0xFF}")
        return form

    def _of_kernel(self, header: int) -> layout.Form | None:
        """The form of a packet that this ring alone may have; None: it is one of everybody's."""
        return kernel.form_of(header) if self.context.spec.kernel is not None else None

    def _length(self, stream: Stream, at: int, form: layout.Form) -> int:
        """Words of the packet, with the data that follows it."""
        context = self.context
        if not form.data:
            return form.words
        if form.name == "NOP":
            return form.words + bits(context.words[0], 29, 16)
        if at + form.words > stream.limit:
            return form.words
        return form.words + bits(stream.read(context, at + form.words - 1, 1)[0], 19, 0) + 1

    def _check(self, form: layout.Form, words: tuple[int, ...]) -> None:
        for number, mask in enumerate(form.reserved):
            if words[number] & mask:
                detail = f"word {number} has {words[number] & mask:#x}"
                raise self.context.fault("reserved bits", detail)

    def _indirect(self, stream: Stream, words: tuple[int, ...], after: int) -> None:
        """Start an indirect buffer; the packet has to end at a multiple of 8 dwords."""
        # src: sdma_v6_0.c sdma_v6_0_ring_emit_ib; ring_pad_ib pads buffers to 8 dwords.
        context, count = self.context, words[3]
        if not stream.size_dw:
            raise context.fault("nested", "an indirect buffer has none inside")
        if after % _IB_ALIGN_DW:
            raise context.fault("misaligned", f"the packet ends at dword {after}, no multiple of 8")
        if not count or count % _IB_ALIGN_DW:
            raise context.fault("wrong length", f"an indirect buffer of {count} dwords")
        base = context.aligned(join(words[1], words[2]), _IB_ALIGN_BYTES)
        self.buffer = Stream(base, count)

    def _conditional(self, stream: Stream, words: tuple[int, ...], after: int) -> int:
        """Words to skip: all of `exec_count` unless memory holds the reference."""
        count = bits(words[4], 13, 0)
        if after + count > stream.limit:
            raise self.context.fault("wrong length", "COND_EXE spans past the end")
        va = join(words[1], words[2])
        return 0 if self.context.read_int(va, 4) == words[3] else count

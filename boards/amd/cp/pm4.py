"""The PM4 command processor: packets of a ring and of its indirect buffers, one at a time."""

from __future__ import annotations

from collections.abc import Callable

from boards.amd.cp import kernel
from boards.amd.cp import layouts as layout
from boards.amd.cp.compute import dispatch_direct, dispatch_indirect, set_sh_reg, set_uconfig_reg
from boards.amd.cp.context import Context, Progress, bits
from boards.amd.cp.memory import atomic_mem, copy_data, wait_reg_mem, write_data
from boards.amd.cp.state import State, Stream
from boards.amd.cp.sync import (
    acquire_mem,
    cond_exec,
    event_write,
    indirect_buffer,
    pred_exec,
    release_mem,
)

Handler = Callable[[State, tuple[int, ...]], bool]
_HANDLERS: dict[int, Handler] = {
    layout.WRITE_DATA: write_data, layout.COPY_DATA: copy_data, layout.ATOMIC_MEM: atomic_mem,
    layout.WAIT_REG_MEM: wait_reg_mem, layout.RELEASE_MEM: release_mem,
    layout.ACQUIRE_MEM: acquire_mem, layout.EVENT_WRITE: event_write,
    layout.SET_SH_REG: set_sh_reg, layout.SET_UCONFIG_REG: set_uconfig_reg,
    layout.DISPATCH_DIRECT: dispatch_direct, layout.DISPATCH_INDIRECT: dispatch_indirect,
    layout.NOP: lambda state, words: True,
}  # fmt: skip
_TYPE3 = 3
# src: pm4_pkt_struct_common.h PM4_TYPE_3_HEADER: bit 0 predicate, bit 1 shader type, rest 0.
_HEADER_RESERVED = 0xFD


class Processor:
    """Executes PM4 packets from streams of words."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.state = State(context)
        self.layouts = layout.layouts(context.host.chip.family)
        if context.spec.kernel is not None:
            self.layouts = self.layouts | kernel.LAYOUTS[context.spec.kernel.role]

    def run(self, stream: Stream) -> Progress:
        """One packet. Raises: PacketFault, MemoryFault, WaveFault, Hung."""
        context = self.context
        if stream.position >= stream.limit:
            return Progress.IDLE
        at = stream.position
        context.va, context.name = stream.va(at), ""
        context.words = stream.read(context, at, 1)
        length = self._length(context.words[0])
        if at + length > stream.limit:
            where = "write pointer" if stream.size_dw else "indirect buffer's end"
            raise context.fault("wrong length", f"{length} words run past the {where}")
        words = stream.read(context, at, length)
        context.words = words
        op = bits(words[0], 15, 8)
        self._check(op, words)
        masked = stream.masked
        if self._participates(stream, length):
            context.host.trace(
                "packet", queue=context.spec.queue_id, op=context.name, va=context.va
            )
            if not self._execute(op, words[1:], stream, at + length):
                return Progress.WAITING
        if masked:
            stream.masked = masked - length
        stream.position = at + length
        self._skip(stream)
        return Progress.MOVED

    def _length(self, header: int) -> int:
        context = self.context
        if header >> 30 != _TYPE3:
            raise context.fault("unknown packet type", f"{header >> 30}")
        if header & _HEADER_RESERVED:
            raise context.fault("reserved bits", "in the header")
        op, count = bits(header, 15, 8), bits(header, 29, 16)
        if op not in self.layouts:
            raise context.fault("unknown opcode", f"{op:#x}")
        if op == layout.NOP and count == layout.HEADER_ONLY_COUNT:
            return 1
        return count + 2

    def _check(self, op: int, words: tuple[int, ...]) -> None:
        form, payload = self.layouts[op], len(words) - 1
        self.context.name = form.name
        if payload == 0:
            return
        if payload < form.least or (form.most is not None and payload > form.most):
            raise self.context.fault("wrong length", f"{payload} payload words")
        for number, mask in enumerate(form.reserved[:payload], 1):
            if words[number] & mask:
                detail = f"word {number} has {words[number] & mask:#x}"
                raise self.context.fault("reserved bits", detail)

    def _participates(self, stream: Stream, length: int) -> bool:
        """Selects who executes the packet that ends in `length` words; whether any does."""
        self.state.xccs = self.state.everyone
        if not stream.masked:
            return True
        if length > stream.masked:
            raise self.context.fault("wrong length", "PRED_EXEC ends inside this packet")
        self.state.xccs = stream.xccs
        return bool(stream.xccs)

    def _execute(
        self, op: int, words: tuple[int, ...], stream: Stream, after: int
    ) -> bool:  # fmt: skip
        if op == layout.INDIRECT_BUFFER:
            return indirect_buffer(self.state, words, stream, after)
        if op == layout.COND_EXEC:
            return cond_exec(self.state, words, stream)
        if op == layout.PRED_EXEC:
            return pred_exec(self.state, words, stream)
        handler = _HANDLERS.get(op) or kernel.HANDLERS[op]
        return handler(self.state, words)

    def _skip(self, stream: Stream) -> None:
        if stream.skip:
            if stream.position + stream.skip > stream.limit:
                raise self.context.fault("wrong length", "COND_EXEC discards past the end")
            stream.position += stream.skip
            stream.skip = 0

    def enter(self, words: tuple[int, ...]) -> None:
        """Start the indirect buffer of three payload words. Raises: PacketFault."""
        indirect_buffer(self.state, words, Stream(0, 0, size_dw=1), 0)

    def run_buffer(self) -> Progress:
        """One packet of the indirect buffer that is being executed."""
        buffer = self.state.buffer
        if buffer is None:
            return Progress.IDLE
        progress = self.run(buffer)
        if self.state.buffer is buffer and buffer.position >= buffer.limit:
            self.state.buffer = None
        return progress


class Pm4Queue:
    """A ring of PM4 packets. Doorbell and write pointer count dwords and never wrap."""

    # src: gfx_v11_0.c gfx_v11_0_ring_set_wptr_compute: the doorbell is the 64-bit wptr in dwords.
    def __init__(self, context: Context) -> None:
        spec = context.spec
        self.context = context
        self.processor = Processor(context)
        self.ring = Stream(spec.ring_va, spec.start, spec.ring_bytes // 4, position=spec.start)
        self.wptr = spec.start

    def doorbell(self, value: int) -> None:
        """A new write pointer. Raises: PacketFault when it cannot be one."""
        check_wptr(self.context, value, self.wptr, self.ring.position, self.ring.size_dw)
        self.wptr = self.ring.limit = value

    def step(self) -> Progress:
        """One packet. Raises: PacketFault, MemoryFault, WaveFault, Hung."""
        self.ring.follow(self.context)
        if self.processor.state.buffer is not None:
            return self.processor.run_buffer()
        before = self.ring.position
        progress = self.processor.run(self.ring)
        if self.ring.position != before:
            # src: kfdtest PM4Queue.cpp: 32 bits, in dwords, wraps at the ring's size.
            self.context.write_int(
                self.context.spec.rptr_va, self.ring.position % self.ring.size_dw, 4
            )
        return progress

    @property
    def idle(self) -> bool:
        """Whether everything submitted is done."""
        return self.processor.state.buffer is None and self.ring.position == self.wptr

    @property
    def read_pointer(self) -> int:
        """Dwords that were read."""
        return self.ring.position


def check_wptr(context: Context, value: int, last: int, read: int, size: int) -> None:
    """Raises: PacketFault for a write pointer that goes back or overruns unread packets."""
    context.name = "doorbell"
    if value < last:
        raise context.fault("write pointer", f"went back from {last} to {value}")
    if value - read > size:
        raise context.fault("write pointer", f"{value - read} past {read} in a ring of {size}")
    if value - read == size:
        context.find("full ring", "read and write pointer are equal modulo its size")
    if not context.spec.wptr_va:  # over PCI it may be left out
        return
    stored = context.read_int(context.spec.wptr_va, 8)
    if stored < value:  # a later store may have come before its doorbell
        context.find("stale write pointer", f"memory has {stored}, the doorbell {value}")

"""The AQL packet processor: a ring of 64-byte packets, and the amd_queue_t around it."""

from __future__ import annotations

from boards.amd.cp import aql_layout as at
from boards.amd.cp import signal
from boards.amd.cp.aql_dispatch import DispatchPacket, NeedsScratch
from boards.amd.cp.context import Context, Progress, bits, dwords
from boards.amd.cp.engine_types import PacketFault, Scope
from boards.amd.cp.launch import launch
from boards.amd.cp.layouts import INDIRECT_BUFFER
from boards.amd.cp.pm4 import Processor
from boards.amd.cp.sync import Caches, apply_caches

_CONDITIONS = 4
_DEPENDENCIES = 5
_BUFFER_JUMP = 0xC0020000 | INDIRECT_BUFFER << 8
_VALID = 1 << 23
_SCOPES = {at.SCOPE_AGENT: Scope.AGENT, at.SCOPE_SYSTEM: Scope.SYSTEM}


class AqlQueue:
    """A ring of AQL packets. The doorbell is the index of the last packet that was written."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.read = self.limit = context.spec.start
        self.processor = Processor(context)
        self.in_buffer = False
        self.queue_va = 0
        self.starved = False
        self.begin = 0
        self.due = at.SCOPE_NONE
        """The release at the end of dispatches that nothing has waited for."""

    def doorbell(self, value: int) -> None:
        """Packets up to `value` may be there. Raises: PacketFault for an overrun ring."""
        # src: amd_aql_queue.cpp StoreRelaxed: producers ring in any order, so the index may
        # also go back; that is discarded.
        context = self.context
        context.name = "doorbell"
        limit = value + 1 & (1 << 64) - 1
        if limit <= self.limit:
            return
        if limit - self.read > self.packets:
            detail = f"packet {value} with {self.read} unread in a ring of {self.packets}"
            raise context.fault("write pointer", detail)
        stored = context.read_int(context.spec.wptr_va, 8)
        if stored < limit:
            context.find("stale write index", f"memory has {stored}, the doorbell is {value}")
        self.limit = limit

    @property
    def packets(self) -> int:
        """How many the ring holds now."""
        return self.context.spec.ring_bytes // at.PACKET_BYTES

    @property
    def idle(self) -> bool:
        """Whether everything submitted is done."""
        return self.read == self.limit

    @property
    def read_pointer(self) -> int:
        """Packets that were read."""
        return self.read

    def step(self) -> Progress:
        """One packet. Raises: PacketFault, MemoryFault, WaveFault, Hung."""
        if self.read == self.limit:
            return Progress.IDLE
        context = self.context
        if self.starved:
            if signal.value(context, self._inactive_signal()):
                return Progress.WAITING
            self.starved = False
        va = context.spec.ring_va + self.read % self.packets * at.PACKET_BYTES
        packet = context.read(va, at.PACKET_BYTES)
        context.va, context.words, context.name = va, dwords(packet), "AQL packet"
        try:
            self._connect()
            progress = self._run(packet, va)
        except PacketFault as fault:
            # of a PM4 packet in a buffer that one jumps to nothing is known but a stopped queue
            if not self.in_buffer:
                self._report(at.ERRORS.get(fault.kind, at.INVALID_PACKET))
            raise
        except NeedsScratch as needs:
            return self._starve(needs)
        if progress is Progress.MOVED and not self.in_buffer:
            context.write_int(va, at.INVALID, 2)
            self.read += 1
            context.write_int(context.spec.rptr_va, self.read, 8)
        return progress

    def _connect(self) -> None:
        """Find the amd_queue_t around the read index, once. Raises: PacketFault."""
        if self.queue_va:
            return
        context, spec = self.context, self.context.spec
        beside = at.QUEUE_READ_OFFSET - at.QUEUE_READ_INDEX
        offset = context.read_int(spec.rptr_va + beside, 4)
        if offset != at.QUEUE_READ_INDEX:
            detail = f"amd_queue_t has read_dispatch_id_field_base_byte_offset {offset}, not 128"
            raise context.fault("invalid packet", detail)
        self.queue_va = spec.rptr_va - offset
        ring = context.read_int(self.queue_va + at.QUEUE_RING, 8)
        count = context.read_int(self.queue_va + at.QUEUE_PACKETS, 4)
        if ring != spec.ring_va or count != self.packets:
            context.find("amd_queue_t", f"it describes {count} packets at {ring:#x}")

    def _run(self, packet: bytes, va: int) -> Progress:
        context = self.context
        header = int.from_bytes(packet[:2], "little")
        kind = header & 0xFF
        if kind == at.INVALID:
            context.name = "INVALID"
            return Progress.WAITING
        if self.in_buffer:
            return self._buffer_step(packet, header)
        acquire, release = bits(header, 10, 9), bits(header, 12, 11)
        if header & at.HEADER_RESERVED or max(acquire, release) > at.SCOPE_SYSTEM:
            raise context.fault("reserved bits", f"header {header:#x}")
        self.begin = context.host.ticks()
        if kind == at.KERNEL_DISPATCH:
            return self._kernel(packet, va, header)
        if kind in (at.BARRIER_AND, at.BARRIER_OR):
            return self._barrier(packet, header, every=kind == at.BARRIER_AND)
        if kind == at.VENDOR:
            return self._vendor(packet, header)
        raise context.fault("invalid packet", f"type {kind}")

    def _trace(self, name: str) -> None:
        context = self.context
        context.name = name
        context.host.trace("packet", queue=context.spec.queue_id, op=name, va=context.va)

    def _acquire(self, header: int) -> None:
        if header >> at.BARRIER_BIT & 1:
            self.context.waves.ended()
            self._release(self.due)
        scope = bits(header, 10, 9)
        if scope != at.SCOPE_NONE:
            apply_caches(self.context.waves, Caches(data=True, scope=_SCOPES[scope]))

    def _release(self, scope: int) -> None:
        self.due = at.SCOPE_NONE
        if scope != at.SCOPE_NONE:
            self.context.waves.release(_SCOPES[scope])

    def _finish(self, packet: bytes, header: int) -> Progress:
        """Release, and count the completion signal down.

        A dispatch without a signal may still run when the next one without a barrier bit begins.
        """
        context = self.context
        scope = max(self.due, bits(header, 12, 11))
        handle = int.from_bytes(packet[at.COMPLETION :], "little")
        if header & 0xFF == at.KERNEL_DISPATCH and not handle:
            self.due = scope
        else:
            self._release(scope)
        properties = context.read_int(self.queue_va + at.QUEUE_PROPERTIES, 4)
        times = (self.begin, context.host.ticks()) if properties & at.PROFILING else None
        # src: hipEventRecord (ROCclr rocvirtual.cpp, submitMarker): a barrier packet without a
        # release scope, for the times that the processor writes into its signal.
        kind = header & 0xFF
        waits = kind in (at.BARRIER_AND, at.BARRIER_OR) or (
            kind == at.VENDOR and packet[2] == at.FORMAT_BARRIER_VALUE
        )
        marker = waits and times is not None and bits(header, 12, 11) == at.SCOPE_NONE
        signal.complete(context, handle, times, data=not marker)
        return Progress.MOVED

    def _kernel(self, packet: bytes, va: int, header: int) -> Progress:
        self._trace("KERNEL_DISPATCH")
        context = self.context
        work = DispatchPacket(context, packet, va)
        queue = context.read(self.queue_va, at.QUEUE_BYTES)
        dispatch = work.build(queue, self.queue_va, self.read)
        self._acquire(header)
        launch(context, dispatch)
        return self._finish(packet, header)

    def _barrier(self, packet: bytes, header: int, *, every: bool) -> Progress:
        context = self.context
        context.name = "BARRIER_AND" if every else "BARRIER_OR"
        if any(packet[2:8]) or any(packet[48:56]):
            raise context.fault("reserved bits", "in a barrier packet")
        handles = [
            int.from_bytes(packet[8 + 8 * i : 16 + 8 * i], "little") for i in range(_DEPENDENCIES)
        ]
        states = [signal.value(context, handle) == 0 for handle in handles if handle]
        if states and not (all(states) if every else any(states)):
            return Progress.WAITING
        if states:  # signals come after the release of the work whose end they mark
            self.context.waves.settle()
        self._trace(context.name)
        self._acquire(header)
        return self._finish(packet, header)

    def _vendor(self, packet: bytes, header: int) -> Progress:
        context = self.context
        form = packet[2]
        if packet[3]:
            raise context.fault("invalid vendor packet", "reserved byte of the header")
        if form == at.FORMAT_BARRIER_VALUE:
            return self._barrier_value(packet, header)
        if form != at.FORMAT_PM4_IB:
            raise context.fault("invalid vendor packet", f"format {form}")
        self._trace("PM4_IB")
        jump = dwords(packet[4:24])
        if jump[0] != _BUFFER_JUMP or not jump[3] & _VALID or jump[1] & 3 or jump[2] >> 16:
            raise context.fault("invalid vendor packet", "no INDIRECT_BUFFER in it")
        if jump[4] != at.PM4_IB_REMAINING_DW or any(packet[24:56]):
            raise context.fault("invalid vendor packet", "dw_cnt_remain or reserved words")
        self._acquire(header)
        self.processor.enter(jump[1:4])
        self.in_buffer = True
        return Progress.MOVED

    def _buffer_step(self, packet: bytes, header: int) -> Progress:
        progress = self.processor.run_buffer()
        if self.processor.state.buffer is None:
            self.in_buffer = False
            return self._finish(packet, header)
        return progress

    def _barrier_value(self, packet: bytes, header: int) -> Progress:
        context = self.context
        context.name = "BARRIER_VALUE"
        if any(packet[4:8]) or any(packet[36:56]):
            raise context.fault("invalid vendor packet", "reserved words")
        handle, condition = int.from_bytes(packet[8:16], "little"), packet[32]
        if any(packet[33:36]) or condition >= _CONDITIONS:
            raise context.fault("invalid vendor packet", f"condition {condition}")
        if handle:
            mask = int.from_bytes(packet[24:32], "little", signed=True)
            wanted = int.from_bytes(packet[16:24], "little", signed=True)
            now = signal.value(context, handle) & mask
            # src: hsa.h hsa_signal_condition_t: EQ, NE, LT, GTE
            if not (now == wanted, now != wanted, now < wanted, now >= wanted)[condition]:
                return Progress.WAITING
            context.waves.settle()
        self._trace(context.name)
        self._acquire(header)
        return self._finish(packet, header)

    def _inactive_signal(self) -> int:
        return self.context.read_int(self.queue_va + at.QUEUE_INACTIVE_SIGNAL, 8)

    def _report(self, code: int) -> None:
        """Store why the queue stops where its owner listens, when it does."""
        handle = self._inactive_signal() if self.queue_va else 0
        if handle:
            signal.store(self.context, handle, code)

    def _starve(self, needs: NeedsScratch) -> Progress:
        """Ask the owner for scratch; it sets the signal back to 0 when there is some."""
        if not self._inactive_signal():
            raise self.context.fault("scratch", str(needs)) from needs
        self._report(needs.code)
        self.starved = True
        return Progress.WAITING

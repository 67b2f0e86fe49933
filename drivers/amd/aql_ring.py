"""A compute queue that reads AQL packets.

Every slot of the ring has a piece of a second memory, for a kernel's arguments or for PM4 words
that the slot's packet jumps to. All packets have the barrier bit: once the read pointer is past
packet n, everything before n is finished.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final

from drivers.amd.compute_ring import AmdComputeRing, AnyLauncher, wrong_kind
from drivers.amd.iface import HardwareQueue, Iface, Mailbox
from drivers.base.errors import BadArgument
from drivers.gpu.iface import Memory, Use
from drivers.gpu.ring import RingParts, Waited
from queues.amd import words as amd_words
from queues.amd.aql_launch import (
    EMPTY_SLOT,
    MAX_ITEMS,
    PACKET_BYTES,
    AqlLauncher,
    jump_slots,
    jumper,
    too_many,
)
from queues.amd.pm4_launch import Block, Packer, Scratch, Target, progress, words_of

SLOTS: Final = 1024
RING_BYTES: Final = SLOTS * PACKET_BYTES
FLUSHES: Final = 2
"""Interrupts per lap of a ring that fills up: each wakes threads that wait for room."""
PART: Final = SLOTS // 4
"""Packets of a graph that are written at once."""
MOST_ARGUMENTS_BYTES: Final = 4096
"""Of one kernel."""
SIDE_BYTES: Final = MOST_ARGUMENTS_BYTES + 64
"""Per slot in the second memory: a page apart, all slots would share one set of host cache."""
# src: ROCR inc/amd_hsa_queue.h amd_queue_t, inc/hsa.h hsa_queue_t: byte offsets
_TYPE_OFF, _BASE_OFF, _SIZE_OFF, _APERTURES_OFF, _READ_OFF_OFF = 0, 8, 24, 64, 136
_TMPRING_OFF, _PROPERTIES_OFF = 140, 180
_READ_ID_OFF: Final = 128
_PROPERTIES: Final = 1 << 1
"""AMD_QUEUE_PROPERTIES_IS_PTR64."""
_FEATURE_DISPATCH: Final = 1  # src: inc/hsa.h HSA_QUEUE_FEATURE_KERNEL_DISPATCH


def prepare_page(page: memoryview, ring: Memory, hardware: Sequence[int]) -> None:
    """Fill amd_queue_t, and every slot of the ring with an empty packet.

    `hardware` are the upper halves of the LDS and scratch apertures, and the last CU and wave.
    """
    struct.pack_into("=2IQ", page, _TYPE_OFF, 0, _FEATURE_DISPATCH, ring.gpu_va)
    struct.pack_into("=I", page, _SIZE_OFF, SLOTS)
    struct.pack_into("=4I", page, _APERTURES_OFF, *hardware)
    struct.pack_into("=I", page, _READ_OFF_OFF, _READ_ID_OFF)
    struct.pack_into("=I", page, _PROPERTIES_OFF, _PROPERTIES)
    ring.view()[:RING_BYTES] = EMPTY_SLOT * SLOTS


class AqlRing(AmdComputeRing):
    """Positions count packets."""

    decode_as = "aql"
    unit_bytes = PACKET_BYTES

    def __init__(
        self,
        parts: RingParts,
        hw: HardwareQueue,
        target: Target,
        mailbox: Mailbox | None,
        iface: Iface,
    ) -> None:
        super().__init__(parts, hw, target)
        self._cell = parts.progress().cast("Q")
        self._cell[0] = 0
        self._read = hw.read_pointer
        side = iface.allocate(SLOTS * SIDE_BYTES, Use.PACKETS, "arguments", host=True)
        self._side, self._side_va = side.view(), side.gpu_va
        self.afterwards = (side.free,)
        report: list[int] = []
        if mailbox is not None:
            report = amd_words.notify(target, mailbox_va=mailbox.va, event_id=mailbox.event_id)
            report = amd_words.once(target, report)
        done = progress(target, parts.progress_va, target.flavour.release_all)
        flush = Packer(words_of(done, report))
        self._flush = flush, jumper(target, flush.nwords)
        self._due = SLOTS // FLUSHES
        """Position from which on a ring that fills up requests its next interrupt."""
        self.limit = self._due
        """Position up to which packets may be written without reading `done`."""

    def packets_at(self, va: int, nbytes: int) -> bytes:
        off = va - self._side_va
        inside = 0 <= off <= len(self._side) - nbytes
        return bytes(self._side[off : off + nbytes]) if inside else b""

    def set_scratch(self, scratch: Scratch, lane_bytes: int) -> None:
        """Write the scratch fields of amd_queue_t; the queue is idle."""
        struct.pack_into(
            "=5I2QI", self.hw.page_view, _TMPRING_OFF, scratch.tmpring, *scratch.descriptor,
            scratch.va, scratch.xcc_bytes, lane_bytes,
        )  # fmt: skip

    @property
    def done(self) -> int:
        return max(self._cell[0], self._read[0] - 1)

    def room(self, count: int) -> int:
        """Return `put` once `count` packets may be written there.

        Raises: Hang when the ring stays full; the device's fault.
        """
        put = self.put
        if put + count <= self.limit:
            return put
        if self.broken is not None:
            raise self.broken.with_traceback(None)
        if put >= self._due:
            behind, self._due = self.due(put, SLOTS // FLUSHES)
            if behind:
                self.flush()
                return self.room(count)
        done, mark = self.done, put + count - SLOTS + 1
        if done < mark:
            self.wait_free(mark)
            done = self.done
        limit = min(done + SLOTS - 1, max(self._due, put + count))
        if self.put == put and self.broken is None:
            self.limit = limit
        return put

    def launch(self, launcher: AnyLauncher, words: Sequence[int], grid: Block) -> None:
        """One launch, its arguments checked."""
        if not isinstance(launcher, AqlLauncher):
            raise wrong_kind(self.name)
        put = self.room(1)
        slot = put % SLOTS
        off = slot * SIDE_BYTES
        values = launcher.values(self._side_va + off, grid)
        made = launcher.arguments(words, grid)
        end = off + len(made)
        if self.put == put:
            self._side[off:end] = made
            launcher.pack_into(self.bytes, slot * PACKET_BYTES, *values)
            if self.put == put:
                self.put = self.write_pointer[0] = put + 1
                self.ring_doorbell(put)
                return
        self.launch(launcher, words, grid)  # retry: a signal handler ran in between

    def quick(self, launcher: AnyLauncher, words: Sequence[int], grid: int) -> None:
        """A launch of `grid` workgroups in one dimension: the fast path of eager work."""
        if type(launcher) is not AqlLauncher:
            self.launch(launcher, words, (grid, 1, 1))
            return
        put = self.put
        if put >= self.limit:
            put = self.room(1)
        slot = put % SLOTS
        off, items = slot * SIDE_BYTES, grid * launcher.lanes
        if items > MAX_ITEMS:
            raise too_many(grid, launcher.lanes)
        if self.put == put:
            launcher.pack_arguments(self._side, off, *words)
            if self.put == put:  # no signal handler can run from here to the end of packing
                values = launcher.shared
                values[launcher.kernarg], values[launcher.grid] = self._side_va + off, items
                launcher.pack_into(self.bytes, slot * PACKET_BYTES, *values)
                if self.put == put:
                    self.put = self.write_pointer[0] = put + 1
                    self.ring_doorbell(put)
                    return
        self.quick(launcher, words, grid)  # retry: a signal handler ran in between

    def emit(self, words: Sequence[int]) -> None:
        """PM4 packets, which the slot's packet jumps to."""
        if 4 * len(words) > SIDE_BYTES:
            raise BadArgument(f"{len(words)} words of packets at once are too much for {self.name}")
        packer = Packer(words_of(words))
        self._write(packer, jumper(self.target, packer.nwords))

    def _write(self, packer: Packer, jumps: Packer, *, reports: bool = False) -> int:
        """Write packets, with the position after them in their hole "progress"; that position."""
        count = jump_slots(self.target)
        put = self.room(count)
        slot, mark = put % SLOTS, put + count
        off, values = slot * SIDE_BYTES, packer.template.copy()
        if packer.slots:
            values[packer.slots["progress"]] = mark
        jump, packets = jumps.template.copy(), bytearray(jumps.nbytes)
        jump[jumps.slots["ib"]] = self._side_va + off
        jumps.pack_into(packets, 0, *jump)
        at = slot * PACKET_BYTES
        until_end = min(len(packets), self.ring_bytes - at)
        rest = len(packets) - until_end
        if self.put == put:
            packer.pack_into(self._side, off, *values)
            if self.put == put:
                self.bytes[at : at + until_end] = packets[:until_end]
                self.bytes[:rest] = packets[until_end:]
                self.put = self.write_pointer[0] = mark
                self.ring_doorbell(mark - 1)
                if reports:
                    self.asks(mark)
                return mark
        return self._write(packer, jumps, reports=reports)  # retry: a signal handler ran in between

    def play(self, packets: memoryview) -> int:
        """Write at most PART prepared packets with one doorbell; the position after them."""
        nbytes = packets.nbytes
        count, put = nbytes // PACKET_BYTES, self.put
        if put + count > self.limit:
            put = self.room(count)
        at, mark = put % SLOTS * PACKET_BYTES, put + count
        rest = at + nbytes - self.ring_bytes
        if self.put == put:
            if rest <= 0:
                self.bytes[at : at + nbytes] = packets
            else:
                self.bytes[at:] = packets[: nbytes - rest]
                self.bytes[:rest] = packets[nbytes - rest :]
            self.put = self.write_pointer[0] = mark
            self.ring_doorbell(mark - 1)
            return mark
        return self.play(packets)  # retry: a signal handler ran in between

    def flush(self) -> int:
        """Release everything before to the system, then interrupt; the position to wait for."""
        return self._write(*self._flush, reports=True)

    def wait_for(
        self,
        reached: Callable[[], bool],
        timeout_s: float,
        steps: Callable[[], object] | None = None,
        mark: int = 0,
    ) -> Waited:
        """As of every ring; only a later packet shows that the last one has finished."""
        if self.broken is None:
            self.ask(mark)
        return super().wait_for(reached, timeout_s, steps, mark)

    def _let_go(self) -> None:
        self._cell = self._read = memoryview(bytearray(8)).cast("Q")
        self._side = memoryview(bytearray(SLOTS * SIDE_BYTES))  # a launch under way still writes

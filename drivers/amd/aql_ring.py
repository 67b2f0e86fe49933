"""A compute queue that reads AQL packets.

Every slot of the ring has a piece of a second memory, for a kernel's arguments or for PM4 words
that the slot's packet jumps to. All packets have the barrier bit: when the packet processor is past
packet n, everything before n is finished.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from drivers.amd.iface import HardwareQueue, Iface, Memory, Use
from drivers.amd.ring import About, AnyLauncher, Ring, wrong_kind
from drivers.base.errors import BadArgument
from queues import amd_words, pm4
from queues.amd_aql import EMPTY_SLOT, PACKET_BYTES, PACKET_FORMAT, AqlLauncher, jump
from queues.amd_launch import Block, Scratch, Target
from queues.pm4 import DataSel

SLOTS: Final = 1024
RING_BYTES: Final = SLOTS * PACKET_BYTES
MOST_ARGUMENTS_BYTES: Final = 4096
"""Of one kernel."""
SIDE_BYTES: Final = MOST_ARGUMENTS_BYTES + 64
"""Of every slot in the second memory: a page apart, all slots would share one set of host cache."""
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


class AqlRing(Ring):
    """Positions count packets."""

    decode_as = "aql"
    unit_bytes = PACKET_BYTES

    def __init__(self, about: About, hw: HardwareQueue, target: Target, iface: Iface) -> None:
        super().__init__(about, hw)
        self.target = target
        self._cell = about.progress().cast("Q")
        self._cell[0] = 0
        self._read = hw.read_pointer
        self._side_bo = iface.allocate(SLOTS * SIDE_BYTES, Use.PACKETS, "arguments", host=True)
        self._side, self._side_va = self._side_bo.view(), self._side_bo.gpu_va
        self.afterwards = (self._side_bo.free,)
        self._mailbox = about.mailbox_va, about.event_id
        self.limit = SLOTS
        """Position up to which packets may be written without looking at `done`."""

    def packets_at(self, va: int, nbytes: int) -> bytes:
        off = va - self._side_va
        inside = 0 <= off <= len(self._side) - nbytes
        return bytes(self._side[off : off + nbytes]) if inside else b""

    def set_scratch(self, scratch: Scratch, lane_bytes: int) -> None:
        """Tell the packet processor about private memory; the queue is idle."""
        struct.pack_into(
            "=5I2QI", self.hw.page_view, _TMPRING_OFF, scratch.tmpring, *scratch.descriptor,
            scratch.va, scratch.xcc_bytes, lane_bytes,
        )  # fmt: skip

    @property
    def done(self) -> int:
        return max(self._cell[0], self._read[0] - 1)

    def room(self, count: int) -> int:
        """Slot where `count` packets may be written now, one behind the other around the end.

        Raises: Hang when the ring stays full; the device's fault.
        """
        if self.put + count > self.limit:
            if self.broken is not None:
                raise self.broken.with_traceback(None)
            self.wait_free(self.put + count - SLOTS + 1)
            self.limit = self.done + SLOTS - 1
        return self.put % SLOTS

    def commit(self, count: int) -> None:
        """What was written at `room` is complete: tell the hardware."""
        self.put += count
        self.write_pointer[0] = self.put
        self.ring_doorbell(self.put - 1)

    def launch(self, launcher: AnyLauncher, words: Sequence[int], grid: Block) -> None:
        """One launch, its arguments checked."""
        if not isinstance(launcher, AqlLauncher):
            raise wrong_kind(self.name)
        slot = self.room(1)
        off = slot * SIDE_BYTES
        launcher.put(self._side, off, words, grid)
        values = launcher.values(self._side_va + off, grid)
        launcher.pack_into(self.bytes, slot * PACKET_BYTES, *values)
        self.commit(1)

    def quick(self, launcher: AnyLauncher, words: Sequence[int], grid: int) -> None:
        """A launch of `grid` workgroups in one dimension: the fast path of eager work."""
        if type(launcher) is not AqlLauncher:
            self.launch(launcher, words, (grid, 1, 1))
            return
        slot = self.room(1) if self.put >= self.limit else self.put % SLOTS
        off = slot * SIDE_BYTES
        launcher.pack_arguments(self._side, off, *words)
        launcher.pack_into(
            self.bytes, slot * PACKET_BYTES, *launcher.quick(self._side_va + off, grid)
        )
        self.put = put = self.put + 1
        self.write_pointer[0] = put
        self.ring_doorbell(put - 1)

    def emit(self, words: Sequence[int]) -> None:
        """PM4 packets, which the slot's packet jumps to."""
        if 4 * len(words) > SIDE_BYTES:
            raise BadArgument(f"{len(words)} words of packets at once are too much for {self.name}")
        slot = self.room(1)
        off = slot * SIDE_BYTES
        struct.pack_into(f"={len(words)}I", self._side, off, *words)
        packet = jump(self._side_va + off, words)
        struct.pack_into(PACKET_FORMAT, self.bytes, slot * PACKET_BYTES, *packet)
        self.commit(1)

    def play(self, packets: memoryview) -> None:
        """Packets that are ready, with one doorbell, or one for every half ring."""
        step = SLOTS // 2 * PACKET_BYTES
        for first in range(0, packets.nbytes, step):
            part = packets[first : first + step]
            count = part.nbytes // PACKET_BYTES
            at = self.room(count) * PACKET_BYTES
            until_end = min(part.nbytes, self.ring_bytes - at)
            self.bytes[at : at + until_end] = part[:until_end]
            self.bytes[: part.nbytes - until_end] = part[until_end:]
            self.commit(count)

    def flush(self) -> int:
        """Everything before becomes visible to all, then an interrupt; what to wait for."""
        flavour, (mailbox_va, event_id) = self.target.flavour, self._mailbox
        done = pm4.release_mem(
            flavour,
            addr=self.progress_va,
            data=self.put + 1,
            data_sel=DataSel.SEND_64_BIT_DATA,
            caches=flavour.release_all,
        )
        ring = amd_words.notify(self.target, mailbox_va=mailbox_va, event_id=event_id)
        self.emit([*amd_words.once(self.target, done), *amd_words.once(self.target, ring)])
        return self.put

    def settled(self) -> int:
        """What to wait for until everything given so far is done."""
        return self.put if self.idle else self.flush()

    def _let_go(self) -> None:
        self._cell = self._read = memoryview(bytearray(8)).cast("Q")
        self._side = memoryview(b"")

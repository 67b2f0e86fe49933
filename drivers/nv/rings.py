"""The two queues of an NVIDIA device: kernels on one channel, copies on another."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from drivers.base.errors import DeviceError
from drivers.gpu.incident import Incident
from drivers.gpu.pair import RingPair
from drivers.gpu.recovery import Recovery
from drivers.gpu.ring import ComputeRing, CopyRing, Ring, RingParts
from drivers.gpu.transfers import Transfers
from drivers.gpu.waits import Waits
from drivers.nv.nvk.channel import Channel
from drivers.nv.push_ring import LINES, PushRing
from queues.nv import words as nv_words
from queues.nv.classes import WORD_BYTES, Subchannel, high_low
from queues.nv.launch import LINE_BYTES, Block, Launcher
from queues.nv.words import COPY_MAX_BYTES, COPY_NUMBERS, Target

STEP_OFF: Final = 16
"""Of a graph's progress, behind the ring's own."""


class NvComputeRing(PushRing, ComputeRing):
    """The queue of kernels."""

    subchannel = int(Subchannel.COMPUTE)

    def __init__(self, parts: RingParts, hw: Channel, target: Target) -> None:
        PushRing.__init__(self, parts, hw, target)
        self.stale: object = True
        self.foreign = parts.foreign
        self.clean = -1
        self.finished = parts.progress()[STEP_OFF:].cast("Q")
        """How many launches of a graph are done."""
        self.finished[0] = 0

    def steps(self) -> object:
        return self.done, self.finished[0]

    @property
    def step_va(self) -> int:
        """Where a graph's launches write their numbers."""
        return self.progress_va + STEP_OFF

    def _let_go(self) -> None:
        super()._let_go()
        self.finished = memoryview(bytearray(8)).cast("Q")

    def acquire(self) -> None:
        """Invalidate instruction, data and constant caches for all later kernels."""
        self.emit(nv_words.invalidate(self.target))

    def launch(self, launcher: Launcher, args: Sequence[int], grid: Block) -> None:
        """One launch, its arguments checked."""
        before = put = self.put
        line = put % LINES
        mark, at = put + launcher.nlines, line * LINE_BYTES
        if mark > self.limit or line + launcher.nlines > LINES:
            put, at = self.room(launcher.nbytes)
            mark = put + launcher.nlines
        values = launcher.values(args, self.ring_va + at, grid, mark)
        if self.put == before:
            launcher.pack_into(self.bytes, at, *values)
            if self.send(at, launcher.nwords, before, mark):
                return
        self.launch(launcher, args, grid)  # retry: a signal handler ran in between


class NvCopyRing(PushRing, CopyRing):
    """The queue of copies."""

    subchannel = int(Subchannel.COPY)

    def __init__(self, parts: RingParts, hw: Channel, target: Target) -> None:
        PushRing.__init__(self, parts, hw, target)
        words = nv_words.copy(target, dst=0, src=0, nbytes=1)
        packed = struct.pack(f"<{len(words)}I", *words)
        numbers = WORD_BYTES * (1 + COPY_NUMBERS)
        self._first, self._rest = packed[:WORD_BYTES], packed[numbers:] + self._tail.head
        self._last = self._tail.end
        parts_of = f"{WORD_BYTES}s{COPY_NUMBERS}I{len(self._rest)}sQ{len(self._last)}s"
        self._copy = struct.Struct(f"<{parts_of}")

    def copy(self, *, dst: int, src: int, nbytes: int) -> None:
        """Copy between GPU addresses, then the progress."""
        if not 0 < nbytes <= COPY_MAX_BYTES:
            self.emit(nv_words.copies(self.target, dst=dst, src=src, nbytes=nbytes))
            return
        form, before = self._copy, self.put
        put, at = self.room(form.size)
        mark = put + -(-form.size // LINE_BYTES)
        (dst_high, dst_low), (src_high, src_low) = high_low(dst), high_low(src)
        if self.put == before:
            form.pack_into(
                self.bytes, at, self._first, src_high, src_low, dst_high, dst_low,
                nbytes, nbytes, nbytes, self._rest, mark, self._last,
            )  # fmt: skip
            if self.send(at, form.size // WORD_BYTES, before, mark):
                return
        self.copy(dst=dst, src=src, nbytes=nbytes)  # retry: a signal handler ran in between

    def emit_all(self, packets: Iterable[Sequence[int]]) -> None:
        """Packets in order, then the progress."""
        self.emit_parts(packets)


NvPair: TypeAlias = RingPair[NvComputeRing, NvCopyRing]
NvWaits: TypeAlias = Waits[NvComputeRing, NvCopyRing]
NvTransfers: TypeAlias = Transfers[NvComputeRing, NvCopyRing]


class NvRecovery(Recovery[NvComputeRing, NvCopyRing]):
    """Replaces queues that stopped, and every one whose channel RM has torn down."""

    def stuck(self, ring: Ring) -> bool:
        """Whether a queue makes no progress, or could make none with its next work."""
        return (isinstance(ring, PushRing) and ring.hw.dead) or super().stuck(ring)

    def replace(self, ring: Ring, error: DeviceError) -> Incident | None:
        """Replace a queue; what is reported then is of the other one, and comes next."""
        reported = super().replace(ring, error)
        if reported is not None:
            self._left.append(reported)
        return reported

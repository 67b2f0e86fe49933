"""The two queues of an Adreno: kernels in one context, copies in another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Final, TypeAlias

from drivers.base.errors import DeviceError
from drivers.gpu.incident import Incident
from drivers.gpu.pair import RingPair
from drivers.gpu.recovery import Recovery
from drivers.gpu.ring import ComputeRing, CopyRing, Ring, RingParts
from drivers.gpu.transfers import Transfers
from drivers.gpu.waits import Waits
from drivers.qcom.gate import Gate
from drivers.qcom.iface import QcomQueue
from drivers.qcom.stream_ring import LINES, StreamRing
from queues.qcom import words as qcom_words
from queues.qcom.chips import Chip
from queues.qcom.launch import LINE_BYTES, Block, Launcher
from queues.qcom.pieces import pieces

STEP_OFF: Final = 16
"""Of a graph's progress, behind the ring's own."""


class QcomComputeRing(StreamRing, ComputeRing):
    """The queue of kernels."""

    def __init__(self, parts: RingParts, hw: QcomQueue, chip: Chip, gate: Gate) -> None:
        StreamRing.__init__(self, parts, hw, chip, gate)
        self.stale: object = True
        self.foreign = parts.foreign
        self.clean = -1
        self.finished = parts.progress()[STEP_OFF:].cast("I")
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
        self.finished = memoryview(bytearray(4)).cast("I")

    def acquire(self) -> None:
        """Nothing: every submission begins with invalidated caches."""

    def launch_all(self, launcher: Launcher, args: Sequence[int], grid: Block) -> None:
        """A launch, its arguments checked; a long one in pieces, each a submission."""
        if prod(grid) <= launcher.most_groups:
            self.launch(launcher, args, grid)
            return
        for first, part in pieces(grid, launcher.most_groups):
            self.launch(launcher, args, part, first)

    def launch(self, launcher: Launcher, args: Sequence[int], grid: Block, first: int = 0) -> None:
        """Workgroups from number `first` on, as one submission; the arguments are checked."""
        before = put = self.put
        line = put % LINES
        mark, at = put + launcher.nlines, line * LINE_BYTES
        if mark > self.limit or line + launcher.nlines > LINES:
            put, at = self.room(launcher.nbytes)
            mark = put + launcher.nlines
        values = launcher.values(args, grid, mark, first)
        if self.put == before:
            launcher.pack_into(self.bytes, at, *values)
            if self.send(at, launcher.nbytes, before, mark):
                return
        self.launch(launcher, args, grid, first)  # retry: a signal handler ran in between


class QcomCopyRing(StreamRing, CopyRing):
    """The queue of copies."""

    def __init__(self, parts: RingParts, hw: QcomQueue, chip: Chip, gate: Gate) -> None:
        StreamRing.__init__(self, parts, hw, chip, gate)

    def copy(self, *, dst: int, src: int, nbytes: int) -> None:
        """Copy between GPU addresses, then the progress."""
        self.emit_parts([*qcom_words.copies(dst, src, nbytes), qcom_words.copied()])

    def emit_all(self, packets: Iterable[Sequence[int]]) -> None:
        """Packets in order, then the progress."""
        self.emit_parts(packets)


QcomPair: TypeAlias = RingPair[QcomComputeRing, QcomCopyRing]
QcomTransfers: TypeAlias = Transfers[QcomComputeRing, QcomCopyRing]
QcomWaits: TypeAlias = Waits[QcomComputeRing, QcomCopyRing]


class QcomRecovery(Recovery[QcomComputeRing, QcomCopyRing]):
    """Replaces queues that stopped, and every one whose context the kernel has invalidated."""

    def stuck(self, ring: Ring) -> bool:
        """Whether a queue makes no progress, or could make none with its next work."""
        return (isinstance(ring, StreamRing) and ring.hw.dead) or super().stuck(ring)

    def replace(self, ring: Ring, error: DeviceError) -> Incident | None:
        """Replace a queue; what is reported then is of the other one, and comes next."""
        reported = super().replace(ring, error)
        if reported is not None:
            self._left.append(reported)
        return reported

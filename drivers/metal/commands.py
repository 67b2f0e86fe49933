"""Steps of queues: checked commands that encode themselves into a ring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from drivers.base.contracts import Grid
from drivers.metal.memory import Block
from drivers.metal.owner import MetalOwner
from drivers.metal.ring import BLIT, COMPUTE, Ring
from drivers.metal.signal import Marker, MetalMarkers

COPY_UNIT_BYTES: Final = 4
"""Of a blit between buffers: the rest is copied by a kernel.
# src: Apple, copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:, "a multiple of 4" """


def bind(ring: Ring, encoder: int, place: int, block: Block, offset: int = 0) -> None:
    """Name a buffer to the open compute encoder, unless it has it there."""
    known = ring.bound.get(place)
    if known is None or known[0] is not block or known[1] != offset:
        ring.api.send["setBuffer:offset:atIndex:"](encoder, block.handle, offset, place)
        ring.bound[place] = block, offset


def start(ring: Ring, encoder: int, pipeline: int, grid: Grid, block: Grid) -> None:
    """Dispatch a kernel whose buffers are named."""
    if ring.pipeline != pipeline:
        ring.api.send["setComputePipelineState:"](encoder, pipeline)
        ring.pipeline = pipeline
    ring.api.send["dispatchThreadgroups:threadsPerThreadgroup:"](encoder, grid, block)


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel with its memory."""

    ring: Ring
    pipeline: int
    """Of its program, which may be closed before this runs: it stays while a queue may use it."""
    blocks: tuple[Block, ...]
    grid: Grid
    block: Grid

    def __call__(self) -> bool:
        encoder = self.ring.encoder(COMPUTE)
        for place, block in enumerate(self.blocks):
            bind(self.ring, encoder, place, block)
        start(self.ring, encoder, self.pipeline, self.grid, self.block)
        return True


@dataclass(frozen=True, slots=True)
class Transfer:
    """A copy between two buffers: whole words by the copy engine, the last bytes by a kernel."""

    device: MetalOwner
    ring: Ring
    blocks: tuple[Any, ...]
    """Destination, source; 0 while one is open."""
    nbytes: int

    def __call__(self) -> bool:
        dst, src = self.blocks
        whole = self.nbytes - self.nbytes % COPY_UNIT_BYTES
        if dst is src:
            return True
        if whole:
            self.ring.api.send["copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:"](
                self.ring.encoder(BLIT), src.handle, 0, dst.handle, 0, whole
            )
        if whole != self.nbytes:
            pipeline = self.device.tail_copy()
            encoder = self.ring.encoder(COMPUTE)
            for place, block in enumerate(self.blocks):
                bind(self.ring, encoder, place, block, whole)
            start(self.ring, encoder, pipeline, (1, 1, 1), (self.nbytes - whole, 1, 1))
        return True


@dataclass(frozen=True, slots=True)
class Gate:
    """Nothing later begins before the signal has the value.

    Where it has that by work that failed, everything later is dropped, and signals that it would
    have set get their values: the failure is raised before anything that waits for them goes on.
    """

    ring: Ring
    signal: MetalMarkers
    value: int

    def __call__(self) -> bool:
        reached = self.signal.reached()
        failure = self.signal.failure(self.value)
        if failure is not None:
            dropped = list(self.ring.pending)
            self.ring.pending.clear()
            for step in dropped:
                if isinstance(step, Flag) and step.value is not None:
                    step.signal.fail(failure, step.value)
            return False
        if reached >= self.value:
            return True
        marker = self.signal.marker_of(self.value)
        if marker is None:
            return False
        if marker.ring is not self.ring:  # one ring is in order
            self.ring.wait(self.signal.event, self.value)
        return True


@dataclass(frozen=True, slots=True)
class Flag:
    """The end of a command buffer, which sets a signal and gives it a time."""

    ring: Ring
    signal: MetalMarkers
    value: int | None

    def __call__(self) -> bool:
        work = self.ring.work()
        if self.value is not None and not self.signal.closed:
            self.ring.signal(self.signal.event, self.value)
        self.signal.coming(Marker(work, self.value, self.ring))
        self.ring.flush()
        return True


@dataclass(frozen=True, slots=True)
class Fence:
    """A barrier. The queue is in order, and so are its encoders: it costs nothing."""

    def __call__(self) -> bool:
        return True


def filled(step: Any, number: int, word: Block) -> Any:
    """A launch or a copy with another buffer as argument `number`."""
    blocks: Sequence[Block] = step.blocks
    return replace(step, blocks=(*blocks[:number], word, *blocks[number + 1 :]))

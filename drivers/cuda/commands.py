"""Steps of queues: checked commands that enqueue themselves into a ring's stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from drivers.base.contracts import Grid
from drivers.cuda.events import Events
from drivers.cuda.program import Kernel
from drivers.cuda.ring import Ring
from drivers.cuda.signal import CudaMarkers, Marker


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel with its arguments. A program that is closed stays while a stream may use it."""

    ring: Ring
    kernel: Kernel
    words: tuple[int, ...]
    """64-bit words, cut to the sizes of the kernel's arguments."""
    grid: Grid
    block: Grid
    shared_bytes: int = 0
    """Beside what every launch of the kernel has."""

    def __call__(self) -> bool:
        start(self.ring, self.kernel, self.words, self.grid, self.block, self.shared_bytes)
        return True

    def filled(self, number: int, word: int) -> Launch:
        """The same with another argument."""
        words = [*self.words]
        words[number] = word & self.kernel.masks[number]
        return replace(self, words=tuple(words))


def start(
    ring: Ring, kernel: Kernel, words: tuple[int, ...], grid: Grid, block: Grid, added: int = 0
) -> None:
    """Enqueue a kernel."""
    extra = kernel.put(words)
    shared = kernel.dynamic + added
    code = ring.start(kernel.function, *grid, *block, shared, ring.stream, 0, extra)
    if code:
        ring.api.fail("cuLaunchKernel", code)
    ring.kernels.append(kernel.name)
    ring.enqueued += 1
    ring.used = True


class Place(NamedTuple):
    """One side of a copy."""

    gpu_va: int
    context: int
    """Of the device whose memory it is."""


OPEN = Place(0, 0)
"""A side that is not known yet."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A copy between two buffers."""

    ring: Ring
    dst: Place
    src: Place
    nbytes: int

    def __call__(self) -> bool:
        dst, src, ring = self.dst, self.src, self.ring
        if not self.nbytes or dst.gpu_va == src.gpu_va:
            return True
        do = ring.api.do
        if dst.context == src.context:
            do("cuMemcpyDtoDAsync_v2", dst.gpu_va, src.gpu_va, self.nbytes, ring.stream)
        else:
            do("cuMemcpyPeerAsync", *dst, *src, self.nbytes, ring.stream)
        ring.count()
        return True

    def filled(self, number: int, word: Place) -> Transfer:
        """The same with another destination (0) or source (1)."""
        return replace(self, src=word) if number else replace(self, dst=word)


@dataclass(frozen=True, slots=True)
class Gate:
    """Nothing later begins before the signal has the value."""

    ring: Ring
    signal: CudaMarkers
    value: int

    def __call__(self) -> bool:
        if self.signal.reached() >= self.value:
            return True
        marker = self.signal.marker_of(self.value)
        if marker is None:
            return False
        if marker.ring is not self.ring:  # one stream is in order
            self.ring.follow(marker.event)
        return True


@dataclass(frozen=True, slots=True)
class Flag:
    """An event that sets a signal."""

    ring: Ring
    events: Events
    signal: CudaMarkers
    value: int | None
    """None: a time alone."""

    def __call__(self) -> bool:
        event = self.events.record(self.ring)
        self.signal.coming(Marker(event, self.value, self.ring, self.ring.enqueued))
        return True


@dataclass(frozen=True, slots=True)
class Fence:
    """A barrier. A stream is in order: it costs nothing."""

    def __call__(self) -> bool:
        return True


Step: TypeAlias = Launch | Transfer | Gate | Flag | Fence

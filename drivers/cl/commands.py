"""What a queue's steps are: commands of a ring, checked, with their memory, that enqueue
themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from drivers.base.contracts import Grid
from drivers.base.errors import BadArgument, Unsupported
from drivers.cl.errors import error_of, signed
from drivers.cl.memory import FINE, Block, ClBuffer
from drivers.cl.owner import ClOwner
from drivers.cl.program import DIMENSIONS, ITEMS_OF_UNIT, SCRATCH_ITEMS_OF_UNIT, ClProgram, Kernel
from drivers.cl.ring import Ring
from drivers.cl.signal import ClMarkers, Marker
from drivers.hosted.owned import own_buffer

_BITS32: Final = (1 << 32) - 1


def buffer_block(device: ClOwner, value: object) -> Block:
    """The memory of an argument. Raises: BadArgument, UseAfterFree."""
    found: ClBuffer = own_buffer(device, value)
    return found.block


@dataclass(slots=True)
class Launch:
    """A kernel with its memory. The list `blocks` is of one launch, and never changes."""

    device: ClOwner
    ring: Ring
    program: ClProgram
    kernel: Kernel
    blocks: Sequence[Block]
    grid: Grid
    block: Grid
    shared_bytes: int = 0
    """Local memory that the kernel takes as its last argument, where it does."""

    def filled(self, number: int, block: Block) -> Launch:
        """The same with another argument."""
        blocks = [*self.blocks]
        blocks[number] = block
        return replace(self, blocks=blocks)

    def prepare(self) -> Kernel:
        """With the device's lock held: the kernel object with all arguments and sizes set."""
        device, program, kernel, grid = self.device, self.program, self.kernel, self.grid
        kernel.holds = None
        if device.hidden_args:
            grid = items(device, program, grid)
            scratch = device.heap.scratch(grid[0] * program.scratch_bytes)
            kernel.arguments([*self.blocks, scratch])
            kernel.number(program.nargs + 1, self.grid[0])
        else:
            kernel.arguments(self.blocks)
            if self.shared_bytes:
                kernel.shared(len(self.blocks), self.shared_bytes)
        kernel.sizes(grid, self.block)
        kernel.holds = self.blocks
        return kernel

    def __call__(self) -> bool:
        kernel = self.kernel
        start(self.ring, kernel if kernel.holds is self.blocks else self.prepare())
        return True


def start(ring: Ring, kernel: Kernel) -> None:
    """Enqueue a kernel whose arguments and sizes are set."""
    call = ring.api.functions["clEnqueueNDRangeKernel"]
    whole, local = kernel.whole, kernel.local
    status = call(ring.handle, kernel.handle, DIMENSIONS, 0, whole, local, 0, 0, 0)
    if status & _BITS32:
        raise error_of("clEnqueueNDRangeKernel", signed(status))
    ring.enqueued += 1


def items(device: ClOwner, program: ClProgram, grid: Grid) -> Grid:
    """Work items of a launch in a processor's shape: each takes a range of the grid along x."""
    each = SCRATCH_ITEMS_OF_UNIT if program.scratch_bytes else ITEMS_OF_UNIT
    return min(grid[0], each * device.units), grid[1], grid[2]


@dataclass(slots=True)
class Transfer:
    """A copy between two buffers."""

    device: ClOwner
    ring: Ring
    dst: Block
    src: Block
    nbytes: int

    def filled(self, number: int, block: Block) -> Transfer:
        """The same with another destination (0) or source (1). Raises: Unsupported."""
        return (replace(self, src=block) if number else replace(self, dst=block)).checked()

    @property
    def mixed(self) -> bool:
        """Whether one side is a cl_mem, and the other memory with an address."""
        both = isinstance(self.dst, Block) and isinstance(self.src, Block)
        return both and bool(self.dst.handle) != bool(self.src.handle)

    @property
    def overlaps(self) -> bool:
        """Whether both sides are parts of one buffer, with bytes of one in the other."""
        dst, src = self.dst, self.src
        if not (isinstance(dst, Block) and isinstance(src, Block)) or dst is src:
            return False
        return dst.base is src.base and abs(dst.origin - src.origin) < self.nbytes

    def checked(self) -> Transfer:
        """Itself. Raises: Unsupported between a lent cl_mem and memory of kind COARSE; BadArgument
        for two parts of one buffer that overlap."""
        if self.overlaps:
            raise BadArgument("a copy between bytes that overlap", hint="copy through a buffer")
        if self.mixed and self.device.memory_kind != FINE:
            raise Unsupported("a copy between a cl_mem and coarse SVM", hint="compute it: x + 0")
        return self

    def __call__(self) -> bool:
        if not self.nbytes or self.dst is self.src:
            return True
        api, queue = self.ring.api, self.ring.handle
        self.ring.enqueued += 1
        dst, src = self.dst, self.src
        if dst.handle and src.handle:
            handles = src.handle, dst.handle
            api.do("clEnqueueCopyBuffer", queue, *handles, 0, 0, self.nbytes, 0, 0, 0)
        elif dst.handle or src.handle:  # fine grain: the host's address, too
            call = "clEnqueueWriteBuffer" if dst.handle else "clEnqueueReadBuffer"
            handle, address = (dst.handle, src.gpu_va) if dst.handle else (src.handle, dst.gpu_va)
            api.do(call, queue, handle, 0, 0, self.nbytes, address, 0, 0, 0)
        else:
            ends = self.dst.gpu_va, self.src.gpu_va
            api.do("clEnqueueSVMMemcpy", queue, 0, *ends, self.nbytes, 0, 0, 0)
        return True


@dataclass(slots=True)
class Gate:
    """Nothing later begins before the signal has the value."""

    ring: Ring
    signal: ClMarkers
    value: int

    def __call__(self) -> bool:
        if self.signal.reached() >= self.value:
            return True
        marker = self.signal.marker_of(self.value)
        if marker is None:
            return False
        self.ring.wait_for(marker)
        return True


@dataclass(slots=True)
class Flag:
    """A marker that sets a signal."""

    ring: Ring
    signal: ClMarkers
    value: int | None
    """None: a time alone."""

    def __call__(self) -> bool:
        event = self.ring.marker()
        self.ring.enqueued += 1
        self.signal.coming(Marker(event, self.value, self.ring, self.ring.enqueued))
        return True


@dataclass(slots=True)
class Fence:
    """A barrier. The queue is in order: it costs nothing."""

    def __call__(self) -> bool:
        return True


Step: TypeAlias = Launch | Transfer | Gate | Flag | Fence


def filled(step: Step, number: int, word: Any) -> Step:
    """A step like this one, with argument `number` filled in."""
    return step.filled(number, word) if isinstance(step, Launch | Transfer) else step

"""Steps of queues -> commands of a ring: checked, with their memory, ready to be enqueued."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from drivers.base import launches
from drivers.base.contracts import Grid, Param
from drivers.base.errors import BadArgument
from drivers.cl.errors import error_of, not_its, signed
from drivers.cl.memory import Block, ClBuffer
from drivers.cl.program import DIMENSIONS, ITEMS_OF_UNIT, SCRATCH_ITEMS_OF_UNIT, ClProgram, Kernel
from drivers.cl.ring import Ring
from drivers.cl.signal import ClSignal, Marker
from queues.cl.steps import Copy, Exec, Mark, Step, Wait

if TYPE_CHECKING:
    from drivers.cl.device import ClDevice

OPEN: Final = Block(0, 0, 0)
"""In place of a Param without a value."""
ONE: Final[Grid] = (1, 1, 1)
_BITS32: Final = (1 << 32) - 1


def buffer_block(device: ClDevice, value: Any, values: Sequence[Any]) -> Block:
    """The memory of an argument. Raises: BadArgument, UseAfterFree."""
    if isinstance(value, Param):
        if not values:
            return OPEN
        value = values[value.index]
    if not isinstance(value, ClBuffer) or value.device is not device:
        raise not_its("buffer", value, device.name, "copy it there; kernels take buffers alone")
    return value.block


def side_block(device: ClDevice, value: Any, nbytes: int, values: Sequence[Any]) -> Block:
    """One side of a copy. Raises: BadArgument, UseAfterFree."""
    block = buffer_block(device, value, values)
    given = values[value.index] if isinstance(value, Param) and values else value
    if block is not OPEN and nbytes > given.nbytes:
        raise BadArgument(f"{nbytes} bytes are outside of {given.nbytes}", hint="copy less")
    return block


def checked_program(device: ClDevice, program: object, nargs: int) -> ClProgram:
    """Raises: BadArgument, UseAfterFree."""
    if not isinstance(program, ClProgram) or program.device is not device:
        raise launches.bad_program(device.name, program)
    _ = program.kernel
    if nargs != program.nargs:
        raise BadArgument(f"{nargs} arguments", hint=f"{program.name} takes {program.nargs}")
    return program


def checked_signal(device: ClDevice, signal: object) -> ClSignal:
    """Raises: BadArgument, UseAfterFree."""
    if not isinstance(signal, ClSignal) or signal.device is not device:
        raise not_its("signal", signal, device.name, "use new_signal()")
    signal.check()
    return signal


@dataclass(slots=True)
class Launch:
    """A kernel with its memory."""

    device: ClDevice
    ring: Ring
    program: ClProgram
    kernel: Kernel
    blocks: Sequence[Block]
    grid: Grid
    block: Grid

    def __call__(self) -> bool:
        enqueue(
            self.device, self.ring, self.program, self.kernel, self.blocks, self.grid, self.block
        )
        return True


def enqueue(
    device: ClDevice, ring: Ring, program: ClProgram, kernel: Kernel, blocks: Sequence[Block],
    grid: Grid, block: Grid,
) -> None:  # fmt: skip
    """With the device's lock held: set the arguments and hand the kernel to its queue."""
    prepare(device, program, kernel, blocks, grid)
    shape = items(device, program, grid) if device.hidden_args else grid
    whole, local = kernel.sizes(shape, block)
    start(ring, kernel.handle, whole, local)


def prepare(
    device: ClDevice, program: ClProgram, kernel: Kernel, blocks: Sequence[Block], grid: Grid
) -> None:
    """Set all arguments."""
    if device.hidden_args:
        nargs = program.nargs
        count = items(device, program, grid)[0]
        kernel.arguments([*blocks, device.heap.scratch(count * program.scratch_bytes)])
        kernel.number(nargs + 1, grid[0])
    else:
        kernel.arguments(blocks)


def start(ring: Ring, handle: int, whole: int, local: int) -> None:
    """Enqueue a kernel whose arguments are set."""
    call = ring.api.functions["clEnqueueNDRangeKernel"]
    status = call(ring.handle, handle, DIMENSIONS, 0, whole, local, 0, 0, 0)
    if status & _BITS32:
        raise error_of("clEnqueueNDRangeKernel", signed(status))
    ring.enqueued += 1


def items(device: ClDevice, program: ClProgram, grid: Grid) -> Grid:
    """Work items of a launch in a processor's shape: each takes a range of the grid along x."""
    each = SCRATCH_ITEMS_OF_UNIT if program.scratch_bytes else ITEMS_OF_UNIT
    return min(grid[0], each * device.units), grid[1], grid[2]


@dataclass(slots=True)
class Transfer:
    """A copy between two buffers."""

    ring: Ring
    dst: Block
    src: Block
    nbytes: int

    @property
    def blocks(self) -> Sequence[Block]:
        """Its memory."""
        return self.dst, self.src

    def __call__(self) -> bool:
        if not self.nbytes or self.dst is self.src:
            return True
        api, queue = self.ring.api, self.ring.handle
        self.ring.enqueued += 1
        if self.dst.handle:
            handles = self.src.handle, self.dst.handle
            api.do("clEnqueueCopyBuffer", queue, *handles, 0, 0, self.nbytes, 0, 0, 0)
        else:
            ends = self.dst.gpu_va, self.src.gpu_va
            api.do("clEnqueueSVMMemcpy", queue, 0, *ends, self.nbytes, 0, 0, 0)
        return True


@dataclass(slots=True)
class Gate:
    """Nothing later begins before the signal has the value."""

    ring: Ring
    signal: ClSignal
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
    signal: ClSignal
    value: int | None

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


def command(
    device: ClDevice, ring: Ring, step: Step, values: Sequence[Any], kernel: Kernel | None = None
) -> Launch | Transfer | Gate | Flag | Fence:
    """Check a step; Params stand for `values`, and stay open where there are none.

    `kernel`: an object of the step's program that no other launch uses.
    Raises: BadArgument, UseAfterFree.
    """
    if isinstance(step, Exec):
        program = checked_program(device, step.program, len(step.args))
        launches.check_grid(step.grid, device.limits)
        block = step.block
        if block is None:
            block = (max(program.block, 1), 1, 1)
        else:
            launches.check_block(block, program.max_block, program.name)
        blocks = [buffer_block(device, arg, values) for arg in step.args]
        used = kernel or program.kernel
        return Launch(device, ring, program, used, blocks, step.grid, block)
    if isinstance(step, Copy):
        dst, src = (side_block(device, side, step.nbytes, values) for side in (step.dst, step.src))
        return Transfer(ring, dst, src, step.nbytes)
    if isinstance(step, Wait):
        return Gate(ring, checked_signal(device, step.signal), step.value)
    if isinstance(step, Mark):
        return Flag(ring, checked_signal(device, step.signal), step.value)
    return Fence()

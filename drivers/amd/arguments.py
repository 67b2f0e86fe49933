"""Checks of a launch by an AMD device; all of them happen before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drivers.amd.program import AmdProgram, Owner
from drivers.base import launches
from drivers.base.contracts import Grid
from drivers.base.errors import BadArgument
from queues.amd.contracts import Item

MAX_GRID: Final = (1 << 31) - 1
"""Workgroups of one dimension. # src: HSA: a grid counts work-items in 32 bits"""


def bad_count(program: AmdProgram, count: int) -> BadArgument:
    """The error for too many or too few arguments."""
    return BadArgument(
        f"{program!r} takes {len(program.masks)} arguments, not {count}", hint="pass them all"
    )


def checked_launch(
    device: Owner,
    program: object,
    values: Sequence[int],
    grid: Grid,
    block: Grid | None,
    shared_bytes: int = 0,
) -> Item:
    """A launch of a queue, everything checked. Raises: BadArgument, UseAfterFree."""
    if not isinstance(program, AmdProgram) or program.device is not device:
        raise launches.bad_program(device.name, program)
    _ = program.gpu_va
    if len(values) != len(program.masks):
        raise bad_count(program, len(values))
    launches.check_grid(grid, device.limits)
    kernel = program.kernel
    if block is None:
        block = kernel.block, 1, 1
    else:
        launches.check_block(block, kernel.max_block, repr(program))
    launches.check_shared(shared_bytes, kernel.group_bytes, device.limits, repr(program))
    masked = [value & mask for value, mask in zip(values, program.masks, strict=True)]
    return Item((), program, masked, grid, block, shared_bytes)

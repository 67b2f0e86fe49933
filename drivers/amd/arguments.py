"""Checks of a caller's arguments to an AMD device; all of them happen before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from drivers.amd.memory import AmdBuffer
from drivers.amd.program import AmdProgram
from drivers.amd.signal import AmdSignal
from drivers.base import launches
from drivers.base.contracts import Grid
from drivers.base.errors import BadArgument, UseAfterFree
from queues.amd.contracts import Item

if TYPE_CHECKING:
    from drivers.amd.device import AmdDevice

MAX_GRID: Final = (1 << 31) - 1
"""Workgroups of one dimension. # src: HSA: a grid counts work-items in 32 bits"""
_SIGNED_MIN: Final = -(1 << 63)
_U64_MAX: Final = (1 << 64) - 1


def bad_count(program: AmdProgram, count: int) -> BadArgument:
    """The error for too many or too few arguments."""
    return BadArgument(
        f"{program!r} takes {len(program.masks)} arguments, not {count}", hint="pass them all"
    )


def word(device: AmdDevice, value: object) -> int:
    """The 64-bit word of a kernel argument. Raises: BadArgument, UseAfterFree."""
    if isinstance(value, AmdBuffer):
        if value.device is not device and device not in value.others:
            gone = value.device.compute.broken
            if isinstance(gone, UseAfterFree):  # closed, or of the process this was forked from
                raise gone.with_traceback(None)
            raise BadArgument(
                f"{value!r} belongs to {value.device!r}, not to {device!r}",
                hint="copy it to this device, or map_to() it, first",
            )
        return value.gpu_va
    if type(value) is int and _SIGNED_MIN <= value <= _U64_MAX:
        return value & _U64_MAX
    raise BadArgument(
        f"{value!r} is no kernel argument", hint="pass a buffer of this device or a 64-bit int"
    )


def copy_va(device: AmdDevice, buffer: object, nbytes: int, *, write: bool) -> int:
    """The address of a buffer that `nbytes` fit in. Raises: BadArgument, UseAfterFree."""
    if not isinstance(buffer, AmdBuffer):
        raise BadArgument(f"{buffer!r} is no buffer to copy", hint="pass a buffer")
    va = word(device, buffer)
    if nbytes > buffer.nbytes:
        raise BadArgument(f"a copy of {nbytes} bytes is outside {buffer!r}", hint="copy less")
    if write and buffer.readonly:
        raise BadArgument(f"{buffer!r} cannot be written", hint="copy to another buffer")
    return va


def signal_va(device: AmdDevice, signal: object) -> int:
    """The address of a live signal, of this device or of another one of the same process."""
    if not isinstance(signal, AmdSignal):
        raise BadArgument(f"{signal!r} is no signal of {device.name}", hint="use new_signal()")
    if signal.device is not device:
        if not device.iface.shares(signal.device.iface):
            raise BadArgument(f"{signal!r} belongs to {signal.device!r}", hint="use new_signal()")
        signal.pool.map_to(device.iface)
        signal.device.reached_by(device)
    return signal.gpu_va


def launch_item(
    device: AmdDevice,
    program: object,
    values: Sequence[int],
    grid: Grid,
    block: Grid | None,
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
    masked = [value & mask for value, mask in zip(values, program.masks, strict=True)]
    return Item((), program, masked, grid, block)

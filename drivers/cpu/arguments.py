"""Checks of a caller's arguments to the CPU device; all happen before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drivers.base import launches
from drivers.base.errors import BadArgument
from drivers.cpu.buffer import CpuBuffer
from drivers.cpu.program import ANY_NUMBER, CpuProgram
from queues.cpu import packets

if TYPE_CHECKING:
    from drivers.cpu.owner import Owner


def check_count(program: CpuProgram, nargs: int) -> None:
    """Raises: BadArgument for another number than the program takes, or a packet may have."""
    if program.nargs not in (ANY_NUMBER, nargs):
        taken = f"{program!r} takes {program.nargs} arguments"
        raise BadArgument(f"{taken}, not {nargs}", hint="pass them all")
    if nargs > packets.MAX_ARGS:
        raise BadArgument(f"{nargs} arguments", hint=f"pass {packets.MAX_ARGS} or fewer")


def word(device: Owner, value: object) -> int:
    """The 64-bit word of a kernel argument. Raises: BadArgument, UseAfterFree."""
    if isinstance(value, CpuBuffer):
        if value.device is not device:
            raise BadArgument(
                f"{value!r} belongs to {value.device!r}, not to {device!r}",
                hint="copy it to this device first",
            )
        return value.gpu_va
    return launches.integer_word(value)


def copy_va(device: Owner, buffer: object, nbytes: int, *, write: bool) -> int:
    """The address of a buffer that `nbytes` fit in. Raises: BadArgument, UseAfterFree."""
    if not isinstance(buffer, CpuBuffer):
        raise BadArgument(f"{buffer!r} is not a buffer to copy", hint="pass a buffer")
    va = word(device, buffer)
    launches.check_copy(buffer, nbytes, write=write)
    return va

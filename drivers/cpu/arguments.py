"""Checks of a caller's arguments to the CPU device; all happen before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drivers.base.errors import BadArgument
from drivers.cpu.buffer import CpuBuffer
from drivers.cpu.program import ANY_NUMBER, CpuProgram
from queues.cpu import packets

if TYPE_CHECKING:
    from drivers.cpu.owner import Owner

_SIGNED_MIN = -(1 << 63)


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
    if type(value) is int and _SIGNED_MIN <= value <= packets.MAX_WORD:
        return value & packets.MAX_WORD
    raise BadArgument(
        f"{value!r} is no kernel argument", hint="pass a buffer of this device or a 64-bit int"
    )


def copy_va(device: Owner, buffer: object, nbytes: int, *, write: bool) -> int:
    """The address of a buffer that `nbytes` fit in. Raises: BadArgument, UseAfterFree."""
    if not isinstance(buffer, CpuBuffer):
        raise BadArgument(f"{buffer!r} is no buffer to copy", hint="pass a buffer")
    va = word(device, buffer)
    if nbytes > buffer.nbytes:
        raise BadArgument(f"a copy of {nbytes} bytes is outside {buffer!r}", hint="copy less")
    if write and buffer.readonly:
        raise BadArgument(f"{buffer!r} cannot be written", hint="copy to another buffer")
    return va

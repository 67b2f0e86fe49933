"""Checks of a launch and of a copy: the same, with the same messages, on every device.

`grid` counts workgroups along x, y and z, `block` the lanes of one; a device without lanes has
workgroups of one. `Device.launch` is the short form: `grid` workgroups along x, of the block that
the kernel was compiled for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeGuard

from drivers.base.contracts import Binary, Limits, Param
from drivers.base.errors import BadArgument, MalformedInput, Unsupported

DIMENSIONS: Final = 3
MAX_PARAMS: Final = 1 << 16
_SIGNED_MIN: Final = -(1 << 63)
U64_MAX: Final = (1 << 64) - 1
_SIGNAL_HINT: Final = "Limits.signal_bits says how wide signals are"


def bad_program(device: str, program: object) -> BadArgument:
    """The error for an object that is no program of the device."""
    return BadArgument(f"{program!r} is not a program of {device}", hint="load() its binary there")


def bad_grid(grid: object, limits: Limits) -> BadArgument:
    """The error for a number of workgroups that cannot be launched."""
    most = " x ".join(map(str, limits.max_grid))
    return BadArgument(f"a grid of {grid!r:.80} workgroups", hint=f"pass 1 ... {most}")


def check_grid(grid: object, limits: Limits) -> None:
    """Raises: BadArgument for anything but three numbers of workgroups that the device can do."""
    if not _is_shape(grid) or any(n > most for n, most in zip(grid, limits.max_grid, strict=True)):
        raise bad_grid(grid, limits)


def check_block(block: object, most: int, name: str) -> None:
    """Raises: BadArgument for anything but three sizes, of at most `most` lanes together."""
    if not _is_shape(block) or block[0] * block[1] * block[2] > most:
        raise BadArgument(
            f"{name} has workgroups of at most {most} lanes, not {block!r:.80}",
            hint="pass three sizes of 1 or more, or no block: its own",
        )


def check_shared(added: int, declared: int, limits: Limits, name: str) -> None:
    """Raises: BadArgument for more shared memory than a workgroup has."""
    if declared + added > limits.shared_bytes:
        raise BadArgument(
            f"{name} declares {declared} bytes of shared memory, and {added} more are above the "
            f"device's {limits.shared_bytes}",
            hint=f"pass shared_bytes of at most {max(limits.shared_bytes - declared, 0)}",
        )


def integer_word(value: object) -> int:
    """The 64-bit word of a number as a kernel argument. Raises: BadArgument for anything else."""
    if type(value) is int and _SIGNED_MIN <= value <= U64_MAX:
        return value & U64_MAX
    raise BadArgument(
        f"{value!r} is not a kernel argument", hint="pass a buffer of this device or a 64-bit int"
    )


class Copied(Protocol):
    """A buffer, as far as a copy is concerned."""

    @property
    def nbytes(self) -> int:
        """Its size."""

    @property
    def readonly(self) -> bool:
        """Whether nothing may be copied to it."""


def check_copy(buffer: Copied, nbytes: int, *, write: bool) -> None:
    """Raises: BadArgument for more bytes than it has, or a destination that is read-only."""
    if nbytes > buffer.nbytes:
        raise BadArgument(f"a copy of {nbytes} bytes is outside {buffer!r}", hint="copy less")
    if write and buffer.readonly:
        raise BadArgument(f"{buffer!r} cannot be written", hint="copy to another buffer")


def _is_shape(shape: object) -> TypeGuard[Sequence[int]]:
    """Whether these are three whole numbers above 0."""
    return (
        isinstance(shape, Sequence)
        and len(shape) == DIMENSIONS
        and all(type(size) is int and size > 0 for size in shape)
    )


def check_binary(binary: Binary, arch: str, limits: Limits) -> None:
    """Raises: Unsupported for another arch, or more than the device has; MalformedInput."""
    if binary.arch != arch:
        raise Unsupported(
            f"{binary.name} is code for {binary.arch}, this is {arch}", hint="compile it for here"
        )
    needs = binary.resources
    numbers = needs.block, needs.max_block, needs.shared_bytes, needs.scratch_bytes
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise MalformedInput(f"{binary.name}: {numbers!r:.80} for lanes, shared and private bytes")
    if needs.block > limits.max_block or needs.shared_bytes > limits.shared_bytes:
        raise Unsupported(
            f"{binary.name} needs workgroups of {needs.block} lanes with {needs.shared_bytes} "
            f"bytes of shared memory, this device has {limits.max_block} and {limits.shared_bytes}",
            hint="compile it for this device's limits",
        )


def check_param(param: Param) -> None:
    """Raises: BadArgument for a Param that no list of values can have."""
    if type(param.index) is not int or not 0 <= param.index < MAX_PARAMS:
        raise BadArgument(
            f"{param} is not a place in a list", hint=f"Param(0 ... {MAX_PARAMS - 1})"
        )


def check_signal_value(value: object, limits: Limits) -> None:
    """Raises: BadArgument for a value that no signal of the device can hold."""
    if type(value) is not int or not 0 <= value < 1 << limits.signal_bits:
        most = f"2**{limits.signal_bits} - 1"
        raise BadArgument(f"{value!r:.40} is not a signal value: 0 ... {most}", hint=_SIGNAL_HINT)

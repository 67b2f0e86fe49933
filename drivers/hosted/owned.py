"""Whether what a caller passes is an object of this device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from drivers.base import launches
from drivers.base.contracts import Binary, Limits
from drivers.base.errors import BadArgument, MalformedInput
from drivers.hosted.buffer import HostedBuffer
from drivers.hosted.signal import HostedSignal


class Named(Protocol):
    """A device, as far as these checks need it."""

    name: str

    @property
    def limits(self) -> Limits:
        """What it can do."""


class Loaded(Protocol):
    """A program of a device; its `gpu_va` raises UseAfterFree once it is closed."""

    device: Any
    name: str
    nargs: int
    gpu_va: int


ProgramT = TypeVar("ProgramT", bound=Loaded)


def not_its(what: str, value: object, device: str, hint: str) -> BadArgument:
    """The error for an object that the device does not own."""
    return BadArgument(f"{value!r:.80} is no {what} of {device}", hint=hint)


def own_buffer(device: Named, value: object) -> HostedBuffer[Any, Any]:
    """A live buffer of the device. Raises: BadArgument, UseAfterFree."""
    if not isinstance(value, HostedBuffer) or value.device is not device:
        raise not_its("buffer", value, device.name, "copy it there; kernels take buffers alone")
    _ = value.gpu_va
    return value


def own_program(
    device: Named, kind: type[ProgramT], program: object, nargs: int | None = None
) -> ProgramT:
    """A program of the device; with `nargs` a live one that takes so many.

    Raises: BadArgument, UseAfterFree.
    """
    if not isinstance(program, kind) or program.device is not device:
        raise launches.bad_program(device.name, program)
    if nargs is not None:
        _ = program.gpu_va
        if nargs != program.nargs:
            raise BadArgument(f"{nargs} arguments", hint=f"{program.name} takes {program.nargs}")
    return program


def own_signal(device: Named, signal: object) -> HostedSignal[Any, Any]:
    """A live signal of the device. Raises: BadArgument, UseAfterFree."""
    if not isinstance(signal, HostedSignal) or signal.device is not device:
        raise not_its("signal", signal, device.name, "use new_signal()")
    signal.check()
    return signal


def own_value(device: Named, signal: object, value: int) -> HostedSignal[Any, Any]:
    """The same of one that is to have this value."""
    launches.check_signal_value(value, device.limits)
    return own_signal(device, signal)


def own_code(arch: str, binary: Binary, nargs: int) -> None:
    """Raises: MalformedInput where a binary's arguments are not those of its code."""
    needs = binary.resources
    if binary.entry or needs.args is None or len(needs.args) != nargs:
        raise MalformedInput(f"{binary.name} is not code of {arch}", hint="compile it")


def check_alive(things: Sequence[object], program: type[Loaded]) -> None:
    """Raises: UseAfterFree when one of the buffers, programs or signals is gone."""
    for thing in things:
        if isinstance(thing, HostedSignal):
            thing.check()
        elif isinstance(thing, HostedBuffer):
            _ = thing.block
        elif isinstance(thing, program):
            _ = thing.gpu_va

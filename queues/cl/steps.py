"""What a queue of an OpenCL device collects. Places of buffers may be Params."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from drivers.base.contracts import Argument, Buffer, Grid, Param, Program, Signal


@dataclass(frozen=True, slots=True)
class Exec:
    """A kernel; `block` None: its own."""

    program: Program
    args: tuple[Argument, ...]
    grid: Grid
    block: Grid | None


@dataclass(frozen=True, slots=True)
class Copy:
    """The first `nbytes` of a buffer to the first of another."""

    dst: Buffer | Param
    src: Buffer | Param
    nbytes: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Later steps run when the signal has reached the value."""

    signal: Signal
    value: int


@dataclass(frozen=True, slots=True)
class Mark:
    """The signal gets the time when everything before is done, and a value unless that is None."""

    signal: Signal
    value: int | None


@dataclass(frozen=True, slots=True)
class Barrier:
    """Everything before is done before what follows begins."""


Step: TypeAlias = Exec | Copy | Wait | Mark | Barrier


class Recorded(Protocol):
    """Steps that the device has prepared."""

    def replay(self, values: Sequence[Buffer | int]) -> None:
        """Run them with these values of the Params. Raises: BadArgument, UseAfterFree, before."""

    def close(self) -> None:
        """Give back what was prepared."""


class Owner(Protocol):
    """The device of a queue."""

    def check(self, step: Step) -> None:
        """Raises: BadArgument, UseAfterFree for what it cannot run; Params stay open."""

    def run(self, ring: Any, steps: Sequence[Step]) -> None:
        """Check all steps once more, then run them in order, after earlier ones of the ring."""

    def record(self, ring: Any, steps: Sequence[Step], params: int) -> Recorded:
        """Prepare steps for being run often."""

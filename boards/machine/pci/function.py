"""`PciFunction`: what a machine, or a vfio-user socket, sees of one GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from boards.machine.chassis import Chassis, Violation
from boards.machine.clock import Clock
from boards.machine.pool import Pool


class BusMaster(Protocol):
    """What the machine around the function does for it."""

    def decode(self, address: int, nbytes: int, write: bool) -> tuple[Pool, int] | None:
        """The memory behind a bus address, all `nbytes` of it; None: no answer."""
        ...

    def message(self, vector: int) -> None:
        """A message-signalled interrupt."""
        ...


@dataclass(frozen=True, slots=True)
class Bar:
    """One window of the function."""

    nbytes: int
    pool: Pool | None
    """Memory that may be mapped straight, from its offset 0; None: every access is told."""
    prefetchable: bool
    wide: bool
    """64 bits of address: the next BAR's register holds the upper half."""


class ConfigBytes(Protocol):
    """Config space as the bus reaches it: 4096 bytes, little-endian."""

    def read(self, off: int, nbytes: int) -> bytes: ...
    def write(self, off: int, data: bytes) -> None: ...


class Named(Protocol):
    """A kind of GPU, of whatever vendor."""

    @property
    def name(self) -> str:
        """ "gfx1100"."""
        ...


class PciFunction(Protocol):
    """One GPU, as its vendor's package makes it."""

    @property
    def chip(self) -> Named: ...
    @property
    def hardware(self) -> Chassis:
        """Violations, clock, trace: shared by all functions of a machine."""
        ...

    @property
    def config(self) -> ConfigBytes: ...
    @property
    def bars(self) -> dict[int, Bar]:
        """By number; sizes change when BAR0 is resized."""
        ...

    @property
    def violations(self) -> list[Violation]: ...
    @property
    def clock(self) -> Clock: ...

    def read(self, bar: int, off: int, nbytes: int) -> int:
        """A read of 1, 2, 4 or 8 bytes; all ones where nothing answers."""
        ...

    def write(self, bar: int, off: int, nbytes: int, value: int) -> None:
        """A write of 1, 2, 4 or 8 bytes; lost where nothing takes it."""
        ...

    def connect(self, bus: BusMaster) -> None:
        """Put the function into a machine."""
        ...

    def pump(self) -> bool:
        """Let everything that can move move; whether anything did."""
        ...

    def reset(self) -> None:
        """What the bus's reset line, a function-level reset or power does: nothing is left."""
        ...

    def on_config(self, hook: Callable[[], None]) -> None:
        """Call `hook` after config writes that moved or resized a BAR, or changed COMMAND."""
        ...

"""The registers of a GPU as dwords: every access counted, and reported to a trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from drivers.bare.ahead import Foresees, expect
from drivers.base.contracts import Region
from drivers.base.deadline import Clock
from drivers.base.errors import BadArgument, DeviceError, DeviceGone, DeviceTimeout

DWORD_BYTES: Final = 4
ALL_ONES: Final = 0xFFFFFFFF
AT_WORK: Final = "at work"
"""The step of an error when none is taken: the GPU is booted and in use."""
GONE_HINT: Final = "The GPU left the bus: check power and slot, then restart the machine"


@dataclass(frozen=True, slots=True)
class Access:
    """One access, as a trace has it. `op` is "R" or "W"."""

    name: str
    op: str
    dword: int
    value: int
    time_s: float
    step: str


@dataclass(frozen=True, slots=True)
class Alive:
    """A register that is never all ones: where it is, the GPU has left the bus."""

    dword: int
    name: str


@dataclass(frozen=True, slots=True)
class Indirect:
    """Where an index register and its data register are; `high` has the index's upper bits."""

    index_dw: int
    data_dw: int
    high_dw: int | None = None


class RegisterBus:
    """The register BAR as 32-bit words; the rest through an index and a data register.

    Raises: DeviceGone when the GPU does not answer, from every read.
    """

    def __init__(self, region: Region, clock: Clock, alive: Alive) -> None:
        self.region, self.clock, self.alive = region, clock, alive
        self.size_dw = region.nbytes // DWORD_BYTES
        self.reads = self.writes = 0
        self.step = ""
        self.trace: Callable[[Access], None] | None = None
        self.indirect: Indirect | None = None

    def read(self, dword: int, name: str = "", *, ones: bool = False) -> int:
        """One register. `ones`: all ones is a value that it may have; else it is read again."""
        value = self._load(dword, name)
        if value != ALL_ONES or ones:
            return value
        if self._read(self.alive.dword, self.alive.name) == ALL_ONES:
            raise DeviceGone(
                f"{self.where(name)} reads all ones, as everything does", hint=GONE_HINT
            )
        return self._load(dword, name)

    def _load(self, dword: int, name: str) -> int:
        if dword < self.size_dw:
            return self._read(dword, name)
        where = self._point_at(dword * DWORD_BYTES, name)
        return self._read(where.data_dw, name)

    def expect(self, *dwords: int) -> None:
        """A hint: these are read next, in this order, and nothing is written between."""
        if all(dword < self.size_dw for dword in dwords):
            expect(self.region, *[dword * DWORD_BYTES for dword in dwords])

    def post(self, dword: int, name: str) -> None:
        """A read whose value is not needed: the writes before it have arrived."""
        if self.trace is not None or not isinstance(self.region, Foresees):
            self.read(dword, name)
            return
        self.reads += 1
        self.region.post(dword * DWORD_BYTES)

    def write(self, dword: int, value: int, name: str = "") -> None:
        """One register. There is no reply that says whether the write arrived."""
        if dword < self.size_dw:
            self._write(dword, value, name)
        else:
            where = self._point_at(dword * DWORD_BYTES, name)
            self._write(where.data_dw, value, name)

    def write_far(self, address: int, value: int, name: str = "") -> None:
        """A register of another die by its 64-bit byte address, which is then left again."""
        where = self._point_at(address, name)
        self._write(where.data_dw, value, name)
        if where.high_dw is not None:
            self._write(where.high_dw, 0, f"high index after {name}")

    def _point_at(self, address: int, name: str) -> Indirect:
        where = self.indirect
        if where is None or (address >> 32 and where.high_dw is None):
            raise BadArgument(
                f"{self.where(name)}: byte {address:#x} is outside the register BAR",
                hint="The table of this chip's blocks is wrong, or its BAR is too small",
            )
        self._write(where.index_dw, address & ALL_ONES, f"index of {name}")
        if address >> 32 and where.high_dw is not None:
            self._write(where.high_dw, address >> 32, f"high index of {name}")
        return where

    def where(self, name: str) -> str:
        """A register as errors name it: after the step."""
        return f"{self.step or AT_WORK}: {name}"

    def _reported(self, error: DeviceError, name: str) -> DeviceError:
        """The transport's error with step and register."""
        if isinstance(error, DeviceTimeout):
            error.register = name
        return error.named(self.where(name))

    def _read(self, dword: int, name: str) -> int:
        self.reads += 1
        try:
            value = self.region.read32(dword * DWORD_BYTES)
        except DeviceError as error:
            raise self._reported(error, name) from error.__cause__
        if self.trace is not None:
            self._report(name, "R", dword, value)
        return value

    def _write(self, dword: int, value: int, name: str) -> None:
        self.writes += 1
        try:
            self.region.write32(dword * DWORD_BYTES, value)
        except DeviceError as error:
            raise self._reported(error, name) from error.__cause__
        if self.trace is not None:
            self._report(name, "W", dword, value)

    def _report(self, name: str, op: str, dword: int, value: int) -> None:
        if self.trace is not None:
            now_s = self.clock.monotonic_s()
            self.trace(Access(name, op, dword, value, now_s, self.step))

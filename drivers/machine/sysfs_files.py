"""A folder of sysfs, file by file: what cannot be read is noted, and hides nothing else."""

from __future__ import annotations

from typing import Final

from drivers.base.contracts import World
from drivers.base.errors import DeviceError, MalformedInput, NotFound
from drivers.base.oserrors import errno_of
from drivers.machine.text import read_text

_MOST_DIGITS: Final = 20
_SHOWN_CHARS: Final = 40
_NEXT: Final = "see `dmesg` for what its driver reports"


class SysfsFiles:
    """The files of one folder, and why some could not be read."""

    def __init__(self, world: World, folder: str) -> None:
        self.world, self.folder = world, folder
        self.lacks: list[str] = []

    def advice(self, error: DeviceError) -> str:
        """What to do about a file: the hint of an errno is about opening a device."""
        return _NEXT if errno_of(error) else error.hint

    def lacking(self, what: str, error: DeviceError) -> None:
        """Note a file that cannot be read, with what to do."""
        reason = error.message if what in error.message else f"{what}: {error.message}"
        step = self.advice(error)
        self.lacks.append(f"{reason}; {step}" if step else reason)

    def text(self, name: str) -> str:
        """The first line of a file; "" where there is none, or it cannot be read."""
        try:
            lines = read_text(self.world, f"{self.folder}/{name}").split("\n")
        except NotFound:
            return ""
        except DeviceError as error:
            self.lacking(name, error)
            return ""
        return lines[0].strip()

    def number(self, name: str, unit: str = "") -> int | None:
        """A number, perhaps with a unit behind it; None where its file is not there or is empty."""
        text = self.text(name)
        digits = text.removesuffix(unit).strip().removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS:
            return int(text.removesuffix(unit))
        if text:
            wrong = MalformedInput(f"{text[:_SHOWN_CHARS]!a} is not a number", hint="report it")
            self.lacking(name, wrong)
        return None

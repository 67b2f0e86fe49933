"""Files of "name value" lines, as KFD's topology writes them: bounded, checked, by name.

A line that breaks a rule is an error where its name is asked for, and nowhere else: what a newer
kernel adds, in whatever form, takes nothing away from what was there before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from drivers.base.contracts import World
from drivers.base.errors import MalformedInput
from drivers.machine.text import read_text

MAX_LINES = 256
_LINE = re.compile(r"([a-z][a-z0-9_]{0,63}) ([0-9]{1,20})")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_NUMBER = re.compile(r"[0-9]{1,20}")
_U32, _U64 = 32, 64
_SHOWN_CHARS = 40
_HINT = "report it with the output of `uname -r`"


def malformed(path: str, rule: str) -> MalformedInput:
    """The error for a file that breaks a rule; the caller raises it."""
    return MalformedInput(f"{path}: {rule}", hint=_HINT)


def number_file(world: World, path: str, bits: int = _U32) -> int:
    """A file that holds one decimal number. Raises: MalformedInput, NotFound, Denied."""
    text = read_text(world, path).strip()
    if not _NUMBER.fullmatch(text) or int(text) >> bits:
        raise malformed(path, f"{text[:_SHOWN_CHARS]!r} is no {bits}-bit number")
    return int(text)


@dataclass(frozen=True, slots=True)
class Properties:
    """The numbers of one file; unknown names are kept, so that newer kernels are welcome."""

    path: str
    values: dict[str, int]
    wrong: dict[str, str]
    """Names whose lines break a rule, and the rule."""

    def u32(self, name: str, low: int = 0, high: int = (1 << _U32) - 1) -> int:
        """A property that must be there, between two bounds. Raises: MalformedInput."""
        if name in self.wrong:
            raise malformed(self.path, self.wrong[name])
        if name not in self.values:
            raise malformed(self.path, f"{name} is missing")
        value = self.values[name]
        if not low <= value <= high:
            raise malformed(self.path, f"{name} {value} is outside {low}..{high}")
        return value

    def u64(self, name: str) -> int:
        """A 64-bit property that must be there. Raises: MalformedInput."""
        return self.u32(name, high=(1 << _U64) - 1)

    def optional(self, name: str, default: int = 0, high: int = (1 << _U32) - 1) -> int:
        """A property that older kernels do not print. Raises: MalformedInput when out of range."""
        there = name in self.values or name in self.wrong
        return self.u32(name, high=high) if there else default


def read_properties(world: World, path: str) -> Properties:
    """A whole file. Raises: MalformedInput, NotFound, Denied."""
    lines = read_text(world, path).splitlines()
    if len(lines) > MAX_LINES:
        raise malformed(path, f"{len(lines)} lines; at most {MAX_LINES} are read")
    found = Properties(path, {}, {})
    for number, line in enumerate(lines, 1):
        _add(found, f"line {number}", line)
    return found


def _add(found: Properties, where: str, line: str) -> None:
    """One line more."""
    match = _LINE.fullmatch(line)
    if match is None:
        name = _NAME.match(line)
        if name is not None:
            rule = f"{where}, {line[:_SHOWN_CHARS]!r}, is not a name and number"
            found.wrong.setdefault(name[0], rule)
        return
    key, value = match[1], int(match[2])
    if key in found.values:
        found.wrong.setdefault(key, f"{where} says {key} once more")
    elif value >> _U64:
        found.wrong.setdefault(key, f"{where}: {key} does not fit 64 bits")
    else:
        found.values[key] = value

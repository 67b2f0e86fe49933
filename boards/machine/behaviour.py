"""Tables of what a kernel driver does with each request, field and flag, by release.

One such table lies beside the board's declarations of each interface, written from the kernel's
source. It begins with the interface's name and its releases, the oldest first:

    interface: KGSL
    releases: 4.9 4.14 5.4

An entry is one line, and indented text: what is sent | releases | file and function | rule.

    gpuobj_sync_obj.op & 0x80000000 | all | kgsl.c _kgsl_gpumem_sync_cache | range
        offset and length count.

What is sent is a request, `request.field`, bits of a field (`& 0x3`), or values of it (`= 1 2`).
Releases are "all", "5.4" alone, "5.4 ..", ".. 4.14" or "4.9 .. 4.14". A board asks for rules by
name, some with a number (`hang_ms=500`); an entry without one is what every board does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_COLUMNS = 4
_INTERFACE, _RELEASES = "interface:", "releases:"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a kernel does with one thing that is sent."""

    request: str
    field: str
    """"": the request itself."""
    bits: int
    """Of a field of flags."""
    values: tuple[int, ...]
    """Of a field that chooses; (): every value."""
    releases: tuple[str, ...]
    place: str
    """File and function."""
    rule: str
    number: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules of one release."""

    release: str
    _of: dict[str, int | None]

    def __contains__(self, name: str) -> bool:
        return name in self._of

    def number(self, name: str) -> int:
        """The number of a rule. Raises: KeyError where this release has no such rule."""
        found = self._of[name]
        if found is None:
            raise KeyError(name)
        return found


class Behaviour:
    """One interface's table."""

    def __init__(self, interface: str, releases: Sequence[str], entries: Sequence[Entry]) -> None:
        self.interface, self.releases, self.entries = interface, tuple(releases), tuple(entries)
        self._names = {entry.rule for entry in entries if entry.rule}

    def rules(self, release: str) -> Rules:
        """Those of a release. Raises: ValueError with the releases there are."""
        if release not in self.releases:
            known = ", ".join(self.releases)
            raise ValueError(f"no {self.interface} of kernel {release!r}: there are {known}")
        own = {one.rule: one.number for one in self.entries if one.rule and release in one.releases}
        return Rules(release, own)

    def covers(self, request: str, field: str, value: int, release: str) -> bool:
        """Whether the table says what a release does with a value that is sent."""
        found = [
            one
            for one in self.entries
            if (one.request, one.field) == (request, field) and release in one.releases
        ]
        bits = 0
        for one in found:
            if not one.bits and (not one.values or value in one.values):
                return True
            bits |= one.bits
        return bool(found) and not value & ~bits


def parse(text: str) -> Behaviour:
    """A table. Raises: ValueError with the line that is wrong."""
    interface, releases = "", []
    heads: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith((" ", "\t")) and heads:
            heads[-1][1].append(line.strip())
        elif line.startswith(_INTERFACE):
            interface = line.removeprefix(_INTERFACE).strip()
        elif line.startswith(_RELEASES):
            releases = line.removeprefix(_RELEASES).split()
        elif line.strip() and not line.startswith("#"):
            heads.append((line, []))
    return Behaviour(interface, releases, [_entry(head, body, releases) for head, body in heads])


def _entry(head: str, body: Sequence[str], releases: Sequence[str]) -> Entry:
    columns = [part.strip() for part in head.split("|")]
    if len(columns) not in (_COLUMNS - 1, _COLUMNS) or not body:
        raise ValueError(f"{head!r}: what is sent | releases | place | rule, and text below it")
    sent, when, place, rule = (*columns, "")[:_COLUMNS]
    name, _, number = rule.partition("=")
    request, field, bits, values = _sent(sent)
    return Entry(
        request=request, field=field, bits=bits, values=values,
        releases=_range(when, releases), place=place, rule=name,
        number=int(number, 0) if number else None, text=" ".join(body),
    )  # fmt: skip


def _sent(text: str) -> tuple[str, str, int, tuple[int, ...]]:
    path, masked, bits = text.partition("&")
    if masked:
        return *_path(path), int(bits.strip(), 0), ()
    path, _, values = text.partition("=")
    return *_path(path), 0, tuple(int(value, 0) for value in values.split())


def _path(text: str) -> tuple[str, str]:
    request, _, field = text.strip().partition(".")
    return request, field


def _range(text: str, releases: Sequence[str]) -> tuple[str, ...]:
    """Raises: ValueError for a release that the table's head does not name."""
    if text == "all":
        return tuple(releases)
    first, dots, last = (part.strip() for part in text.partition(".."))
    low = releases.index(first) if first else 0
    high = releases.index(last) if last else len(releases) - 1 if dots else low
    return tuple(releases[low : high + 1])


@cache
def load(path: Path) -> Behaviour:
    """The table of a file. Raises: OSError, ValueError."""
    return parse(path.read_text("utf-8"))

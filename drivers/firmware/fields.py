"""Typed reads of TOML tables; a value of another kind is an error that says where."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from typing import TypeAlias

from drivers.base.errors import MalformedInput

Pattern: TypeAlias = "re.Pattern[str]"

LIMIT_BYTES = 64 << 10
"""Of a manifest; the largest has 19 KB."""
_MAX_ITEMS = 256
_SHOWN_CHARS = 60


class Table:
    """One TOML table. Every read names its key; `done` refuses keys that were not read.

    Raises: MalformedInput, from every method.
    """

    def __init__(self, values: object, where: str) -> None:
        self.where = where
        if not isinstance(values, dict):
            raise self.fail("is not a table")
        self._values: dict[str, object] = values
        self._unread = set(values)

    def fail(self, rule: str) -> MalformedInput:
        """The error for a rule that this table breaks; the caller raises it."""
        return MalformedInput(
            f"{self.where} {rule}", hint="get the manifest again from where the program came from"
        )

    def done(self) -> None:
        """No key was left unread."""
        if self._unread:
            raise self.fail(f"has unknown keys: {_shown(sorted(self._unread))}")

    def _take(self, key: str) -> object:
        self._unread.discard(key)
        if key not in self._values:
            raise self.fail(f"has no {key!r}")
        return self._values[key]

    def text(self, key: str, rule: Pattern) -> str:
        """A string that `rule` matches as a whole."""
        return self._checked(key, self._take(key), rule)

    def _checked(self, key: str, value: object, rule: Pattern) -> str:
        if not isinstance(value, str) or not rule.fullmatch(value):
            raise self.fail(f"{key!r} is not like {rule.pattern}: {_shown(value)}")
        return value

    def number(self, key: str, largest: int) -> int:
        """An integer in 0 ... `largest`."""
        value = self._take(key)
        if type(value) is not int or not 0 <= value <= largest:
            raise self.fail(f"{key!r} is not a number in 0 ... {largest}: {_shown(value)}")
        return value

    def optional(self, key: str, largest: int) -> int | None:
        """The same, None where there is no such key."""
        return self.number(key, largest) if key in self._values else None

    def texts(self, key: str, rule: Pattern) -> tuple[str, ...]:
        """A list of strings, none of them twice, at least one."""
        names = tuple(self._checked(key, value, rule) for value in self._items(key))
        if not names or len(set(names)) != len(names):
            raise self.fail(f"{key!r} is empty, or names something twice")
        return names

    def pairs(self, key: str, rule: Pattern) -> dict[str, str]:
        """A list of pairs of strings."""
        found: dict[str, str] = {}
        for value in self._items(key):
            if not isinstance(value, list) or len(value) != len(("old", "new")):
                raise self.fail(f"{key!r} is not a list of pairs")
            old, new = (self._checked(key, name, rule) for name in value)
            if found.setdefault(old, new) != new:
                raise self.fail(f"{key!r} replaces {old} twice")
        return found

    def strings(self, key: str, rule: Pattern) -> dict[str, str]:
        """A table of strings; `rule` holds for keys and values."""
        inner = Table(self._take(key), f"{self.where}, [{key}]")
        return {
            self._checked(key, name, rule): self._checked(name, value, rule)
            for name, value in inner._values.items()
        }

    def tables(self, key: str, *, optional: bool = False) -> list[Table]:
        """A list of tables."""
        if optional and key not in self._values:
            return []
        return [
            Table(value, f"{self.where}, {key} {number}")
            for number, value in enumerate(self._items(key), 1)
        ]

    def _items(self, key: str) -> list[object]:
        value = self._take(key)
        if not isinstance(value, list) or len(value) > _MAX_ITEMS:
            raise self.fail(f"{key!r} is not a list of at most {_MAX_ITEMS}: {_shown(value)}")
        return value


def _shown(value: object) -> str:
    """A value as it may be printed: escaped and short."""
    text = ascii(value) if isinstance(value, str | int | float) else type(value).__name__
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        text = ascii(value)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."


def read_toml(data: bytes, what: str) -> Table:
    """The table that a TOML file is. Raises: MalformedInput."""
    if len(data) > LIMIT_BYTES:
        raise MalformedInput(
            f"{what} is longer than {LIMIT_BYTES} bytes", hint="leave out the other chips"
        )
    parse: Callable[[str], dict[str, object]] = tomllib.loads
    try:
        return Table(parse(data.decode()), what)
    except (ValueError, RecursionError) as error:
        reason = "lists in lists without end" if isinstance(error, RecursionError) else error
        raise MalformedInput(
            f"{what} is not TOML: {_shown(str(reason))}",
            hint="get the manifest again from where the program came from",
        ) from error

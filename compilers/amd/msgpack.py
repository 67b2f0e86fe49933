"""A bounded MessagePack reader: only the types that code-object metadata uses.

Every value takes at least one byte of the input, so that time and memory are in proportion to it.
Source: github.com/msgpack/msgpack/blob/master/spec.md.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from drivers.base.view import View

Value: TypeAlias = "bool | int | str | list[Value] | dict[str, Value] | None"

DEPTH_LIMIT: Final = 16
_FIXED: Final = {0xC0: None, 0xC2: False, 0xC3: True}
_UNSIGNED: Final = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
_SIGNED: Final = {0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
_STRINGS: Final = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_LISTS: Final = {0xDC: 2, 0xDD: 4}
_MAPS: Final = {0xDE: 2, 0xDF: 4}
"""Type byte -> bytes of the number, or of the count, after it."""
_POSITIVE_END, _MAP_END, _LIST_END, _STRING_END, _NEGATIVE = 0x80, 0x90, 0xA0, 0xC0, 0xE0
_BYTE = 256


class _Reader:
    """A position in the input."""

    __slots__ = ("at", "view")

    def __init__(self, view: View) -> None:
        self.view, self.at = view, 0

    def number(self, nbytes: int, *, signed: bool = False) -> int:
        raw = self.view.bytes(self.at, nbytes, "number")
        self.at += nbytes
        return int.from_bytes(raw, "big", signed=signed)

    def value(self, depth: int) -> Value:
        """The value at the position, which moves past it."""
        if depth > DEPTH_LIMIT:
            raise self.view.fail(f"nested deeper than {DEPTH_LIMIT}", self.at)
        start = self.at
        head = self.number(1)
        if head < _POSITIVE_END:
            return head
        if head >= _NEGATIVE:
            return head - _BYTE
        if head in _FIXED:
            return _FIXED[head]
        if head in _UNSIGNED:
            return self.number(_UNSIGNED[head])
        if head in _SIGNED:
            return self.number(_SIGNED[head], signed=True)
        if head < _MAP_END or head in _MAPS:
            return self._map(self._count(head, _MAPS, _POSITIVE_END), depth)
        if head < _LIST_END or head in _LISTS:
            return self._list(self._count(head, _LISTS, _MAP_END), depth)
        if head < _STRING_END or head in _STRINGS:
            return self._string(self._count(head, _STRINGS, _LIST_END))
        raise self.view.fail(f"a value of type {head:#x}", start)

    def _count(self, head: int, wide: dict[int, int], first: int) -> int:
        return self.number(wide[head]) if head in wide else head - first

    def _string(self, nbytes: int) -> str:
        raw = self.view.bytes(self.at, nbytes, "text")
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            raise self.view.fail("text that is not UTF-8", self.at) from error
        self.at += nbytes
        return text

    def _list(self, count: int, depth: int) -> list[Value]:
        self.view.sub(self.at, count, f"list of {count}")
        return [self.value(depth + 1) for _ in range(count)]

    def _map(self, count: int, depth: int) -> dict[str, Value]:
        self.view.sub(self.at, count, f"map of {count}")
        found: dict[str, Value] = {}
        for _ in range(count):
            start = self.at
            key = self.value(depth + 1)
            if not isinstance(key, str) or key in found:
                raise self.view.fail("a key that is no text, or twice in one map", start)
            found[key] = self.value(depth + 1)
        return found


def decode(view: View) -> Value:
    """The one value that fills `view`. Raises: MalformedInput."""
    reader = _Reader(view)
    found = reader.value(0)
    if reader.at != len(view):
        raise view.fail(f"{len(view) - reader.at} bytes behind the value", reader.at)
    return found

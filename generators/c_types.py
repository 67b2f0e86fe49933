"""C structs, unions and enums of a header, laid out by cffi as the C compiler lays them out."""

from __future__ import annotations

import re
from collections.abc import Iterator

import cffi

from generators.source import Unreadable

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_NUMBER = re.compile(r"^\s*#\s*define\s+(\w+)\s+(0x[0-9a-fA-F]+|\d+)U?L*\s*$", re.M)
_START = re.compile(r"^(?:typedef\s+)?(?:struct|union|enum)\b[^;{}()]*(?:\([^;{}]*\))?\s*\{", re.M)
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")


def _declarations(text: str) -> Iterator[tuple[str, bool]]:
    """Every type of a header, and whether it is packed."""
    for start in _START.finditer(text):
        depth, end = 1, start.end()
        for end in range(start.end(), len(text)):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            if not depth:
                break
        body = text[start.start() : text.find(";", end) + 1]
        yield _ATTRIBUTE.sub("", body), "packed" in body


class Types:
    """The types of one or more headers; what cffi cannot take is left out until it is asked for."""

    def __init__(self, *texts: str) -> None:
        self._ffi = cffi.FFI()
        self._refused: dict[str, str] = {}
        for text in texts:
            plain = _COMMENT.sub(" ", text)
            for name, value in dict(_NUMBER.findall(plain)).items():
                self._declare(f"#define {name} {value}", packed=False)
            for body, packed in _declarations(plain):
                self._declare(body, packed=packed)

    def _declare(self, body: str, *, packed: bool) -> None:
        try:
            self._ffi.cdef(body, packed=packed, override=True)
        except (cffi.CDefError, cffi.FFIError, cffi.VerificationError, KeyError) as error:
            self._refused[body] = str(error)

    def _type(self, name: str) -> cffi.FFI.CType:
        try:
            found = self._ffi.typeof(name)
        except (cffi.CDefError, cffi.FFIError) as error:
            why = next((v for body, v in self._refused.items() if name in body), str(error))
            raise Unreadable(f"{name}: {why}") from error
        return found

    def size(self, name: str) -> int:
        """Bytes of a type. Raises: Unreadable."""
        self._type(name)
        return self._ffi.sizeof(name)

    def members(self, name: str) -> list[tuple[str, int, int, int]]:
        """Every member that is no struct as (path, offset, bytes of an element, elements).

        Members of structs within have their names before them, with dots. A flexible array has no
        elements; an array of structs is not looked into. Raises: Unreadable.
        """
        return list(self._members(self._type(name), "", 0))

    def _members(
        self, kind: cffi.FFI.CType, prefix: str, base: int
    ) -> Iterator[tuple[str, int, int, int]]:
        for name, field in kind.fields or ():
            path, offset, of = prefix + name, base + field.offset, field.type
            if of.kind == "struct":
                yield from self._members(of, f"{path}.", offset)
            elif of.kind == "array":
                yield path, offset, self._ffi.sizeof(of.item), of.length or 0
            else:
                yield path, offset, self._ffi.sizeof(of), 1

    def enum(self, name: str) -> dict[str, int]:
        """Members of an enum, lowest first. Raises: Unreadable."""
        numbers = self._type(name).relements
        return dict(sorted(numbers.items(), key=lambda pair: pair[1]))

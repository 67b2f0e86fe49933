"""Messages of Metal's objects with their types, from Apple's own C++ headers (metal-cpp).

The input is `SingleHeader/Metal.hpp` of metal-cpp as Apple publishes it. Of every function that
sends a wanted message, the table has the class, the selector, the result and the arguments: their
types as the header spells them, and the kind that decides how they are passed.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path

from generators.source import Unreadable
from generators.wanted import wanted
from unbound import terminal

OUTPUT = "tests/metal/messages.json"
HEADER = "metal-cpp, SingleHeader/Metal.hpp"
_SELECTOR = re.compile(r'PRIVATE_DEF_SEL\((\w+),\s*"([^"]+)"\)')
_ENUM = re.compile(r"_(?:NS|MTL)_(?:ENUM|OPTIONS)\(\s*([\w:]+)\s*,\s*(\w+)\s*\)\s*\{(.*?)\};", re.S)
_VALUE = re.compile(r"(\w+)\s*=\s*(-?\d+|0x[0-9a-fA-F]+)\s*,")
_FUNCTION = re.compile(
    r"^_(?:NS|MTL)_INLINE [^\n;{]*?\b(NS|MTL)::(\w+)(?:<[^>\n]*>)?::~?\w+\(([^\n]*)\)(?: const)?\n"
    r"\{\n(.*?)^\}",
    re.S | re.M,
)
_SENT = re.compile(
    r"sendMessage(?:Safe)?<([^\n]*?)>\((\w+(?:\([^()]*\))?), _(?:NS|MTL)_PRIVATE_SEL\((\w+)\)"
)
_STRUCTS = {"MTL::Size": "size", "NS::Range": "range"}
_SCALARS = {
    "void": "void", "bool": "bool", "BOOL": "bool", "double": "f64", "CFTimeInterval": "f64",
    "NS::TimeInterval": "f64", "NS::UInteger": "u64", "UInteger": "u64", "NS::Integer": "i64",
    "Integer": "i64", "uint64_t": "u64", "std::uint64_t": "u64",
}  # fmt: skip
_OBJECTS = ("Referencing", "Copying", "SecureCoding", "Object")
"""Bases of all classes: NSObject."""


def _plain(text: str) -> str:
    """A type without `const` and `class`."""
    words = re.sub(r"\b(?:const|class|struct)\b", "", text)
    return re.sub(r"\s+", " ", words).replace(" *", "*").strip()


class Header:
    """Metal.hpp, read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.selectors = dict(_SELECTOR.findall(text))
        self.enums = {name: base for base, name, _ in _ENUM.findall(text)}

    def constants(self) -> dict[str, int]:
        """Enumerators by name."""
        found: dict[str, int] = {}
        for _, _, body in _ENUM.findall(self.text):
            found |= {name: int(value, 0) for name, value in _VALUE.findall(body)}
        return found

    def kind(self, text: str) -> str:
        """How a type is passed. Raises: Unreadable."""
        plain = _plain(text)
        if plain in _SCALARS:
            return _SCALARS[plain]
        if plain in _STRUCTS:
            return _STRUCTS[plain]
        name = plain.rpartition("::")[2]
        if name in self.enums:
            return self.kind(self.enums[name])
        if "(^" in plain or plain.endswith(("**", "Reflection*", "Handler")):
            return "pointer"
        if plain in ("void*", "char*"):
            return "pointer"
        if re.fullmatch(r"(?:\w+::)*_?\w+\*", plain):
            return "id"
        raise Unreadable(f"{text!r} is no type that is known here")

    def messages(self) -> dict[tuple[str, str], dict[str, object]]:
        """(class, selector) -> result and arguments, of every function that can be read."""
        found: dict[tuple[str, str], dict[str, object]] = {}
        for space, name, params, body in _FUNCTION.findall(self.text):
            sent = _SENT.search(body)
            if sent is None or sent[3] not in self.selectors:
                continue
            owner = "NSObject" if name in _OBJECTS else space + name
            selector = self.selectors[sent[3]]
            args = self._arguments(params, selector)
            if args is None:
                continue
            try:
                row = {"returns": self._typed(sent[1]), "arguments": [*map(self._typed, args)]}
            except Unreadable:
                continue
            found.setdefault((owner, selector), row)
        return found

    def _typed(self, text: str) -> list[str]:
        return [self.kind(text), _plain(text)]

    def _arguments(self, params: str, selector: str) -> list[str] | None:
        """Types of parameters; None where they are not the message's arguments."""
        parts = re.split(r",\s*(?![^(]*\))", params) if params.strip() else []
        if len(parts) != selector.count(":"):
            return [] if not selector.count(":") else None
        return [part if "(^" in part else re.sub(r"\s*\b\w+$", "", part) for part in parts]


def table(text: str, names: str) -> dict[str, object]:
    """Wanted messages and constants of a header. Raises: Unreadable where one is not in it."""
    header, keep = Header(text), wanted(names)
    rows: dict[str, dict[str, object]] = {}
    for (owner, selector), row in sorted(header.messages().items()):
        if keep(f"{owner}.{selector}"):
            rows.setdefault(owner, {})[selector] = row
    constants = {name: value for name, value in header.constants().items() if keep(name)}
    if not rows or not constants:
        raise Unreadable("this is no Metal.hpp of metal-cpp")
    return {
        "made by": f"python -m generators.metal_messages METAL.HPP > {OUTPUT}",
        "sha256": {HEADER: hashlib.sha256(text.encode()).hexdigest()},
        "messages": rows,
        "constants": dict(sorted(constants.items())),
    }


def main() -> int:
    """Prints the table."""
    if len(sys.argv) != len(("program", "header")):
        print(__doc__, file=sys.stderr)
        return 2
    text = Path(sys.argv[1]).read_text("utf-8")
    try:
        made = table(text, "metal_messages")
    except Unreadable as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(made, indent=1))
    return 0


if __name__ == "__main__":
    terminal.run(lambda _: main())

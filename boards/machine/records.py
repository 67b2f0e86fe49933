"""C structs by name: laid out as a compiler for x86-64 does, read and stored in place."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from types import SimpleNamespace

_ALIGNS = {"B": 1, "H": 2, "I": 4, "i": 4, "Q": 8, "q": 8, "s": 1}


@dataclass(frozen=True, slots=True)
class Member:
    """One member: `code` is struct's; `count` > 1 is an array."""

    name: str
    offset: int
    code: str
    count: int

    @property
    def form(self) -> str:
        """As struct takes it."""
        return (
            f"<{self.count}{self.code}" if self.count > 1 or self.code == "s" else f"<{self.code}"
        )


class Record:
    """A struct, declared as "name:I other:8Q ..."; padding is left alone when it is stored."""

    def __init__(self, name: str, members: str) -> None:
        self.name = name
        self.members: list[Member] = []
        end, widest = 0, 1
        for text in members.split():
            member, _, form = text.partition(":")
            code, count = form[-1], int(form[:-1] or 1)
            align = _ALIGNS[code]
            offset = -(-end // align) * align
            self.members.append(Member(member, offset, code, count))
            end, widest = offset + align * count, max(widest, align)
        self.nbytes = -(-end // widest) * widest

    def load(self, data: bytes | bytearray | memoryview) -> SimpleNamespace:
        """The members' values: numbers, lists of numbers, bytes."""
        found = SimpleNamespace()
        for member in self.members:
            values = struct.unpack_from(member.form, data, member.offset)
            single = member.count == 1 or member.code == "s"
            setattr(found, member.name, values[0] if single else list(values))
        return found

    def store(self, data: bytearray, values: SimpleNamespace) -> None:
        """Put the members back."""
        for member in self.members:
            value = getattr(values, member.name)
            many = isinstance(value, list)
            struct.pack_into(member.form, data, member.offset, *(value if many else [value]))

"""A firmware file of the kernel's structs: true headers, made-up contents.

Where fields are comes from the kernel's structs as the C compiler lays them out
(`firmware_headers.json`), not from a parser.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from boards.amd.pci import payload

HEADERS = json.loads((Path(__file__).parent / "firmware_headers.json").read_text("ascii"))
ENUMS: dict[str, int] = HEADERS["enums"]
HEADER_ROOM = 256
"""Where shipped files' contents begin."""


@dataclass
class Made:
    """A file, and the pieces of it that must come out: (name of the kind, bytes), in any order."""

    data: bytes
    parts: list[tuple[str, bytes]]
    start: int | None = None
    tables: list[tuple[int, bytes]] = field(default_factory=list)
    aux: list[tuple[str, bytes]] = field(default_factory=list)


class File:
    """A header of one struct, and contents that are appended behind it."""

    def __init__(
        self,
        struct: str,
        version: tuple[int, int],
        ip: tuple[int, int],
        seed: str,
        room: int = HEADER_ROOM,
    ) -> None:
        self.struct = HEADERS["structs"][struct]
        self.room = room
        self.body = bytearray(room)
        self._seed = seed
        self.set("header_size_bytes", self.struct["size"])
        self.set("header_version_major", version[0])
        self.set("header_version_minor", version[1])
        self.set("ip_version_major", ip[0])
        self.set("ip_version_minor", ip[1])
        self.set("ucode_version", 0x1234)
        self.set("ucode_array_offset_bytes", room)

    def set(self, name: str, value: int) -> None:
        """A field by its name, or by the last part of it, which is taken at its first place."""
        fields = self.struct["fields"]
        full = name if name in fields else next(f for f in fields if f.endswith(f".{name}"))
        at, size = fields[full]
        self.body[at : at + size] = value.to_bytes(size, "little")

    def put(self, kind: str, nbytes: int) -> tuple[int, bytes]:
        """A fresh piece that a board believes is `kind`: where it is in the file, and what."""
        at = len(self.body)
        piece = payload.make(kind, nbytes, f"{self._seed} {at}")
        self.body += piece
        return at, piece

    def skip(self, nbytes: int) -> int:
        """Room for a list that is filled in later: where it is."""
        at = len(self.body)
        self.body += bytes(nbytes)
        return at

    def done(self, ucode_bytes: int | None = None) -> bytes:
        """The file; `ucode_bytes` is everything behind the header where nothing else is said."""
        whole = len(self.body) - self.room
        at, size = HEADERS["structs"]["common_firmware_header"]["fields"]["ucode_size_bytes"]
        nbytes = whole if ucode_bytes is None else ucode_bytes
        self.body[at : at + size] = nbytes.to_bytes(size, "little")
        self.set("size_bytes", len(self.body))
        return bytes(self.body)

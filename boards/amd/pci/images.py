"""What a security processor takes for firmware: made-up pieces, or those of the files shipped."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Protocol

from boards.amd.pci import payload


class Images(Protocol):
    """Stands for the signatures that silicon checks."""

    def leading(self, data: bytes, *kinds: str) -> bytes:
        """The piece that a buffer begins with, whose length nobody said."""
        ...

    def wrong(self, data: bytes, *kinds: str) -> str:
        """Why a piece is not one of these kinds, or is not whole; "" when all is right."""
        ...

    def start(self, kind: str) -> int:
        """The address at which an RS64 core's firmware begins."""
        ...


class MadeUp:
    """Pieces that say themselves what they are (payload.py)."""

    def leading(self, data: bytes, *kinds: str) -> bytes:
        return data[: payload.nbytes_of(data[: payload.HEADER_BYTES])]

    def wrong(self, data: bytes, *kinds: str) -> str:
        return payload.wrong(data, *kinds)

    def start(self, kind: str) -> int:
        return payload.RS64_START


class Shipped:
    """Pieces by kind, each known by its size and digest; nothing else about their contents is."""

    def __init__(self, pieces: Mapping[str, list[bytes]], starts: Mapping[str, int]) -> None:
        self._starts = dict(starts)
        self._known: dict[str, set[tuple[int, bytes]]] = {}
        for kind, found in pieces.items():
            known = self._known.setdefault(payload.family(kind), set())
            known.update((len(piece), hashlib.sha256(piece).digest()) for piece in found)

    def _of(self, kinds: tuple[str, ...]) -> set[tuple[int, bytes]]:
        return {one for kind in kinds for one in self._known.get(payload.family(kind), ())}

    def leading(self, data: bytes, *kinds: str) -> bytes:
        for nbytes, digest in self._of(kinds):
            if hashlib.sha256(data[:nbytes]).digest() == digest:
                return data[:nbytes]
        return b""

    def wrong(self, data: bytes, *kinds: str) -> str:
        known = self._of(kinds)
        if not known:
            return f"no file has a piece for {' or '.join(kinds)}"
        if (len(data), hashlib.sha256(data).digest()) in known:
            return ""
        return f"{len(data)} bytes that no file has for {' or '.join(kinds)}"

    def start(self, kind: str) -> int:
        return self._starts.get(kind, 0)

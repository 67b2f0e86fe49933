"""Addresses of this process in the arguments of ioctls, which replace the recording's.

A recording holds none of them: those of anonymous memory are translated, any other is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from drivers.base.errors import Unsupported
from drivers.world.taped_memory import END_VA, FIRST_VA, Memories

_WORD_BYTES: Final = 8
_LOWEST: Final = 1 << 32
"""Mappings below are those of a program loaded at a fixed address: no secret, and unused."""
_END: Final = 1 << 47
MAPS_PATH: Final = "/proc/self/maps"


class Own:
    """The memory of this process."""

    def __init__(self, memories: Memories) -> None:
        self._memories = memories

    @contextmanager
    def in_place(self, argument: bytearray, params: memoryview) -> Iterator[None]:
        """Inside, an ioctl's argument and the parameters behind it have real addresses.

        Raises: Unsupported, nothing done.
        """
        self._refuse(argument)
        exchanged = [(part, *one) for part in (argument, params) for one in self._exchange(part)]
        try:
            yield
        finally:
            for part, off, real, word in exchanged:
                if struct.unpack_from("<Q", part, off)[0] == real:
                    struct.pack_into("<Q", part, off, word)

    def _exchange(self, part: bytearray | memoryview) -> list[tuple[int, int, int]]:
        """(byte, real address, the recording's) of every address of anonymous memory in it."""
        exchanged: list[tuple[int, int, int]] = []
        for off, word in _words(part):
            real = self._memories.real(word) if FIRST_VA <= word < END_VA else 0
            if real:
                struct.pack_into("<Q", part, off, real)
                exchanged.append((off, real, word))
        return exchanged

    def params(self, va: int) -> memoryview:
        """Anonymous memory from an address of the recording to its end; empty without any."""
        return self._memories.anonymous(va)

    def _refuse(self, argument: bytearray) -> None:
        """Raises: Unsupported for an address of memory that is not the tape's."""
        suspects = {word for _, word in _words(argument) if _LOWEST <= word < _END}
        if any(not FIRST_VA <= word < END_VA and _mapped(word) for word in suspects):
            raise Unsupported(
                "memory of the program itself is not recorded",
                hint="copy to buffers of the device instead of wrapping memory",
            )


def _words(argument: bytearray | memoryview) -> list[tuple[int, int]]:
    """(byte, value) of its 64-bit words."""
    whole = argument[: len(argument) & -_WORD_BYTES]
    values = struct.unpack(f"<{len(whole) // _WORD_BYTES}Q", whole)
    return [(n * _WORD_BYTES, value) for n, value in enumerate(values)]


def _mapped(va: int) -> bool:
    """Whether this process has a mapping at an address."""
    with open(MAPS_PATH, encoding="ascii", errors="replace") as maps:
        for line in maps:
            first, _, last = line.partition(" ")[0].partition("-")
            if int(first, 16) <= va < int(last, 16):
                return True
    return False

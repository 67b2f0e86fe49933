"""Doorbells: one store that the GPU sees after everything that was stored before."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Final

from drivers.base.contracts import Region
from drivers.base.errors import Unsupported, during

_WORD_BYTES: Final = 8
_ORDERED: Final = "x86_64"
"""What `platform.machine()` calls it on Linux."""


def store64(region: Region, off: int, name: str = "doorbell") -> Callable[[int], None]:
    """A function that stores one 64-bit word, as fast as the region allows; errors name `name`.

    A value below the last one is dropped: a signal handler launched just before the store.
    """
    return movable64(region, off, name)[0]


def movable64(
    region: Region, off: int, name: str = "doorbell"
) -> tuple[Callable[[int], None], Callable[[Region], None]]:
    """`store64`, and what has it store at the same offset of another region from now on."""
    last = -1
    try:
        words = region.view().cast("Q")
    except Unsupported:  # registers that are not memory

        def write(value: int) -> None:
            nonlocal last
            if value > last:
                last = value
                with during(name):
                    region.write64(off, last)

        def rewrite(other: Region) -> None:
            nonlocal region
            region = other

        return write, rewrite
    check_order(platform.machine())
    place = words[off // _WORD_BYTES : off // _WORD_BYTES + 1]

    def store(value: int) -> None:
        nonlocal last
        if value > last:
            place[0] = last = value

    def move(other: Region) -> None:
        nonlocal place
        found = other.view().cast("Q")
        place = found[off // _WORD_BYTES : off // _WORD_BYTES + 1]

    return store, move


def check_order(machine: str) -> None:
    """Packets, write pointer and doorbell must be seen in the order in which they are stored.

    Raises: Unsupported for processors that promise no such order.
    # src: Intel SDM 3A, 9.2.2: stores to write-back memory, then to uncached memory, stay in order
    """
    if machine != _ORDERED:
        raise Unsupported(
            f"doorbells on {machine}: stores may reach the GPU in another order",
            hint="use an x86-64 machine",
        )

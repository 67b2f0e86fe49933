"""Addresses for DMA: a million random takes and gives, never two owners of a page.

The reference is an array with one byte for each page of the whole space.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from drivers.base.errors import BadArgument, MalformedInput, OutOfMemory
from drivers.base.pages import PAGE_BYTES
from drivers.pci.iova import LARGE_BYTES, LOWEST, IovaSpace
from tests.share import part
from tests.support import check

OPERATIONS = part(1_000_000, 200_000)
MIB = 1 << 20
RANGES = [(0, 24 * MIB - 1), (24 * MIB + PAGE_BYTES, 100 * MIB + 5), (200 * MIB, 320 * MIB - 1)]
LIMIT = 300 * MIB
MOST_LIVE = 80


def allowed() -> np.ndarray:
    """One byte for each page: 1 where it may be given out."""
    pages = np.zeros(400 * MIB // PAGE_BYTES, np.uint8)
    for first, last in RANGES:
        pages[-(-first // PAGE_BYTES) : (last + 1) // PAGE_BYTES] = 1
    pages[LIMIT // PAGE_BYTES :] = 0
    pages[: LOWEST // PAGE_BYTES] = 0
    return pages


def test_a_million_operations() -> None:
    chance = random.Random(5)
    space, free = IovaSpace(reversed(RANGES), LIMIT), allowed()
    live: list[tuple[int, int]] = []
    full = large = 0
    for _ in range(OPERATIONS):
        if live and (len(live) >= MOST_LIVE or chance.random() < 0.49):
            at = int(chance.random() * len(live))
            live[at], live[-1] = live[-1], live[at]
            iova, pages = live.pop()
            space.give(iova)
            free[iova >> 12 : (iova >> 12) + pages] = 1
            continue
        pages = int(2 ** (chance.random() * 12.5))
        try:
            iova = space.take(pages << 12)
        except OutOfMemory:
            full += 1
            continue
        page = iova >> 12
        if pages >= 512:
            large += 1
            check(iova % LARGE_BYTES == 0, f"{iova:#x} of {pages} pages")
        taken = free[page - 1 : page + pages + 1]
        if not taken[1:].all():  # with the guard page behind it
            raise AssertionError(f"{iova:#x} of {pages} pages: not all of it was free")
        free[page : page + pages] = 0
        live.append((iova, pages))
    check(full > 100 and large > 1000, f"{full} times full, {large} large ones")
    check(space.taken == len(live))
    for iova, _ in live:
        space.give(iova)
    everything = allowed()
    sizes = np.diff(np.flatnonzero(np.diff(everything, prepend=0, append=0)))[::2]
    longest = int(sizes.max()) - 1
    check(space.take(longest << 12) > 0, "all of it is one piece again")


def test_what_cannot_be_taken_or_given() -> None:
    space = IovaSpace([(0, 16 * MIB - 1)], 1 << 44)
    for nbytes in (0, -PAGE_BYTES, 1, PAGE_BYTES + 1):
        with pytest.raises(BadArgument):
            space.take(nbytes)
    iova = space.take(PAGE_BYTES)
    check(iova == LOWEST, "nothing near zero")
    for bad in (0, iova + PAGE_BYTES, iova - 1):
        with pytest.raises(BadArgument):
            space.give(bad)
    space.give(iova)
    with pytest.raises(BadArgument):
        space.give(iova)
    with pytest.raises(OutOfMemory) as caught:
        space.take(16 * MIB)
    check((caught.value.used, caught.value.limit) == (0, 15 * MIB))


def test_ranges_from_outside() -> None:
    with pytest.raises(MalformedInput, match="overlap"):
        IovaSpace([(0, 8 * MIB), (4 * MIB, 16 * MIB)], 1 << 44)
    with pytest.raises(OutOfMemory):
        IovaSpace([(1 << 45, (1 << 46) - 1), (9, 8)], 1 << 44).take(PAGE_BYTES)

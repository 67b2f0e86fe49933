"""Pages of VRAM and GPU addresses: random work against a plain picture of what is taken."""

from __future__ import annotations

import random

import numpy as np
import pytest

from drivers.bare.address_space import GUARD_BYTES, AddressSpace
from drivers.bare.vram import VramPages
from drivers.base.errors import BadArgument, OutOfMemory
from tests.support import check

PAGE, BIG, HUGE, MIB = 4096, 64 << 10, 2 << 20, 1 << 20
OPERATIONS = 100_000
"""In a test; a million were run by hand (`_pages_at_random(1_000_000, ...)`)."""


def _pages_at_random(operations: int, seed: int) -> VramPages:
    rng = random.Random(seed)
    first, last, seen = 32 * MIB, 288 * MIB, 160 * MIB
    pages, taken = VramPages(first, last, seen), np.zeros(last // PAGE, bool)
    taken[: first // PAGE] = True
    live: list[tuple[tuple[int, int], ...]] = []
    for _ in range(operations):
        if live and rng.random() < 0.5:
            at = rng.randrange(len(live))
            live[at], live[-1] = live[-1], live[at]
            pieces = live.pop()
            for offset, nbytes in pieces:
                taken[offset // PAGE : (offset + nbytes) // PAGE] = False
            pages.free(pieces)
            continue
        nbytes = rng.choice((1, PAGE, 3 * PAGE, BIG, BIG + 1, MIB, HUGE, 5 * HUGE))
        visible = rng.random() < 0.3
        try:
            pieces = pages.alloc(nbytes, visible=visible)
        except OutOfMemory:
            continue
        check(sum(size for _, size in pieces) == -(-nbytes // PAGE) * PAGE)
        for offset, size in pieces:
            part = taken[offset // PAGE : (offset + size) // PAGE]
            check(offset % PAGE == 0 and offset + size <= last and not part.any(), "overlap")
            check(not visible or offset + size <= seen, "behind the BAR")
            part[:] = True
        live.append(pieces)
    check(int(taken.sum()) * PAGE - first == pages.used_bytes)
    for pieces in live:
        pages.free(pieces)
    return pages


def test_pages_never_overlap_and_all_come_back() -> None:
    pages = _pages_at_random(OPERATIONS, 1)
    check(pages.used_bytes == 0)
    check(len(pages.alloc(128 * MIB, whole=True)) == 1, "what was freed does not lie together")


def test_alignment_by_size() -> None:
    pages = VramPages(PAGE, 64 * MIB)
    for nbytes, align in ((PAGE, PAGE), (BIG, BIG), (3 * BIG, BIG), (HUGE, HUGE), (9 * MIB, HUGE)):
        ((offset, _),) = pages.alloc(nbytes)
        check(offset % align == 0, f"{nbytes} at {offset:#x}")


def test_several_pieces_where_it_must() -> None:
    pages = VramPages(0, 16 * MIB)
    held = [pages.alloc(MIB, PAGE) for _ in range(16)]
    for every in held[::2]:
        pages.free(every)
    pieces = pages.alloc(5 * MIB)
    check(len(pieces) == 5 and {size for _, size in pieces} == {MIB})
    for refused in ({"whole": True}, {"align": HUGE}):
        with pytest.raises(OutOfMemory) as caught:
            pages.alloc(2 * MIB, **refused)
        check((caught.value.requested, caught.value.limit) == (2 * MIB, 16 * MIB))
    with pytest.raises(OutOfMemory):
        pages.alloc(4 * MIB)
    check(pages.used_bytes == 13 * MIB, "a refused request took something")


def test_freeing_twice_is_an_error() -> None:
    pages = VramPages(0, MIB)
    pieces = pages.alloc(BIG)
    pages.free(pieces)
    for wrong in (pieces, ((MIB, PAGE),), ((0, 0),)):
        with pytest.raises(ValueError, match="taken"):
            pages.free(wrong)


def test_unseen_pages_first() -> None:
    pages = VramPages(0, 4 * MIB, 2 * MIB)
    check(pages.alloc(MIB)[0][0] >= 2 * MIB)
    check(pages.alloc(MIB, visible=True)[0][0] < 2 * MIB)
    pages.alloc(MIB)
    check(pages.alloc(MIB)[0][0] < 2 * MIB, "the rest is not used")


@pytest.mark.parametrize("seed", [1, 2])
def test_addresses_have_guards_and_rest_before_reuse(seed: int) -> None:
    rng = random.Random(seed)
    space = AddressSpace(1 << 45, (1 << 45) + 64 * MIB - 1)
    live: dict[int, int] = {}
    resting: list[tuple[int, int]] = []
    for _ in range(4_000):
        if live and rng.random() < 0.5:
            va = rng.choice(list(live))
            resting.append((va, live.pop(va)))
            space.give(va)
        elif rng.random() < 0.1:
            space.settle()
            resting = []
        else:
            nbytes = rng.choice((1, PAGE, 3 * PAGE, BIG, 3 * MIB))
            try:
                va = space.take(nbytes)
            except OutOfMemory:
                continue
            end = va + -(-nbytes // PAGE) * PAGE
            align = HUGE if nbytes >= HUGE else BIG if nbytes >= BIG else PAGE
            check(va % align == 0 and va - GUARD_BYTES >= 1 << 45)
            check(end + GUARD_BYTES <= (1 << 45) + 64 * MIB)
            for other, size in (*live.items(), *resting):
                check(end + GUARD_BYTES <= other or other + size + GUARD_BYTES <= va, "too near")
            live[va] = end - va
    check(space.taken == len(live))


def test_addresses_are_given_back_once() -> None:
    space = AddressSpace()
    va = space.take(PAGE)
    space.give(va)
    for wrong in (va, va + PAGE, 0):
        with pytest.raises(BadArgument):
            space.give(wrong)
    check(space.take(PAGE) != va, "used again before a flush")
    space.settle()


def test_guards_are_inside_of_the_space() -> None:
    with pytest.raises(OutOfMemory):
        AddressSpace(1 << 45, (1 << 45) + 2 * PAGE - 1).take(PAGE)
    check(AddressSpace(1 << 45, (1 << 45) + 3 * PAGE - 1).take(PAGE) == (1 << 45) + PAGE)

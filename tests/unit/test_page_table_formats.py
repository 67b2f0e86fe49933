"""The neutral page-table builder with formats of other GPUs, looked up by walkers of these."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from drivers.bare.page_format import Rights
from drivers.bare.page_table import PageTable
from drivers.bare.vram import VramPages
from drivers.base.errors import BadArgument, OutOfMemory
from drivers.base.region import MemoryRegion
from tests.foreign_page_formats import FORMATS, Leaf
from tests.support import check

PAGE, MIB = 4096, 1 << 20
FIRST, LAST = 4 * MIB, 8 * MIB
ROOT = MIB
BASE = 1 << 32
"""Where VRAM begins, as entries see it."""
PLAIN = Rights(writable=True, executable=False, uncached=False)


@dataclass
class FakeCard:
    """VRAM full of what somebody left, and whether the GPU sees the last write."""

    vram: MemoryRegion = field(default_factory=lambda: MemoryRegion(bytearray(b"\xa5" * LAST)))
    pages: VramPages = field(default_factory=lambda: VramPages(FIRST, LAST))
    physical_base: int = BASE
    flushes: int = 0

    def flush_writes(self) -> None:
        self.flushes += 1


class Scene:
    """A table of a format, and what its walker finds."""

    def __init__(self, name: str) -> None:
        self.format, self.walk = FORMATS[name]
        self.card = FakeCard()
        self.table = PageTable(self.card, self.format, ROOT)
        check(self.table.root == BASE + ROOT, hex(self.table.root))
        self.sizes = [1 << level.shift for level in self.format.levels if level.maps]

    def look(self, va: int) -> Leaf | None:
        def read(address: int, nbytes: int) -> int:
            return int.from_bytes(self.card.vram.read(address - BASE, nbytes), "little")

        return self.walk(read, self.table.root, va)

    def address(self, va: int) -> int | None:
        found = self.look(va)
        return found.address if found is not None else None


@pytest.mark.parametrize("name", FORMATS)
def test_the_largest_pages_that_fit(name: str) -> None:
    scene = Scene(name)
    huge, small = scene.sizes
    va = huge * 5
    pieces = [(2 * huge, 2 * huge), (3 * PAGE, 5 * PAGE)]
    scene.table.map(va, pieces, PLAIN, system=True)
    first, last = scene.look(va + huge + 77), scene.look(va + 2 * huge + 4 * PAGE + 1)
    check(first == Leaf(3 * huge + 77, True, True, False, huge), str(first))
    check(last == Leaf(7 * PAGE + 1, True, True, False, small), str(last))
    for outside in (0, va - 1, va + 2 * huge + 5 * PAGE):
        check(scene.look(outside) is None, f"{outside:#x} is mapped")


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("system", [False, True])
@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("uncached", [False, True])
def test_rights(name: str, system: bool, writable: bool, uncached: bool) -> None:
    scene = Scene(name)
    rights = Rights(writable=writable, executable=True, uncached=uncached)
    scene.table.map(PAGE, [(MIB, PAGE)], rights, system=system)
    place = MIB if system else BASE + MIB
    found = scene.look(PAGE)
    check(found == Leaf(place, system, writable, uncached, PAGE), str(found))


@pytest.mark.parametrize("name", FORMATS)
def test_random_maps_and_unmaps(name: str) -> None:
    rng = random.Random(name)
    scene = Scene(name)
    live: dict[int, list[tuple[int, int]]] = {}
    for _ in range(200):
        before = scene.card.flushes
        if live and rng.random() < 0.45:
            va = rng.choice(sorted(live))
            scene.table.unmap(va, sum(size for _, size in live.pop(va)))
            if rng.random() < 0.3:
                scene.table.settle()
        else:
            _map_some(rng, scene, live)
        check(scene.card.flushes > before, "a change that the GPU need not see yet")
        for va, pieces in rng.sample(sorted(live.items()), min(4, len(live))):
            _same(rng, scene, va, pieces)
    for va, pieces in live.items():
        scene.table.unmap(va, sum(size for _, size in pieces))
        check(scene.look(va) is None, f"{va:#x} is still mapped")
    check(scene.card.pages.used_bytes > 0, "tables that the GPU may still walk were given away")
    scene.table.settle()
    check(scene.card.pages.used_bytes == scene.table.tables == 0, "tables leak")


def _map_some(
    rng: random.Random, scene: Scene, live: dict[int, list[tuple[int, int]]]
) -> None:  # fmt: skip
    aligns = [PAGE, 16 * PAGE, scene.sizes[0]]
    for _ in range(100):
        va = rng.randrange(0, 1 << 30, rng.choice(aligns))
        pieces = [
            (rng.randrange(0, 1 << 31, rng.choice(aligns)), PAGE * rng.choice((1, 5, 16, 3000)))
            for _ in range(rng.randrange(1, 4))
        ]
        end = va + sum(size for _, size in pieces)
        spans = [(at, at + sum(size for _, size in theirs)) for at, theirs in live.items()]
        if any(va < last and at < end for at, last in spans):
            with pytest.raises(BadArgument):
                scene.table.map(va, pieces, PLAIN, system=True)
            continue
        scene.table.map(va, pieces, PLAIN, system=True)
        live[va] = pieces
        return


def _same(rng: random.Random, scene: Scene, va: int, pieces: list[tuple[int, int]]) -> None:
    for address, size in pieces:
        for off in (0, rng.randrange(size), size - 1):
            found = scene.address(va + off)
            check(found == address + off, f"{va + off:#x}: {found} for {address + off:#x}")
        va += size


@pytest.mark.parametrize("name", FORMATS)
def test_no_memory_for_tables_leaves_nothing(name: str) -> None:
    scene = Scene(name)
    scene.card.pages.alloc(LAST - FIRST)
    with pytest.raises(OutOfMemory):
        scene.table.map(PAGE, [(MIB, PAGE)], PLAIN, system=True)
    check(scene.look(PAGE) is None and scene.table.mapped_bytes == 0)


@pytest.mark.parametrize("name", FORMATS)
def test_refused(name: str) -> None:
    scene = Scene(name)
    top = 1 << scene.format.va_bits
    beyond = 1 << scene.format.address_bits
    for va, pieces in (
        (top - PAGE, [(0, 2 * PAGE)]), (0, [(beyond, PAGE)]), (0, [(beyond - PAGE, 2 * PAGE)]),
        (0, [(-PAGE, PAGE)]), (1, [(0, PAGE)]), (0, []),
    ):  # fmt: skip
        with pytest.raises(BadArgument):
            scene.table.map(va, pieces, PLAIN, system=True)
    scene.table.map(top - PAGE, [(beyond - PAGE, PAGE)], PLAIN, system=True)
    check(scene.address(top - 1) == beyond - 1, "the last byte of both")

"""Page tables of the bare GPU, looked up by a walker that knows only the kernel's header."""

from __future__ import annotations

import random
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from drivers.amd.pci.page_table import base_of, page_table
from drivers.bare.page_format import Rights
from drivers.bare.page_table import PageTable
from drivers.bare.vram import VramPages
from drivers.base.errors import BadArgument, OutOfMemory
from tests.amd_table_walker import Found, walk
from tests.support import check

PAGE, BIG, HUGE = 4096, 64 << 10, 2 << 20
MIB = 1 << 20
MAJORS = (9, 11, 12)
VERSIONS = {9: (9, 4, 3), 11: (11, 0, 0), 12: (12, 0, 1)}
MTYPE_LOCAL = {9: 1, 11: 0, 12: 0}
MTYPE_HOST = {9: 3, 11: 0, 12: 0}
RIGHTS = Rights(writable=True, executable=False, uncached=False)
VA = 1 << 45


class Vram:
    """VRAM as memory that knows whether it was flushed."""

    def __init__(self, nbytes: int) -> None:
        self.data, self.dirty = bytearray(nbytes), False

    def write(self, off: int, data: bytes) -> None:
        check(off >= 0 and off + len(data) <= len(self.data), "write outside VRAM")
        self.data[off : off + len(data)] = data
        self.dirty = True

    def read64(self, off: int) -> int:
        return int(struct.unpack_from("<Q", self.data, off)[0])


def make(major: int, *, first: int = 32 * MIB, last: int = 40 * MIB, base: int = 0) -> Any:
    """A GPU as far as page tables see it."""
    vram = Vram(40 * MIB)

    def flush_writes() -> None:
        vram.dirty = False

    return SimpleNamespace(
        vram=vram,
        pages=VramPages(first, last),
        gc_version=VERSIONS[major],
        physical_base=base,
        flush_writes=flush_writes,
    )


def look(gpu: Any, major: int, table: PageTable, va: int) -> Found | None:
    check(not gpu.vram.dirty, "a change that the GPU need not see yet")
    check(base_of(table) & 1, "the root is not valid")
    base = gpu.physical_base
    return walk(lambda pa: gpu.vram.read64(pa - base), base_of(table) & ~1, major, va)


@pytest.mark.parametrize("major", MAJORS)
def test_page_sizes(major: int) -> None:
    gpu = make(major)
    table = page_table(gpu, 8)
    table.map(VA, [(HUGE, 2 * HUGE), (7 * HUGE + BIG, BIG), (PAGE, PAGE)], RIGHTS, system=False)
    huge = look(gpu, major, table, VA + HUGE + 123)
    check(huge == Found(2 * HUGE + 123, False, True, False, MTYPE_LOCAL[major], 9, HUGE))
    big = look(gpu, major, table, VA + 2 * HUGE + 5 * PAGE)
    check(big is not None and (big.fragment, big.page_bytes) == (4, PAGE))
    check(big is not None and big.address == 7 * HUGE + BIG + 5 * PAGE)
    small = look(gpu, major, table, VA + 2 * HUGE + BIG)
    check(small is not None and (small.fragment, small.address) == (0, PAGE))
    for outside in (VA - 1, VA + 2 * HUGE + BIG + PAGE, VA + HUGE * 512, 0):
        check(look(gpu, major, table, outside) is None, f"{outside:#x} is mapped")


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize("system", [False, True])
@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("executable", [False, True])
@pytest.mark.parametrize("uncached", [False, True])
def test_rights(major: int, system: bool, writable: bool, executable: bool, uncached: bool) -> None:
    gpu = make(major, base=1 << 40)
    table = page_table(gpu, 3)
    rights = Rights(writable=writable, executable=executable, uncached=uncached)
    table.map(VA, [(1 << 37, HUGE), (5 * PAGE, PAGE)], rights, system=system)
    mtype = 3 if uncached else (MTYPE_HOST if system else MTYPE_LOCAL)[major]
    offset = 0 if system else 1 << 40
    for va, pa, fragment, size in ((VA, 1 << 37, 9, HUGE), (VA + HUGE, 5 * PAGE, 0, PAGE)):
        wanted = Found(pa + offset, system, writable, executable, mtype, fragment, size)
        check(look(gpu, major, table, va) == wanted, f"{va:#x}: {look(gpu, major, table, va)}")


def test_empty_tables_are_given_back_after_a_flush() -> None:
    gpu = make(11)
    table = page_table(gpu, 8)
    for offset in (0, HUGE * 512, HUGE * 512 * 512):
        table.map(VA + offset, [(PAGE, 3 * PAGE)], RIGHTS, system=False)
    check(table.tables == 8, f"{table.tables} tables for three ranges in two roots")
    used = gpu.pages.used_bytes
    for offset in (0, HUGE * 512, HUGE * 512 * 512):
        table.unmap(VA + offset, 3 * PAGE)
        check(look(gpu, 11, table, VA + offset) is None)
    check(gpu.pages.used_bytes == used, "tables that the GPU may still walk were given away")
    table.settle()
    check(gpu.pages.used_bytes == 0 and table.tables == 0 and table.mapped_bytes == 0)


def test_no_memory_for_tables_leaves_nothing() -> None:
    gpu = make(12, last=32 * MIB + 4 * PAGE)
    table = page_table(gpu, 8)
    table.map(VA, [(0, PAGE)], RIGHTS, system=False)
    with pytest.raises(OutOfMemory):
        table.map(VA + HUGE - PAGE, [(0, HUGE * 512)], RIGHTS, system=False)
    table.settle()
    with pytest.raises(OutOfMemory):
        table.map(VA + HUGE * 512, [(PAGE, PAGE)], RIGHTS, system=False)
    check(look(gpu, 12, table, VA + HUGE - PAGE) is None)
    table.settle()
    check(gpu.pages.used_bytes == 3 * PAGE, f"{gpu.pages.used_bytes}")
    table.close()
    check(gpu.pages.used_bytes == 0)


@pytest.mark.parametrize(
    ("va", "pieces"),
    [
        (VA + 1, [(0, PAGE)]),
        (VA, [(1, PAGE)]),
        (VA, [(0, PAGE + 1)]),
        (VA, []),
        (-PAGE, [(0, PAGE)]),
        ((1 << 48) - PAGE, [(0, 2 * PAGE)]),
        (VA, [(1 << 48, PAGE)]),
        (VA + 20 * PAGE, [(0, PAGE)]),
        (VA + 8 * PAGE, [(0, 3 * PAGE)]),
        (VA + 8 * PAGE, [(0, 40 * PAGE)]),
    ],
)
def test_refused(va: int, pieces: list[tuple[int, int]]) -> None:
    gpu = make(11)
    table = page_table(gpu, 8)
    table.map(VA + 10 * PAGE, [(0, 16 * PAGE)], RIGHTS, system=False)
    before = bytes(gpu.vram.data)
    with pytest.raises(BadArgument):
        table.map(va, pieces, RIGHTS, system=False)
    for wrong in ((VA + 10 * PAGE, 15 * PAGE), (VA + 11 * PAGE, PAGE)):
        with pytest.raises(BadArgument):
            table.unmap(*wrong)
    check(bytes(gpu.vram.data) == before, "a refused call wrote")


@pytest.mark.parametrize("major", MAJORS)
def test_random_maps_and_unmaps(major: int) -> None:
    rng = random.Random(major)
    gpu = make(major)
    table = page_table(gpu, 8)
    live: dict[int, list[tuple[int, int]]] = {}
    for _ in range(300):
        if live and rng.random() < 0.45:
            va = rng.choice(sorted(live))
            table.unmap(va, sum(size for _, size in live.pop(va)))
            if rng.random() < 0.3:
                table.settle()
        else:
            _map_some(rng, table, live)
        _probe(rng, gpu, major, table, live)
    for va, pieces in live.items():
        table.unmap(va, sum(size for _, size in pieces))
    table.settle()
    check(gpu.pages.used_bytes == 0, "tables leak")


def _map_some(rng: random.Random, table: PageTable, live: dict[int, list[tuple[int, int]]]) -> None:
    align = rng.choice((PAGE, BIG, HUGE))
    va = VA + rng.randrange(0, 1 << 31, align)
    pieces = [
        (rng.randrange(0, 1 << 40, rng.choice((PAGE, BIG, HUGE))), rng.choice((1, 5, 16, 600)))
        for _ in range(rng.randrange(1, 4))
    ]
    sized = [(pa, pages * PAGE) for pa, pages in pieces]
    nbytes = sum(size for _, size in sized)
    overlaps = any(
        va < other + sum(size for _, size in theirs) and other < va + nbytes
        for other, theirs in live.items()
    )
    if overlaps:
        with pytest.raises(BadArgument):
            table.map(va, sized, RIGHTS, system=False)
        return
    table.map(va, sized, RIGHTS, system=False)
    live[va] = sized


def _probe(rng: random.Random, gpu: Any, major: int, table: PageTable,
           live: dict[int, list[tuple[int, int]]]) -> None:  # fmt: skip
    expected = {}
    for va, pieces in rng.sample(sorted(live.items()), min(4, len(live))):
        expected[va - 1] = None
        for pa, size in pieces:
            for off in (0, rng.randrange(size), size - 1):
                expected[va + off] = pa + off
            va += size
        expected[va] = None
    for va, pa in expected.items():
        inside = any(at <= va < at + sum(s for _, s in p) for at, p in live.items())
        found = look(gpu, major, table, va)
        if pa is None and inside:
            continue
        check((found.address if found else None) == pa, f"{va:#x}: {found} for {pa}")

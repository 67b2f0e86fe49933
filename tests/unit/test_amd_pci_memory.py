"""Memory of a bare GPU: zeroed, guarded, least rights, and forgotten before it is used again."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from drivers.amd.pci.page_table import base_of, page_table
from drivers.amd.pci.purposes import PURPOSES
from drivers.bare.address_space import AddressSpace
from drivers.bare.memory import Memories, PciMemory
from drivers.bare.vram import VramPages
from drivers.base.errors import BadArgument, DeviceTimeout, OutOfMemory, Unsupported, UseAfterFree
from drivers.base.region import MemoryRegion
from drivers.gpu.iface import Use
from drivers.pci.dma import Grade
from tests.amd_table_walker import Found, walk
from tests.support import check

MIB, PAGE = 1 << 20, 4096
FIRST, LAST = 32 * MIB, 40 * MIB
BUS = 7 << 32
LONG_S = 20


class FakeMemory(SimpleNamespace):
    __hash__ = object.__hash__


class FakeDma:
    """Host memory at made-up bus addresses, two pages each."""

    def __init__(self, grade: Grade) -> None:
        self.grade, self.live = grade, set[int]()
        self._next = BUS

    def alloc(self, nbytes: int, region: Any = None) -> Any:
        if self.grade is Grade.NONE:
            raise Unsupported("no DMA")
        size = 2 * PAGE
        ats = range(0, nbytes, size)
        pieces = tuple((self._next + 2 * at, min(size, nbytes - at)) for at in ats)
        self._next = pieces[-1][0] + 2 * size
        self.live.add(pieces[0][0])
        region = region or MemoryRegion(bytearray(nbytes))
        close = partial(self.live.remove, pieces[0][0])
        return FakeMemory(region=region, pieces=pieces, close=close)

    def map(self, _cpu_va: int, nbytes: int) -> Any:
        return self.alloc(nbytes, region=object())


class Bench:
    """Memories of a GPU of which only VRAM is there, full of what somebody left."""

    def __init__(self, grade: Grade = Grade.NONE) -> None:
        self.vram = MemoryRegion(bytearray(b"\xa5" * LAST))
        self.pages = VramPages(FIRST, LAST)
        self.flushes = 0
        self.on_flush: Callable[[], None] = lambda: None
        self.gpu: Any = SimpleNamespace(
            vram=self.vram, pages=self.pages, gc_version=(11, 0, 0), physical_base=0,
            flush_writes=lambda: None,
        )  # fmt: skip
        self.table = page_table(self.gpu, 8)
        self.dma: Any = FakeDma(grade)
        self.memories = Memories(self.gpu, self.table, AddressSpace(), self.dma, self.flush)

    def flush(self) -> None:
        self.flushes += 1
        self.on_flush()

    def found(self, va: int) -> Found | None:
        return walk(self.vram.read64, base_of(self.table) & ~1, 11, va)

    def bytes_at(self, memory: PciMemory) -> bytes:
        """What the GPU would read, page by page."""
        data = b""
        for at in range(0, memory.nbytes, PAGE):
            page = self.found(memory.gpu_va + at)
            check(page is not None and not page.system, f"{memory} has no page at {at:#x}")
            data += self.vram.read(page.address if page else 0, PAGE)
        return data


def test_what_was_there_is_gone() -> None:
    bench = Bench()
    for use in (Use.DEVICE, Use.CODE, Use.SHARED, Use.CONSTANT):
        for nbytes in (1, PAGE + 1, 2 * MIB):
            memory = bench.memories.allocate(nbytes, PURPOSES[use], "m", host=use is Use.SHARED)
            check(memory.nbytes == -(-nbytes // PAGE) * PAGE)
            check(not any(bench.bytes_at(memory)), f"{use} {nbytes}")
            memory.free()


@pytest.mark.parametrize(
    ("use", "rights", "uncached"),
    [
        (Use.DEVICE, (True, False), False),
        (Use.CONSTANT, (False, False), False),
        (Use.CODE, (False, True), False),
        (Use.SHARED, (True, False), True),
    ],
)
def test_rights_and_guards(use: Use, rights: tuple[bool, bool], uncached: bool) -> None:
    bench = Bench()
    neighbours = [bench.memories.allocate(3 * PAGE, PURPOSES[use], "m") for _ in range(3)]
    for memory in neighbours:
        for at in range(0, memory.nbytes, PAGE):
            page = bench.found(memory.gpu_va + at)
            check(page is not None and (page.writable, page.executable) == rights, f"{page}")
            check(page is not None and page.mtype == 3 * uncached, f"{page}")
        for outside in (memory.gpu_va - 1, memory.gpu_va + memory.nbytes):
            check(bench.found(outside) is None, f"no guard page at {outside:#x}")


def test_host_memory_behind_an_iommu() -> None:
    bench = Bench(Grade.IOMMU)
    memory = bench.memories.allocate(5 * PAGE, PURPOSES[Use.SHARED], "ring", host=True)
    found = [bench.found(memory.gpu_va + at) for at in range(0, 5 * PAGE, PAGE)]
    places = [page.address if page and page.system else 0 for page in found]
    check(places == [BUS, BUS + PAGE, BUS + 4 * PAGE, BUS + 5 * PAGE, BUS + 8 * PAGE], f"{places}")
    check(not memory.on_card and len(memory.view()) == 5 * PAGE)
    check(bench.pages.used_bytes == bench.table.tables * PAGE, "the ring is in VRAM")
    wrapped = bench.memories.wrap(0x7000_0000, 2 * PAGE, "numpy's")
    page = bench.found(wrapped.gpu_va)
    check(page is not None and page.system and not page.executable)
    with pytest.raises(BadArgument, match="whole pages"):
        bench.memories.wrap(0x7000_0001, PAGE, "m")
    memory.free()
    wrapped.free()
    check(not bench.dma.live and bench.found(wrapped.gpu_va) is None)


def test_huge_pages_of_the_host_are_shared() -> None:
    """Small pieces lie together, apart and zeroed; a page goes with the last of them."""
    rng, bench = random.Random(7), Bench(Grade.PHYSICAL)
    alive: list[PciMemory] = []
    most = 0
    for step in range(120):
        if len(alive) > 9 or (alive and rng.random() < 0.4):
            alive.pop(rng.randrange(len(alive))).free()
            continue
        size = rng.choice((PAGE, 3 * PAGE, 64 << 10, 512 << 10, MIB))
        memory = bench.memories.allocate(size, PURPOSES[Use.SHARED], "m", host=True)
        check(not memory.on_card and not any(memory.view()), f"step {step}: not zeroed")
        memory.view()[:] = bytes([step % 255 + 1]) * size
        alive.append(memory)
        places = [
            bench.found(one.gpu_va + at) for one in alive for at in range(0, one.nbytes, PAGE)
        ]
        bus = [page.address for page in places if page and page.system]
        check(len(set(bus)) == len(places), f"step {step}: pieces overlap")
        same = [one.view().tobytes().count(one.view()[0]) == one.nbytes for one in alive]
        check(all(same), f"step {step}: overwritten")
        most = max(most, len(bench.dma.live) - sum(one.nbytes >= MIB for one in alive))
    check(most <= 4, f"{most} huge pages for ten pieces of 512 KiB at most")
    for memory in alive:
        memory.free()
    check(not bench.dma.live, "huge pages are left")


def test_without_an_iommu_the_host_writes_into_vram() -> None:
    bench = Bench(Grade.NONE)
    memory = bench.memories.allocate(PAGE, PURPOSES[Use.SHARED], "ring", host=True)
    memory.view()[:4] = b"ring"
    check(memory.on_card and bench.bytes_at(memory)[:4] == b"ring" and not bench.dma.live)
    code = bench.memories.allocate(8, PURPOSES[Use.CODE], "k")
    bench.memories.write_code(code, b"\x01\x02\x03")
    check(bench.bytes_at(code)[:4] == b"\x01\x02\x03\0")
    with pytest.raises(Unsupported, match="not mapped for the host"):
        bench.memories.allocate(PAGE, PURPOSES[Use.DEVICE], "data").view()


def test_what_the_host_wrote_is_flushed_behind_it() -> None:
    bench = Bench()
    seen: list[bytes] = []
    code = bench.memories.allocate(PAGE, PURPOSES[Use.CODE], "k")
    bench.gpu.flush_writes = lambda: seen.append(bench.bytes_at(code)[:2])
    bench.memories.write_code(code, b"\x01\x02")
    check(seen == [b"\x01\x02"], f"{seen}")


def test_freed_pages_are_forgotten_before_anybody_has_them() -> None:
    bench = Bench()
    memory = bench.memories.allocate(MIB, PURPOSES[Use.DEVICE], "m")
    used = bench.pages.used_bytes
    seen: list[tuple[bool, int]] = []
    bench.on_flush = lambda: seen.append((bench.found(memory.gpu_va) is None, used))
    va, before = memory.gpu_va, bench.flushes
    memory.free()
    check(bench.flushes == before + 1 and seen == [(True, used)], "freed before the flush")
    check(bench.pages.used_bytes == 0 and bench.memories.handles == 0)
    with pytest.raises(UseAfterFree):
        memory.free()
    again = bench.memories.allocate(MIB, PURPOSES[Use.DEVICE], "m")
    check(bench.found(again.gpu_va) is not None)
    check(again.gpu_va == va or bench.found(va) is None)


def test_what_the_gpu_may_still_reach_stays() -> None:
    """The flush fails: pages and addresses are nobody's any more."""
    bench = Bench()
    memory = bench.memories.allocate(MIB, PURPOSES[Use.DEVICE], "m")
    place = bench.found(memory.gpu_va)

    def fail() -> None:
        raise DeviceTimeout("no answer")

    bench.on_flush = fail
    with pytest.raises(DeviceTimeout):
        memory.free()
    bench.on_flush = lambda: None
    first = place.address if place else 0
    for _ in range(5):
        other = bench.memories.allocate(MIB, PURPOSES[Use.DEVICE], "m")
        page = bench.found(other.gpu_va)
        check(page is not None and not first <= page.address < first + MIB, f"{page}")


def test_a_mapping_that_fails_halfway_is_forgotten_before_its_pages_are_free() -> None:
    """Tables run out while 6 MiB of scattered host memory are mapped: some entries were valid."""
    failed = 0
    for left in range(1, 8):
        bench = Bench(Grade.IOMMU)
        bench.pages.alloc(LAST - FIRST - bench.pages.used_bytes - left * PAGE)
        used, live = bench.pages.used_bytes, set[int]()
        bench.on_flush = lambda live=live, bench=bench: live.update(bench.dma.live)
        try:
            bench.memories.allocate(6 * MIB, PURPOSES[Use.SHARED], "m")
        except OutOfMemory:
            failed += 1
            check(bench.flushes == 1 and live, f"{left} pages: unmapped without a flush")
            check(bench.pages.used_bytes == used and not bench.dma.live, f"{left} pages")
    check(failed > 1, "tables never ran out")


def test_too_much_undoes_what_was_done() -> None:
    bench = Bench()
    for use in (Use.DEVICE, Use.SHARED):
        before = bench.pages.used_bytes
        with pytest.raises(OutOfMemory):
            bench.memories.allocate(9 * MIB, PURPOSES[use], "m", host=True)
        check(bench.pages.used_bytes == before and bench.memories.handles == 0)
    full = [bench.memories.allocate(MIB, PURPOSES[Use.DEVICE], "m") for _ in range(7)]
    with pytest.raises(OutOfMemory):
        bench.memories.allocate(
            LAST - FIRST - bench.pages.used_bytes, PURPOSES[Use.DEVICE], "with tables"
        )
    for memory in full:
        memory.free()
    check(bench.pages.used_bytes == 0 and bench.memories.bytes_held == 0)


def test_any_order() -> None:
    """Random lives: nothing overlaps, everything was zeroed, all of it comes back."""
    rng, bench = random.Random(3), Bench()
    alive: list[PciMemory] = []
    for step in range(400):
        if alive and (len(alive) > 12 or rng.random() < 0.45):
            alive.pop(rng.randrange(len(alive))).free()
            continue
        size = rng.choice((1, PAGE, 3 * PAGE, 64 << 10, 300_000))
        memory = bench.memories.allocate(size, PURPOSES[Use.SHARED], "m", host=True)
        check(not any(memory.view()), f"step {step}: not zeroed")
        memory.view()[:] = bytes([step % 255 + 1]) * memory.nbytes
        alive.append(memory)
        for other in alive:
            check(len(set(bench.bytes_at(other))) == 1, f"step {step}: {other} was overwritten")
    for memory in alive:
        memory.free()
    check((bench.pages.used_bytes, bench.memories.handles, bench.memories.bytes_held) == (0, 0, 0))


def test_a_child_frees_nothing_and_gets_nothing() -> None:
    bench = Bench(Grade.IOMMU)
    memory = bench.memories.allocate(PAGE, PURPOSES[Use.SHARED], "m", host=True)
    flushes = bench.flushes
    bench.memories.forked = True
    with pytest.raises(UseAfterFree, match="forked"):
        bench.memories.allocate(PAGE, PURPOSES[Use.DEVICE], "m")
    with pytest.raises(UseAfterFree, match="forked"):
        bench.memories.wrap(0x7000_0000, PAGE, "m")
    memory.free()
    check(bench.dma.live and bench.flushes == flushes and bench.found(memory.gpu_va) is not None)


def test_a_child_waits_for_no_thread_of_its_parent() -> None:
    """A thread that the child does not have held the lock when it was forked."""
    bench = Bench()
    memory = bench.memories.allocate(PAGE, PURPOSES[Use.DEVICE], "m")
    bench.memories.forked = True
    child = threading.Thread(target=memory.free, daemon=True)
    with bench.memories.lock:
        child.start()
        child.join(LONG_S)
        check(not child.is_alive(), "it waits")


def test_after_a_reset_no_table_is_written() -> None:
    bench = Bench(Grade.IOMMU)
    shared = bench.memories.allocate(PAGE, PURPOSES[Use.SHARED], "m", host=True)
    data = bench.memories.allocate(PAGE, PURPOSES[Use.DEVICE], "m")
    bench.memories.reset = True
    flushes, vram = bench.flushes, bytes(bench.vram.view())
    shared.free()
    data.free()
    check(not bench.dma.live and bench.flushes == flushes, "host memory is still shown")
    check(bytes(bench.vram.view()) == vram and bench.memories.handles == 0)


def test_a_copy_engine_zeroes_what_is_large() -> None:
    bench, idle = Bench(), [True]
    filled: list[tuple[int, int]] = []

    def fill(va: int, nbytes: int) -> bool:
        if not idle[0]:
            return False
        filled.append((va, nbytes))
        for at in range(0, nbytes, PAGE):
            page = bench.found(va + at)
            check(page is not None and page.writable, "the engine could not write")
            bench.vram.write(page.address if page else 0, bytes(PAGE))
        return True

    bench.memories.fill = fill
    large = bench.memories.allocate(MIB, PURPOSES[Use.DEVICE], "large")
    small = bench.memories.allocate(PAGE, PURPOSES[Use.DEVICE], "small")
    code = bench.memories.allocate(MIB, PURPOSES[Use.CODE], "code")
    check(filled == [(large.gpu_va, MIB)], f"{filled}")
    idle[0] = False
    busy = bench.memories.allocate(MIB, PURPOSES[Use.DEVICE], "while it is busy")
    for memory in (large, small, code, busy):
        check(not any(bench.bytes_at(memory)), memory.name)
        memory.free()
    check(bench.pages.used_bytes == 0)


def test_an_engine_that_fails_leaves_nothing() -> None:
    bench = Bench()

    def fill(_va: int, _nbytes: int) -> bool:
        raise DeviceTimeout("it hangs")

    bench.memories.fill = fill
    with pytest.raises(DeviceTimeout):
        bench.memories.allocate(MIB, PURPOSES[Use.DEVICE], "m")
    check((bench.pages.used_bytes, bench.memories.handles) == (0, 0))

"""The board's memory: page tables as the GPU reads them, faults, TLB, poison."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from boards.amd.memory.space import Checks
from boards.amd.wave.types import MemoryFault
from boards.machine.extents import Extents
from tests.boards.board_driver import (
    COHERENT,
    DEVICE_MEMORY,
    EXECUTABLE,
    GTT,
    SIGNALS,
    UNCACHED,
    USERPTR,
    VRAM,
    WRITABLE,
    Driver,
    Options,
    words,
)
from tests.support import check

MIB = 1 << 20


def _entries(driver: Driver, va: int) -> list[int]:
    """An independent walk over the bytes of VRAM: PDB2, PDB1, PDB0, PTB."""
    device, memory = driver.device(), driver.world.gpus[0].vram.bytes
    pa, found = device.table.root, []
    for shift in (39, 30, 21, 12):
        at = pa + 8 * (va >> shift & 511)
        entry = int.from_bytes(memory[at : at + 8].tobytes(), "little")
        found.append(entry)
        pa = entry & 0x0000FFFFFFFFF000
        if shift == 21 and entry & (1 << 54 | 1 << 63):
            break
    return found


# src: amdgpu_vm.h: VALID 0, SYSTEM 1, SNOOPED 2, EXECUTABLE 4, READABLE 5, WRITEABLE 6;
# MTYPE at 57 (VG10), 48 (NV10), 54 (GFX12); UC is 3, RW (gfx9 local VRAM) 1; IS_PTE 63 on gfx12
@pytest.mark.parametrize(
    ("chip", "vram", "uncached"),
    [
        ("gfx1100", 0x71, 0x77 | 3 << 48),
        ("gfx1030", 0x71, 0x77 | 3 << 48),
        ("gfx1201", 0x71 | 1 << 63, 0x77 | 3 << 54 | 1 << 63),
        ("gfx942", 0x75 | 1 << 57, 0x77 | 3 << 57),  # gfx9.4.3: all of it is snooped
    ],
)
def test_entries_have_each_familys_format(chip, vram, uncached) -> None:
    driver = Driver(chip)
    buffer, signals = driver.buffer(8192), driver.buffer(4096, SIGNALS)
    walk = _entries(driver, buffer.va)
    check(len(walk) == 4)
    for entry in walk[:3]:
        check(entry & ~0x0000FFFFFFFFF000 == 1, f"a directory entry is more than valid: {entry:#x}")
    check(walk[3] & ~0x0000FFFFFFFFF000 == vram, hex(walk[3]))
    check(_entries(driver, signals.va)[3] & ~0x0000FFFFFFFFF000 == uncached)
    offset = walk[3] & 0x0000FFFFFFFFF000
    words(buffer.region)[5] = 0xCAFE
    memory = driver.world.gpus[0].vram.words
    check(int(memory[offset // 4 + 5]) == 0xCAFE, "the entry does not point at the host's bytes")


# src: gmc_v9_0_get_coherence_flags(): 9.4.3 caches no system memory; gmc_v11_0_get_vm_pte():
# COHERENT is uncached; gmc_v12_0_get_vm_pte(): only UNCACHED is
@pytest.mark.parametrize(
    ("chip", "shift", "plain", "coherent"),
    [("gfx942", 57, 3, 3), ("gfx1030", 48, 0, 3), ("gfx1100", 48, 0, 3), ("gfx1201", 54, 0, 0)],
)
def test_memory_types_of_system_memory(chip, shift, plain, coherent) -> None:
    driver = Driver(chip)
    for flags, expected in ((0, plain), (COHERENT, coherent), (UNCACHED, 3)):
        buffer = driver.buffer(4096, GTT | WRITABLE | flags)
        check(_entries(driver, buffer.va)[3] >> shift & 3 == expected, f"{flags:#x}")


@pytest.mark.parametrize(("chip", "leaf"), [("gfx1100", 1 << 54), ("gfx1200", 1 << 63)])
def test_two_mebibytes_are_one_entry_of_the_level_above(chip, leaf) -> None:
    driver = Driver(chip)
    buffer = driver.buffer(4 * MIB)
    check(buffer.va % (2 * MIB) == 0)
    walk = _entries(driver, buffer.va + 3 * MIB)
    check(len(walk) == 3 and walk[2] & leaf)
    words(buffer.region)[3 * MIB // 4] = 77
    check(driver.space().read(buffer.va + 3 * MIB, 4) == (77).to_bytes(4, "little"))


# src: LLVM GCNSubtarget.cpp: the HSA ABI has memory in UNALIGNED mode, where elements lie anywhere.
@pytest.mark.parametrize("shift", range(4))
def test_loads_and_stores_are_numpys(shift: int) -> None:
    driver = Driver()
    buffer, random = driver.buffer(1 * MIB), np.random.default_rng(1)
    memory, space = words(buffer.region), driver.space("waves")
    memory[:] = random.integers(0, 1 << 32, len(memory), dtype=np.uint32)
    octets = memory.view(np.uint8)
    for nbytes in (1, 2, 4, 8, 12, 16):
        align = min(nbytes, 4)
        for index in (np.arange(100), random.permutation(1000), np.array([3, 3, 9])):
            off = index * max(nbytes, align) + shift
            va = np.uint64(buffer.va) + off.astype(np.uint64)
            expected = octets[off[:, None] + np.arange(nbytes)]
            padded = np.zeros((len(off), -(-nbytes // 4) * 4), np.uint8)
            padded[:, :nbytes] = expected
            found = space.load(va, nbytes)
            np.testing.assert_array_equal(found, padded.view(np.uint32).T)
            data = random.integers(0, 1 << 32, found.shape, dtype=np.uint32)
            space.store(va, data, nbytes)
            model = {int(o): data[:, lane] for lane, o in enumerate(off)}
            for offset, value in model.items():
                check(octets[offset : offset + nbytes].tobytes() == value.tobytes()[:nbytes])


@pytest.mark.parametrize("shift", range(4))
def test_elements_across_buffers_and_pools(shift: int) -> None:
    driver = Driver()
    place = driver.world.reserve(4 * MIB)
    base = place.cpu_va + (-place.cpu_va % MIB)
    for i, flags in enumerate((DEVICE_MEMORY, GTT | WRITABLE)):
        va = base + 4096 * i
        answer = driver.call("alloc_memory_of_gpu", va, 4096, 0, 0, driver.gpu_ids[0], flags)
        ids = np.array(driver.gpu_ids, np.uint32)
        driver.call("map_memory_to_gpu", answer[2], ids.ctypes.data, 1, 0)
    space = driver.space("waves")
    va = np.array([base + 4096 - 8, base + 4096 + 64, base + 100], np.uint64) + np.uint64(shift)
    data = np.arange(12, dtype=np.uint32).reshape(4, 3)
    space.store(va, data, 16)
    np.testing.assert_array_equal(space.load(va, 16), data)
    check(space.read(base + 4096 - 8 + shift, 16) == data[:, 0].tobytes())
    space.store(np.array([base + 4096 - 1], np.uint64), np.array([[0x12345678]], np.uint32), 2)
    check(space.read(base + 4096 - 1, 2) == b"\x78\x56")
    check(int(space.load(np.array([base + 4096 - 1], np.uint64), 2)[0, 0]) == 0x5678)
    with pytest.raises(MemoryFault):
        space.load(np.array([base, base + 8192 - 8], np.uint64), 16)


@pytest.mark.parametrize("count", [1, 5])
def test_faults_say_what_and_where(count) -> None:
    driver = Driver()
    readable = driver.buffer(4096, VRAM)
    good = driver.buffer(4096, VRAM | WRITABLE, map_to=[])
    space = driver.space()
    va = np.uint64(readable.va) + np.arange(count, dtype=np.uint64) * np.uint64(4)
    data = np.zeros((1, count), np.uint32)
    with pytest.raises(MemoryFault) as fault:
        space.store(va, data, 4)
    check((fault.value.kind, fault.value.access) == ("read-only", "write"))
    with pytest.raises(MemoryFault) as fault:
        space.fetch(readable.va, 64)
    check((fault.value.kind, fault.value.access) == ("no-execute", "execute"))
    va[-1] += np.uint64(4096)
    with pytest.raises(MemoryFault) as fault:
        space.load(va, 4)
    check(fault.value.kind == "unmapped" and fault.value.index == count - 1)
    check(fault.value.va == int(va[-1]))
    with pytest.raises(MemoryFault):
        space.read(good.va, 1)
    good.region.view()[:4] = b"host"  # the host still sees what the GPU does not


@pytest.mark.parametrize(("at", "nbytes", "found"), [(1, 4, 0), (5, 4, 1), (7, 2, 1), (2, 12, 1)])
def test_unaligned_reads_of_fresh_memory_are_reported(at: int, nbytes: int, found: int) -> None:
    driver = Driver()
    buffer, space = driver.buffer(4096), driver.space("waves")
    space.store(np.array([buffer.va], np.uint64), np.zeros((2, 1), np.uint32), 8)
    space.load(np.array([buffer.va + at, buffer.va], np.uint64), nbytes)
    check([f.kind for f in driver.world.violations] == ["uninitialised VRAM"] * found)


def test_a_write_that_faults_writes_nothing() -> None:
    driver = Driver()
    buffer = driver.buffer(4096)
    buffer.region.write(0, bytes(4096))
    with pytest.raises(MemoryFault):
        driver.space().write(buffer.va + 4090, b"0123456789")
    check(buffer.region.read(4090, 6) == bytes(6))


def test_a_tlb_that_is_not_flushed_goes_stale() -> None:
    driver = Driver()
    buffer, space = driver.buffer(4096), driver.space()
    buffer.region.write(0, b"old!")
    check(space.read(buffer.va, 4) == b"old!")
    driver.unmap(buffer, 0)
    with pytest.raises(MemoryFault):
        space.read(buffer.va, 4)
    driver.map(buffer, 0)
    check(space.read(buffer.va, 4) == b"old!")
    driver.world.panel.stale_tlb()
    space.read(buffer.va, 4)
    driver.unmap(buffer, 0)
    check(space.read(buffer.va, 4) == b"old!", "the stale entry is not used")
    driver.world.panel.stale_tlb(on=False)
    with pytest.raises(MemoryFault):
        space.read(buffer.va, 4)


def test_freed_memory_is_not_reused_while_the_host_maps_it() -> None:
    driver = Driver()
    first = driver.buffer(MIB)
    start = _entries(driver, first.va)[3] & 0x0000FFFFFFFFF000
    driver.unmap(first, 0)
    driver.call("free_memory_of_gpu", first.handle)
    used = driver.world.baseline().vram_bytes
    second = driver.buffer(MIB)
    check(_entries(driver, second.va)[3] & 0x0000FFFFFFFFF000 != start)
    view = first.region.view()
    first.region.close()
    check(driver.world.baseline().vram_bytes >= used + MIB, "freed under a live view")
    view[0] = 1
    del view
    check(driver.world.baseline().vram_bytes < used + MIB)


def _kinds(driver: Driver) -> list[str]:
    return [violation.kind for violation in driver.world.violations]


def test_reading_vram_that_nobody_wrote_is_found_once() -> None:
    driver = Driver()
    buffer, space = driver.buffer(65536), driver.space("waves")
    va = np.uint64(buffer.va) + np.arange(64, dtype=np.uint64) * np.uint64(4)
    space.store(va, np.zeros((1, 64), np.uint32), 4)
    space.load(va, 4)
    check(not driver.world.violations)
    space.release()
    copier = driver.space("SDMA0")
    copier.acquire()
    copier.read(buffer.va, 4096)  # a copy engine does not use what it moves
    check(not driver.world.violations)
    space.load(va + np.uint64(128), 4)
    space.load(va + np.uint64(256), 4)
    check(_kinds(driver) == ["uninitialised VRAM"], str(driver.world.violations))
    check(f"{buffer.va:#x}" in str(driver.world.violations[0]))
    for nbytes in (16, 400):  # few words, and many
        driver.world.hardware.forget_violations()
        space.read(buffer.va + 252, nbytes)
        check(f"at {buffer.va + 256:#x}" in str(driver.world.violations), f"{nbytes} bytes")
    words(buffer.region)[:] = 1
    driver.world.hardware.forget_violations()
    space.read(buffer.va, 65536)
    check(not driver.world.violations)


def test_freed_vram_is_poison_for_its_next_owner() -> None:
    driver = Driver()
    buffer = driver.buffer(4096)
    buffer.region.write(0, b"secret" * 600)
    driver.unmap(buffer, 0)
    driver.free(buffer)
    again = driver.buffer(4096)
    check(b"secret" not in again.region.read(0, 4096))


def test_what_was_written_to_freed_memory_is_nobodys() -> None:
    driver = Driver()
    buffer = driver.buffer(4096)
    driver.space("waves").write(buffer.va, bytes(4096))
    start = _entries(driver, buffer.va)[3]
    driver.unmap(buffer, 0)
    driver.free(buffer)
    again = driver.buffer(4096)
    check(_entries(driver, again.va)[3] == start, "the same memory")
    again.region.write(0, bytes(4096))
    driver.space("CP").read(again.va, 4096)
    check(not driver.world.violations)


@pytest.mark.parametrize(("chip", "change"), [("gfx1201", 1 << 63), ("gfx1100", 2 | 1 << 46)])
def test_entries_that_lead_nowhere_fault(chip: str, change: int) -> None:
    """gfx12 without IS_PTE; a bus address behind which nothing lies."""
    driver = Driver(chip)
    buffer = driver.buffer(4096)
    at = (_entries(driver, buffer.va)[2] & 0x0000FFFFFFFFF000) + 8 * (buffer.va >> 12 & 511)
    entries = driver.world.gpus[0].vram.bytes.view(np.uint64)
    driver.space().read(buffer.va + 4000, 4)
    entries[at // 8] ^= np.uint64(change)
    driver.device().flush()
    with pytest.raises(MemoryFault, match="unmapped"):
        driver.space().read(buffer.va + 4000, 4)


def test_uncached_memory_needs_no_flush() -> None:
    driver = Driver()
    buffer = driver.buffer(4096, GTT | WRITABLE | COHERENT | UNCACHED)
    driver.space("waves").write(buffer.va, b"word")
    check(driver.space("CP").read(buffer.va, 4) == b"word")
    check(not driver.world.violations)


def test_checks_can_be_switched_off() -> None:
    checks = Checks(poison=False, coherence=False)
    driver = Driver(options=Options(gtt_bytes=1 << 22, checks=checks))
    buffer = driver.buffer(4096)
    driver.space("waves").write(buffer.va, b"abcdefgh")
    found = driver.space("CP").load(np.array([buffer.va + 1], np.uint64), 4)
    check(found.tobytes() == b"bcde")
    driver.space("CP").read(buffer.va, 4096)
    check(not driver.world.violations)


def test_two_gpus_see_one_buffer_over_the_bus() -> None:
    driver = Driver(gpus=2)
    buffer = driver.buffer(8192, gpu=0, map_to=[0, 1])
    words(buffer.region)[:] = np.arange(2048)
    entry = driver.device(1).table.walk(buffer.va).entry
    check(entry & 2, "a peer's VRAM is reached over the bus: SYSTEM")
    check(not driver.device(0).table.walk(buffer.va).entry & 2)
    check(driver.space(number=1).read(buffer.va + 400, 4) == (100).to_bytes(4, "little"))
    driver.unmap(buffer, 0)
    with pytest.raises(MemoryFault):
        driver.space(number=0).read(buffer.va, 4)
    driver.space(number=1).read(buffer.va, 4)


def test_user_pages_are_the_processs_own() -> None:
    driver = Driver()
    region = driver.world.mmap(-1, 8192)
    flags = USERPTR | WRITABLE | EXECUTABLE
    gpu_va = region.cpu_va
    values = (gpu_va, 8192, 0, region.cpu_va, driver.gpu_ids[0], flags)
    handle = driver.call("alloc_memory_of_gpu", *values)[2]
    ids = np.array(driver.gpu_ids, np.uint32)
    driver.call("map_memory_to_gpu", handle, ids.ctypes.data, 1, 0)
    driver.space().write(gpu_va + 4000, b"from the GPU" * 20)
    check(region.read(4000, 12) == b"from the GPU")


def test_fragmented_vram_is_given_in_pieces() -> None:
    driver = Driver(vram_bytes=8 * MIB)
    small = [driver.buffer(256 << 10, host=False) for _ in range(24)]
    for buffer in small[::2]:
        driver.unmap(buffer, 0)
        driver.free(buffer)
    large = driver.buffer(2 * MIB)
    check(len(driver.world.process.memory.buffers[-1].pieces) > 1)
    words(large.region)[:] = np.arange(MIB // 2)
    va = np.uint64(large.va) + np.arange(MIB // 2, dtype=np.uint64) * np.uint64(4)
    np.testing.assert_array_equal(driver.space("waves").load(va, 4)[0], np.arange(MIB // 2))


def test_extents_never_overlap_and_come_back() -> None:
    random, extents = np.random.default_rng(7), Extents(4096, 1 << 24)
    taken: list = []
    for _ in range(400):
        if taken and random.random() < 0.45:
            extents.give(taken.pop(int(random.integers(len(taken)))))
            continue
        pages = int(random.integers(1, 64))
        taken.append(extents.take(pages * 4096, 4096))
        ranges = sorted((p.start, p.end) for pieces in taken for p in pieces)
        check(all(a[1] <= b[0] for a, b in itertools.pairwise(ranges)))
        check(sum(p.nbytes for p in taken[-1]) == pages * 4096)
    for pieces in taken:
        extents.give(pieces)
    check(extents.free_bytes == 1 << 24)
    check(len(extents.take(1 << 24, 4096, whole=True)) == 1)

"""The board's queues: what CREATE_QUEUE checks, doorbells, copy engines."""

from __future__ import annotations

import errno
from types import SimpleNamespace

import pytest

from tests.boards.board_driver import (
    AQL_QUEUE_MEM,
    PAGE,
    SIGNALS,
    USERPTR,
    WRITABLE,
    Driver,
    fails,
)
from tests.support import check


def _refused(driver: Driver, parts, number: int, kind: int = 0, **other: int) -> None:
    fails(number, driver.create_queue, parts, kind, **other)


def test_queues_are_checked() -> None:
    driver = Driver(vram_bytes=128 << 20)
    parts = driver.queue_parts()
    save, stack = parts.sizes.cwsr, parts.sizes.ctl_stack
    for other in (
        {"percent": 101}, {"priority": 16}, {"ring_bytes": 3 << 12}, {"gpu_id": 1},
        {"ring": parts.ring.va + PAGE}, {"ring_bytes": 1 << 15}, {"ring_bytes": 1 << 17},
        {"wptr": parts.ring.va}, {"rptr": parts.ring.va + PAGE}, {"wptr": 0x4000},
        {"eop": 0x4000}, {"eop_bytes": 2048}, {"eop_bytes": 2 * PAGE},
        {"ctl_stack": stack + PAGE}, {"ctl_stack": stack - PAGE}, {"save_bytes": save - PAGE},
        {"save_bytes": save + PAGE}, {"save": parts.save.va + PAGE},
    ):  # fmt: skip
        _refused(driver, parts, errno.EINVAL, **other)
    _refused(driver, parts, errno.EFAULT, ring=1 << 50)
    _refused(driver, parts, errno.EFAULT, rptr=1 << 50)
    with pytest.raises(OSError, match="queue type") as error:
        driver.create_queue(parts, 9)
    check(error.value.errno == 524, "ENOTSUPP of the kernel, which libc has no name for")
    _refused(driver, parts, errno.EINVAL, 4, engine=2)
    check(driver.world.baseline().queues == 0)
    check(driver.create_queue(parts, wptr=parts.wptr.va + 64, rptr=parts.rptr.va + 128)[0] == 0)
    check(driver.create_queue(parts, eop=0, eop_bytes=0)[0] == 1)
    fails(errno.EBUSY, driver.unmap, parts.ring, 0)
    driver.call("destroy_queue", 0)
    driver.call("destroy_queue", 1)
    fails(errno.EINVAL, driver.call, "destroy_queue", 1)
    driver.unmap(parts.ring, 0)


def test_doorbells_ring_their_own_queue() -> None:
    driver = Driver(vram_bytes=128 << 20)
    parts = driver.queue_parts()
    offsets = [driver.create_queue(parts, kind)[1] for kind in (0, 2, 1, 1)]
    check(len(set(offsets)) == 4)
    # src: amdgpu_doorbell.h sDMA_ENGINE0 0x100, ENGINE1 0x10A; two of eight queues are reserved
    check([offset & 0x1FFF for offset in offsets[2:]] == [8 * 0x101, 8 * 0x10B])
    page = driver.doorbells(offsets[0])
    for number, offset in enumerate(offsets):
        page.write64(offset & 0x1FFF, number + 10)
    engines = driver.device().engines
    check(engines.rung == [(0, 10), (1, 11), (2, 12), (3, 13)])
    kinds = [engines.specs[n].kind for n in range(4)]
    check(kinds == ["pm4", "aql", "sdma", "sdma"])
    check([engines.specs[n].engine for n in (2, 3)] == [0, 1])
    check(not driver.world.violations)
    page.write64(0x1FF8, 1)
    page.write32(offsets[0] & 0x1FFF, 1)
    check([violation.kind for violation in driver.world.violations] == ["doorbell"] * 2)
    driver.world.panel.mute(1)
    page.write64(offsets[1] & 0x1FFF, 99)
    check((1, 99) not in engines.rung)
    driver.world.panel.unmute(1)
    fails(errno.EINVAL, driver.world.mmap, driver.kfd, PAGE, offsets[0] & ~0x1FFF)
    fails(errno.ENOTSUP, page.view)


def test_copy_queues_run_out() -> None:
    driver = Driver()
    parts = driver.queue_parts()
    for _ in range(12):  # two engines, six queues each
        driver.create_queue(parts, 1)
    _refused(driver, parts, errno.ENOMEM, 1)
    _refused(driver, parts, errno.ENOMEM, 4, engine=1)
    driver.call("destroy_queue", 3)
    _refused(driver, parts, errno.ENOMEM, 4, engine=0)
    driver.create_queue(parts, 4, engine=1)
    check(driver.device().engines.specs[3].engine == 1)


@pytest.mark.parametrize(("chip", "errno_"), [("gfx1100", errno.EPERM), ("gfx1030", 0)])
def test_write_pointers_that_mes_cannot_pin(chip: str, errno_: int) -> None:
    driver = Driver(chip, vram_bytes=128 << 20, gpus=2)
    parts, memory = driver.queue_parts(), driver.world.mmap(-1, PAGE)
    elsewhere = driver.buffer(PAGE, SIGNALS, gpu=1, map_to=[0])
    values = (memory.cpu_va, PAGE, 0, memory.cpu_va, driver.gpu_ids[0], USERPTR | WRITABLE)
    handle = driver.call("alloc_memory_of_gpu", *values)[2]
    driver.map(SimpleNamespace(handle=handle), 0)
    if errno_:
        _refused(driver, parts, errno_, wptr=memory.cpu_va)
        _refused(driver, parts, errno.EINVAL, wptr=elsewhere.va)
    else:
        driver.create_queue(parts, wptr=memory.cpu_va)
        driver.create_queue(parts, wptr=elsewhere.va)


@pytest.mark.parametrize(("chip", "limit"), [("gfx1100", 127), ("gfx942", 255)])
def test_compute_queues_run_out(chip: str, limit: int) -> None:
    """src: pqm_create_queue() max_queues"""
    driver = Driver(chip, vram_bytes=512 << 20)
    parts = driver.queue_parts()
    for _ in range(limit):
        driver.create_queue(parts)
    _refused(driver, parts, errno.ENOSPC)


def test_queues_can_be_updated() -> None:
    driver = Driver(vram_bytes=128 << 20)
    parts, other = driver.queue_parts(), None
    driver.create_queue(parts)
    other = driver.buffer(1 << 17, SIGNALS)
    fails(errno.EFAULT, driver.call, "update_queue", other.va, 5, 1 << 17, 100, 7)
    fails(errno.EFAULT, driver.call, "update_queue", other.va, 0, 1 << 16, 100, 7)
    fails(errno.EINVAL, driver.call, "update_queue", other.va, 0, 1 << 17, 101, 7)
    driver.call("update_queue", other.va, 0, 1 << 17, 100, 7)
    spec = driver.device().engines.specs[0]
    check((spec.ring_va, spec.ring_bytes, spec.active) == (other.va, 1 << 17, True))
    driver.unmap(parts.ring, 0)
    fails(errno.EBUSY, driver.unmap, other, 0)
    driver.call("update_queue", 0, 0, 0, 100, 7)
    check(not spec.active)


def test_aql_rings_are_mapped_twice() -> None:
    driver = Driver()
    buffer = driver.buffer(1 << 14, SIGNALS | AQL_QUEUE_MEM)
    buffer.region.write(0, b"packet")
    for va in (buffer.va, buffer.va + (1 << 14)):
        check(driver.space().read(va, 6) == b"packet")

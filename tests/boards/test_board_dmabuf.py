"""The board's dma-bufs: what Linux 6.12 answers, with the errno it gives, and what it keeps."""

from __future__ import annotations

import errno
from types import SimpleNamespace

import numpy as np

from boards.amd.machine import another_process, open_board
from tests.boards.board_driver import (
    DEVICE_MEMORY,
    DOORBELL,
    EXECUTABLE,
    GTT,
    PAGE,
    PUBLIC,
    SIGNALS,
    USERPTR,
    VRAM,
    WRITABLE,
    Driver,
    FakeEngines,
    Options,
    fails,
)
from tests.support import check

SIZE = 4 * PAGE


class Second(Driver):
    """Another process in front of the same board."""

    def __init__(self, first: Driver, *, acquire: bool = True) -> None:
        self.places: list = []
        self.world = another_process(first.world)
        self.start(acquire)


def export(driver: Driver, buffer: SimpleNamespace) -> int:
    return driver.call("export_dmabuf", buffer.handle, 0)[2]


def imported(driver: Driver, fd: int, gpu: int = 0, nbytes: int = SIZE) -> SimpleNamespace:
    """Import to addresses of its own, and map to the GPU."""
    place = driver.world.reserve(nbytes + PAGE)
    driver.places.append(place)
    va = place.cpu_va
    handle = driver.call("import_dmabuf", va, 0, driver.gpu_ids[gpu], fd)[1]
    found = SimpleNamespace(va=va, handle=handle, nbytes=nbytes)
    driver.map(found, gpu)
    return found


def test_what_a_dmabuf_is() -> None:
    """src: kfd_ioctl_get_dmabuf_info() since 9d7993a7ab96: of GTT memory the first GPU's id."""
    driver = Driver(gpus=2)
    first, second = driver.gpu_ids
    for flags, gpu, gpu_id, told in (
        (DEVICE_MEMORY, 0, first, VRAM | PUBLIC),
        (DEVICE_MEMORY, 1, second, VRAM | PUBLIC),
        (VRAM | WRITABLE, 1, second, VRAM),
        (SIGNALS, 0, first, GTT),
        (SIGNALS, 1, first, GTT),
    ):
        fd = export(driver, driver.buffer(SIZE, flags, gpu=gpu, host=False))
        answer = driver.call("get_dmabuf_info", 77, 0, 88, 99, 0xFFFFFFFF, fd)
        check(answer == (SIZE, 0, 88, gpu_id, told, fd), f"{answer}")
    place = np.zeros(16, np.uint8)
    answer = driver.call("get_dmabuf_info", 0, place.ctypes.data, 16, 0, 0, fd)
    check(answer[2] == 0, "KFD's buffers have no metadata")


def test_what_is_refused() -> None:
    driver = Driver(gpus=2)
    gpu_id, buffer = driver.gpu_ids[0], driver.buffer(SIZE)
    fd = export(driver, buffer)
    fails(errno.EBADF, driver.call, "get_dmabuf_info", 0, 0, 0, 0, 0, 77)
    fails(errno.EINVAL, driver.call, "get_dmabuf_info", 0, 0, 0, 0, 0, driver.render[0])
    fails(errno.EINVAL, driver.call, "import_dmabuf", buffer.va, 0, 0x777, fd)
    fails(errno.EBADF, driver.call, "import_dmabuf", buffer.va, 0, gpu_id, 77)
    fails(errno.EINVAL, driver.call, "import_dmabuf", buffer.va, 0, gpu_id, driver.kfd)
    late = Second(driver, acquire=False)
    fails(errno.ENODEV, late.call, "import_dmabuf", buffer.va, 0, gpu_id, 77)
    fails(errno.EBADF, late.call, "get_dmabuf_info", 0, 0, 0, 0, 0, fd)
    fails(errno.EINVAL, driver.call, "export_dmabuf", buffer.handle + 5, 0)
    fails(errno.EINVAL, driver.call, "export_dmabuf", 0x777 << 32, 0)
    pages = np.zeros(3 * PAGE, np.uint8)
    va = -(-pages.ctypes.data // PAGE) * PAGE
    user = driver.call("alloc_memory_of_gpu", va, PAGE, 0, va, gpu_id, USERPTR | WRITABLE)[2]
    fails(errno.EPERM, driver.call, "export_dmabuf", user, 0)
    bells = driver.call("alloc_memory_of_gpu", 1 << 40, 8192, 0, 0, gpu_id, DOORBELL)[2]
    fails(errno.EPERM, driver.call, "export_dmabuf", bells, 0)
    # The address is only looked at when it is mapped, as that of any buffer.
    handle = driver.call("import_dmabuf", buffer.va, 0, gpu_id, fd)[1]
    fails(errno.EINVAL, driver.map, SimpleNamespace(handle=handle), 0)
    driver.call("free_memory_of_gpu", handle)


def test_two_processes_and_all_rights() -> None:
    one = Driver()
    two = Second(one)
    buffer = one.buffer(SIZE, VRAM | WRITABLE | PUBLIC)
    fd = two.world.receive(one.world, export(one, buffer))
    other = imported(two, fd)
    two.world.close(fd)
    one.space().write(buffer.va + PAGE, b"from one")
    check(two.space().read(other.va + PAGE, 8) == b"from one")
    two.space().write(other.va + 2 * PAGE, b"from two")
    check(bytes(buffer.region.view()[2 * PAGE : 2 * PAGE + 8]) == b"from two")
    flags = two.device().handles[other.handle & 0xFFFFFFFF].flags
    check(flags == VRAM | WRITABLE | EXECUTABLE, f"{flags:#x}")
    fails(errno.EBUSY, two.call, "free_memory_of_gpu", other.handle)


def test_an_import_keeps_the_memory_of_who_is_gone() -> None:
    one = Driver()
    two = Second(one)
    empty = one.world.gpus[0].memory.used_bytes
    buffer = one.buffer(SIZE, host=False)
    sent = export(one, buffer)
    fd = two.world.receive(one.world, sent)
    one.space().write(buffer.va, b"stays")
    one.world.kill()
    other = imported(two, fd)
    two.world.close(fd)
    check(two.space().read(other.va, 5) == b"stays")
    two.map(other, 0, call="unmap_memory_from_gpu")
    used = one.world.gpus[0].memory.used_bytes
    two.call("free_memory_of_gpu", other.handle)
    check(one.world.gpus[0].memory.used_bytes == used - SIZE, "the last one gives it back")
    check(two.world.baseline().buffers == 0)
    two.world.kill()
    check(one.world.gpus[0].memory.used_bytes <= empty)


def test_a_descriptor_alone_keeps_the_memory() -> None:
    driver = Driver()
    buffer = driver.buffer(SIZE, host=False)
    fd = export(driver, buffer)
    again = driver.world.duplicate(fd)
    used = driver.world.gpus[0].memory.used_bytes
    driver.map(buffer, 0, call="unmap_memory_from_gpu")
    driver.call("free_memory_of_gpu", buffer.handle)
    driver.world.close(fd)
    check(driver.world.gpus[0].memory.used_bytes == used)
    check(driver.call("get_dmabuf_info", 0, 0, 0, 0, 0, again)[0] == SIZE)
    driver.world.close(again)
    check(driver.world.gpus[0].memory.used_bytes == used - SIZE)
    check(driver.world.baseline().buffers == 0)


def test_an_import_is_exported_again() -> None:
    one = Driver(gpus=2)
    buffer = one.buffer(SIZE, gpu=1)
    first = imported(one, export(one, buffer), gpu=1)
    second = imported(one, export(one, first), gpu=0)
    fd = export(one, second)
    answer = one.call("get_dmabuf_info", 0, 0, 0, 0, 0, fd)
    check(answer[3] == one.gpu_ids[1], "the memory's own GPU")
    buffer.region.view()[:4] = b"peer"
    check(one.space("CP", 0).read(second.va, 4) == b"peer", "GPU 0 reads VRAM of GPU 1")
    check(one.space("CP", 1).read(first.va, 4) == b"peer")


def test_a_board_moves_no_memory() -> None:
    options = Options(gtt_bytes=32 << 20, large_bar=False)
    driver = Driver(gpus=2, options=options)
    fd = export(driver, driver.buffer(SIZE, VRAM | WRITABLE, gpu=1, host=False))
    number = errno.EOPNOTSUPP
    fails(number, driver.call, "import_dmabuf", 1 << 40, 0, driver.gpu_ids[0], fd)
    world = open_board("gfx1100", engines=FakeEngines)
    fails(errno.EBADF, world.duplicate, 77)

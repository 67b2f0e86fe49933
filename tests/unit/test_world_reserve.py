"""Reservations: inaccessible space, mappings at a chosen place, and both given back."""

from __future__ import annotations

import errno
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from drivers.base.contracts import Region, World
from drivers.base.errors import (
    BadArgument,
    Denied,
    DeviceError,
    DeviceGone,
    MalformedInput,
    NotFound,
    OutOfMemory,
    Unsupported,
    UseAfterFree,
)
from drivers.base.oserrors import errno_of
from drivers.base.region import MemoryRegion
from drivers.world.faulty import Fault, FaultyWorld
from drivers.world.foreign import ForeignWorld
from drivers.world.linux import PAGE_BYTES, LinuxWorld
from drivers.world.replay import RecordingWorld
from tests.support import check

PAGES = 8


def permissions(cpu_va: int) -> str:
    """What /proc tells of the mapping at an address; "" when there is none."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, allowed = line.split()[:2]
        low, high = (int(part, 16) for part in span.split("-"))
        if low <= cpu_va < high:
            return allowed
    return ""


def test_a_reservation_allows_nothing_and_goes_away() -> None:
    world = LinuxWorld()
    space = world.reserve(PAGES * PAGE_BYTES)
    check(permissions(space.cpu_va) == "---p" and space.nbytes == PAGES * PAGE_BYTES)
    with pytest.raises(Unsupported, match="no contents"):
        space.view()
    with pytest.raises(Unsupported, match="no contents"):
        space.write64(0, 1)
    check(world.maps == 1)
    space.close()
    space.close()
    check(world.maps == 0 and permissions(space.cpu_va) != "---p")


def test_a_mapping_is_where_it_was_asked_for(tmp_path: Path) -> None:
    world = LinuxWorld()
    path = tmp_path / "file"
    path.write_bytes(b"a" * PAGE_BYTES + b"b" * PAGE_BYTES)
    space = world.reserve(PAGES * PAGE_BYTES)
    fd = world.open(str(path), os.O_RDWR)
    region = world.mmap(fd, PAGE_BYTES, PAGE_BYTES, within=space, at=2 * PAGE_BYTES)
    check(region.cpu_va == space.cpu_va + 2 * PAGE_BYTES)
    check(region.read(0, 2) == b"bb")
    region.write(0, b"new")
    check(path.read_bytes()[PAGE_BYTES : PAGE_BYTES + 3] == b"new")
    check(permissions(region.cpu_va) == "rw-s" and permissions(space.cpu_va) == "---p")
    region.close()
    check(permissions(space.cpu_va + 2 * PAGE_BYTES) == "---p", "reserved space again")
    with anonymous(world, space, 2) as memory:
        check(memory.read(0, 8) == bytes(8))
    world.close(fd)
    space.close()
    check((world.fds, world.maps, world.mapped_bytes) == (0, 0, 0))


@contextmanager
def anonymous(world: World, space: Region, page: int) -> Iterator[Region]:
    """Memory at a page of a reservation, for a with block."""
    region = world.mmap(-1, PAGE_BYTES, within=space, at=page * PAGE_BYTES)
    yield region
    region.close()


def test_views_keep_the_memory_and_the_space() -> None:
    world = LinuxWorld()
    space = world.reserve(PAGES * PAGE_BYTES)
    region = world.mmap(-1, PAGE_BYTES, within=space, at=PAGE_BYTES)
    view = region.view()
    address = region.cpu_va
    region.close()
    space.close()
    view[0] = 7
    check(view[0] == 7 and permissions(address) == "rw-p")
    del view, region
    gc.collect()
    check(permissions(address) not in ("rw-p", "---p"), "gone with the last view")


def test_nothing_else_is_ever_replaced() -> None:
    world = LinuxWorld()
    space = world.reserve(PAGES * PAGE_BYTES)
    region = world.mmap(-1, 2 * PAGE_BYTES, within=space, at=PAGE_BYTES)
    for at, pages in ((0, 2), (2, 1), (1, 2), (0, PAGES)):
        with pytest.raises(BadArgument, match="cover a mapping"):
            world.mmap(-1, pages * PAGE_BYTES, within=space, at=at * PAGE_BYTES)
    for at in (-PAGE_BYTES, PAGES * PAGE_BYTES, (PAGES - 1) * PAGE_BYTES):
        with pytest.raises(BadArgument, match="not inside"):
            world.mmap(-1, 2 * PAGE_BYTES, within=space, at=at)
    with pytest.raises(Unsupported, match="reservations of this world"):
        world.mmap(-1, PAGE_BYTES, within=region, at=0)
    with pytest.raises(ValueError, match="page-aligned"):
        world.mmap(-1, PAGE_BYTES, within=space, at=1)
    with pytest.raises(ValueError, match="whole pages"):
        world.reserve(100)
    region.close()
    space.close()
    with pytest.raises(UseAfterFree):
        world.mmap(-1, PAGE_BYTES, within=space)


def test_a_refused_mapping_leaves_the_space_reserved(tmp_path: Path) -> None:
    world = LinuxWorld()
    (tmp_path / "file").write_bytes(bytes(PAGE_BYTES))
    space = world.reserve(PAGES * PAGE_BYTES)
    fd = world.open(str(tmp_path / "file"), os.O_RDONLY)
    with pytest.raises(Denied) as caught:
        world.mmap(fd, PAGE_BYTES, within=space)
    check(errno_of(caught.value) == errno.EACCES and permissions(space.cpu_va) == "---p")
    check(world.maps == 1)
    world.close(fd)
    space.close()


def test_a_device_offset_reaches_the_kernel() -> None:
    """Python's mmap refuses offsets of 63 bits; /dev/null refuses the mapping itself."""
    world = LinuxWorld()
    fd = world.open("/dev/null", os.O_RDWR)
    with pytest.raises(DeviceError) as caught:  # which class depends on the kernel's errno
        world.mmap(fd, PAGE_BYTES, 3 << 62)
    check(errno_of(caught.value) in (errno.ENODEV, errno.EOVERFLOW, errno.EINVAL))
    world.close(fd)


def test_faulty_and_recorded_worlds() -> None:
    inner = LinuxWorld()
    world = FaultyWorld(inner, 1, Fault.of_errno(errno.ENOMEM))
    space = world.reserve(PAGES * PAGE_BYTES)
    with pytest.raises(OutOfMemory):
        world.mmap(-1, PAGE_BYTES, within=space)
    region = world.mmap(-1, PAGE_BYTES, within=space)
    check(region.cpu_va == space.cpu_va)
    region.close()
    space.close()
    with pytest.raises(OutOfMemory):
        FaultyWorld(inner, 0, Fault.of_errno(errno.ENOMEM)).reserve(PAGE_BYTES)
    recorded = RecordingWorld(inner, lambda line: None)
    space = recorded.reserve(PAGES * PAGE_BYTES)
    with pytest.raises(Unsupported, match="no contents"):
        space.view()
    with pytest.raises(BadArgument):
        recorded.mmap(-1, PAGE_BYTES, within=space, at=PAGES * PAGE_BYTES)
    region = recorded.mmap(-1, PAGE_BYTES, within=space, at=PAGE_BYTES)
    check(region.cpu_va == space.cpu_va + PAGE_BYTES)
    region.close()
    space.close()
    check(inner.maps == 0)


class Stranger(LinuxWorld):
    """Raises what a machine raises, and has a region without memory."""

    name = "stranger"

    def listdir(self, path: str) -> list[str]:
        raise FileNotFoundError(errno.ENOENT, "no", path)

    def ioctl(self, fd: int, request: int, argument: bytearray) -> int:
        raise OSError(errno.ENODEV, "gone")

    def reserve(self, nbytes: int) -> Region:
        if nbytes > PAGES * PAGE_BYTES:
            raise OSError(errno.ENOMEM, "full")
        return super().reserve(nbytes)


def test_a_stranger_is_translated() -> None:
    inner = Stranger()
    world: World = ForeignWorld(inner)
    with pytest.raises(NotFound, match="list /x"):
        world.listdir("/x")
    with pytest.raises(DeviceGone) as gone:
        world.ioctl(3, 0x1234, bytearray(4))
    check(errno_of(gone.value) == errno.ENODEV)
    with pytest.raises(OutOfMemory) as full:
        world.reserve(1 << 30)
    check(full.value.requested == 1 << 30)
    space = world.reserve(PAGES * PAGE_BYTES)
    region = world.mmap(-1, PAGE_BYTES, within=space, at=PAGE_BYTES)
    region.write64(8, 5)
    check(region.read64(8) == 5 and region.view()[8] == 5)
    check(region.cpu_va == space.cpu_va + PAGE_BYTES)
    with pytest.raises(BadArgument):
        world.mmap(-1, PAGE_BYTES, within=space, at=PAGES * PAGE_BYTES)
    with pytest.raises(Unsupported, match="not a region of this world"):
        world.mmap(-1, PAGE_BYTES, within=MemoryRegion(bytearray(8)))
    region.close()
    space.close()
    check(inner.maps == 0)
    with pytest.raises(MalformedInput):
        world.read("/proc/self/status", limit_bytes=3)

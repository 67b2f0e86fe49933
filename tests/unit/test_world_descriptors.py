"""Reads at an offset, ioctls by value, new descriptors, events, huge pages: in every world."""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from drivers.base.contracts import World
from drivers.base.errors import (
    BadArgument,
    Busy,
    Denied,
    DeviceError,
    DeviceGone,
    MalformedInput,
    OutOfMemory,
    Unsupported,
    UseAfterFree,
)
from drivers.pci.pagemap import PAGE_BYTES, physical_pieces
from drivers.world.faulty import Fault, FaultyWorld
from drivers.world.linux import LinuxWorld
from drivers.world.replay import RecordingWorld, ReplayMismatch, ReplayWorld
from tests.support import check
from tests.vfio_kernel import Options, VfioKernel

# src: include/uapi/asm-generic/ioctls.h FIOCLEX, TIOCSPTLCK, TIOCGPTPEER
FIOCLEX, TIOCSPTLCK, TIOCGPTPEER = 0x5451, 0x4004_5431, 0x5441
HUGE = 2 << 20
NR_HUGE = Path("/proc/sys/vm/nr_hugepages")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)))
    return str(path)


def test_a_duplicate_outlives_its_descriptor(file: str) -> None:
    world = LinuxWorld()
    fd = os.open(file, os.O_RDWR)
    own = world.duplicate(fd)
    check(own != fd and not os.get_inheritable(own) and world.fds == 1)
    os.close(fd)
    check(world.pread(own, 2, 16) == bytes([16, 17]))
    world.close(own)
    check(world.fds == 0)
    with pytest.raises(DeviceError, match="EBADF") as caught:
        world.duplicate(fd)
    check(isinstance(caught.value.__cause__, OSError))
    with pytest.raises(DeviceError, match="EMFILE"):
        FaultyWorld(world, 0, Fault.of_errno(errno.EMFILE)).duplicate(0)
    with pytest.raises(Unsupported, match="cannot be recorded"):
        RecordingWorld(world, [].append).duplicate(0)


def test_reads_and_writes_at_an_offset(file: str) -> None:
    world = LinuxWorld()
    fd = world.open(file, os.O_RDWR)
    check(world.pread(fd, 4, 16) == bytes([16, 17, 18, 19]))
    world.pwrite(fd, b"\xaa\xbb", 17)
    check(Path(file).read_bytes()[16:20] == b"\x10\xaa\xbb\x13")
    with pytest.raises(MalformedInput, match="2 came"):
        world.pread(fd, 4, 254)
    for offset, kind in ((-1, Unsupported), (1 << 64, BadArgument)):
        with pytest.raises(kind):
            world.pread(fd, 4, offset)
        with pytest.raises(kind):
            world.pwrite(fd, b"1", offset)
    world.close(fd)
    for call in (lambda: world.pread(fd, 1, 0), lambda: world.pwrite(fd, b"1", 0)):
        with pytest.raises(UseAfterFree):
            call()
    read_only = world.open(file, os.O_RDONLY)
    with pytest.raises(DeviceError, match="EBADF"):
        world.pwrite(read_only, b"1", 0)
    world.close(read_only)


def test_a_number_is_passed_by_value(file: str) -> None:
    world = LinuxWorld()
    fd = world.open(file, os.O_RDONLY)
    os.set_inheritable(fd, True)
    check(world.ioctl(fd, FIOCLEX, 0) == 0 and not os.get_inheritable(fd))
    for value in (-1, 1 << 31):
        with pytest.raises(BadArgument):
            world.ioctl(fd, FIOCLEX, value)
    with pytest.raises(Unsupported, match="ENOTTY"):
        world.ioctl_fd(fd, TIOCGPTPEER, os.O_RDWR)
    world.close(fd)
    check(world.fds == 0)


@pytest.mark.skipif(not os.path.exists("/dev/ptmx"), reason="no /dev/ptmx")
def test_an_ioctl_that_gives_a_descriptor() -> None:
    world = LinuxWorld()
    one = world.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
    world.ioctl(one, TIOCSPTLCK, bytearray(4))
    other = world.ioctl_fd(one, TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY)
    check(other != one and world.fds == 2 and os.isatty(other))
    world.close(other)
    world.close(one)
    with pytest.raises(UseAfterFree):
        world.ioctl_fd(one, TIOCGPTPEER, 0)


def test_events() -> None:
    world = LinuxWorld()
    fd = world.eventfd()
    check(not os.get_inheritable(fd) and world.fds == 1)
    check(not world.wait_event(fd, 0.0) and not world.wait_event(fd, 0.001))
    os.eventfd_write(fd, 3)
    check(world.wait_event(fd, 0.0) and not world.wait_event(fd, -1.0), "the count is reset")
    later = threading.Timer(0.02, lambda: os.eventfd_write(fd, 1))
    later.start()
    check(world.wait_event(fd, 20.0))
    later.join()
    world.close(fd)
    with pytest.raises(UseAfterFree):
        world.wait_event(fd, 0.0)


@pytest.mark.skipif(not NR_HUGE.exists(), reason="this kernel has no hugetlb pages")
def test_huge_pages() -> None:
    world = LinuxWorld()
    pages = int(NR_HUGE.read_text())
    for bad in (PAGE_BYTES, HUGE + PAGE_BYTES):
        with pytest.raises(BadArgument):
            world.mmap(-1, bad, huge=True)
    with pytest.raises((OutOfMemory, Busy), match=r"nr_hugepages|ulimit"):
        world.mmap(-1, (pages + 1) * HUGE, huge=True)
    check(int(NR_HUGE.read_text()) == pages, "never written")
    free = re.search(r"HugePages_Free: +(\d+)", Path("/proc/meminfo").read_text())
    if free and int(free[1]):
        memory = world.mmap(-1, HUGE, huge=True)
        check(memory.cpu_va % HUGE == 0 and memory.read(0, HUGE) == bytes(HUGE))
        memory.close()
    check((world.maps, world.mapped_bytes) == (0, 0))


def test_pages_of_this_process() -> None:
    """The real pagemap: what was written is there, what was not is refused."""
    world = LinuxWorld()
    memory = world.mmap(-1, 8 * PAGE_BYTES)
    with pytest.raises(MalformedInput, match="not in memory"):
        physical_pieces(world, memory.cpu_va, PAGE_BYTES)
    memory.write(0, b"x" * 8 * PAGE_BYTES)
    try:
        pieces = physical_pieces(world, memory.cpu_va, 8 * PAGE_BYTES)
    except Denied:
        check(os.geteuid() != 0 or "CapEff" in Path("/proc/self/status").read_text())
    else:
        check(sum(nbytes for _, nbytes in pieces) == 8 * PAGE_BYTES)
        check(all(pa > 0 and pa % PAGE_BYTES == 0 for pa, _ in pieces))
    for va, nbytes in ((memory.cpu_va + 1, PAGE_BYTES), (memory.cpu_va, 1), (memory.cpu_va, 0)):
        with pytest.raises(BadArgument):
            physical_pieces(world, va, nbytes)
    memory.close()
    check(world.fds == 0)


def scenario(world: World, file: str) -> list[object]:
    fd = world.open(file, os.O_RDWR)
    world.pwrite(fd, b"\1\2\3\4", 8)
    found: list[object] = [world.pread(fd, 8, 4), world.ioctl(fd, FIOCLEX, 0)]
    event = world.eventfd()
    found.append(world.wait_event(event, 0.0))
    try:
        world.ioctl_fd(fd, TIOCGPTPEER, 7)
    except Unsupported as error:
        found.append(str(error.__cause__))
    world.close(event)
    world.close(fd)
    return found


def test_a_recording_plays_back(file: str) -> None:
    lines: list[str] = []
    inner = LinuxWorld()
    expected = scenario(RecordingWorld(inner, lines.append), file)
    check(expected[0] == bytes([4, 5, 6, 7, 1, 2, 3, 4]) and inner.fds == 0)
    tape = "".join(lines).encode()
    player = ReplayWorld(tape)
    check(scenario(player, file) == expected)
    player.finish()
    with pytest.raises(ReplayMismatch):
        ReplayWorld(tape).eventfd()
    for old, new in (
        ('"04050607', '"0405'),
        ('"pread"', '"peer"'),
        ('"result": false', '"result": 0'),
    ):
        check(old in tape.decode())
        with pytest.raises((MalformedInput, ReplayMismatch)):
            scenario(ReplayWorld(tape.decode().replace(old, new).encode()), file)


def test_every_new_operation_can_fail(file: str) -> None:
    calls: dict[str, Callable[[World, int], object]] = {
        "ioctl_fd": lambda world, fd: world.ioctl_fd(fd, TIOCGPTPEER, 0),
        "pread": lambda world, fd: world.pread(fd, 4, 4),
        "pwrite": lambda world, fd: world.pwrite(fd, b"12", 0),
        "eventfd": lambda world, fd: world.eventfd(),
        "wait_event": lambda world, fd: world.wait_event(fd, 0.0),
        "ioctl": lambda world, fd: world.ioctl(fd, FIOCLEX, 0),
    }
    spoilt = {
        ("pread", "ones"): b"\xff" * 4, ("pread", "zeros"): bytes(4),
        ("ioctl", "ones"): 0xFFFF_FFFF, ("ioctl", "zeros"): 0, ("ioctl", "short"): 0,
    }  # fmt: skip
    for name, call in calls.items():
        for fault in (Fault.of_errno(errno.ENODEV), Fault("ones"), Fault("zeros"), Fault("short")):
            inner = LinuxWorld()
            world = FaultyWorld(inner, 1, fault)
            fd = world.open(file, os.O_RDWR)
            if (name, fault.kind) in spoilt:
                check(call(world, fd) == spoilt[name, fault.kind], f"{name} {fault.kind}")
            else:
                with pytest.raises(DeviceGone):
                    call(world, fd)
            world.close(fd)
            check(inner.fds == 0 and world.failed != "", name)


def test_a_stranger_s_errors_become_ours() -> None:
    kernel = VfioKernel(Options())
    world = kernel.world
    fd = world.open("/dev/vfio/vfio", os.O_RDWR)
    with pytest.raises(Unsupported, match="ENOTTY"):
        world.ioctl_fd(fd, 0x3B6A, 0)
    with pytest.raises(Unsupported, match="EINVAL"):
        world.pread(fd, 4, 0)
    with pytest.raises(Unsupported, match="EINVAL"):
        world.pwrite(fd, b"1234", 0)
    with pytest.raises(Unsupported, match="ENOTTY"):
        world.wait_event(fd, 0.0)
    event = world.eventfd()
    check(not world.wait_event(event, 0.0))
    for one in (event, fd):
        world.close(one)


def test_a_device_that_takes_less_than_was_written(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = LinuxWorld()
    fd = world.open(file, os.O_RDWR)
    monkeypatch.setattr("os.pwrite", lambda fd, data, offset: len(data) - 1)
    with pytest.raises(Unsupported, match="3 were taken"):
        world.pwrite(fd, b"four", 0)
    world.close(fd)


def test_huge_pages_are_locked_and_there_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """src: include/uapi/asm-generic/mman.h MAP_LOCKED, mman-common.h MAP_POPULATE, MAP_HUGETLB"""
    asked: list[int] = []

    def mapped(address: int, nbytes: int, prot: int, flags: int) -> int:
        asked.append(flags)
        raise OutOfMemory("no pages", requested=nbytes, used=0, cached=0, limit=0)

    monkeypatch.setattr("drivers.world.native.map_memory", mapped)
    with pytest.raises(OutOfMemory, match="nr_hugepages"):
        LinuxWorld().mmap(-1, 2 << 20, huge=True)
    check(asked == [0x2000 | 0x8000 | 0x4_0000 | 21 << 26 | 0x20 | 0x01], f"{asked}")

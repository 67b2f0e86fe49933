"""The faulty world: operation k fails as chosen, all others pass, nothing leaks."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from drivers.base.contracts import World
from drivers.base.errors import (
    Busy,
    Denied,
    DeviceError,
    DeviceGone,
    MalformedInput,
    OutOfMemory,
    Unsupported,
)
from drivers.base.oserrors import errno_of
from drivers.base.view import View
from drivers.world.faulty import Fault, FaultyWorld, sweep
from drivers.world.linux import PAGE_BYTES, LinuxWorld
from tests.support import check

FIONREAD = 0x541B  # src: include/uapi/asm-generic/ioctls.h
ERRNOS = {
    errno.EBUSY: Busy,
    errno.ENOMEM: OutOfMemory,
    errno.EPERM: Denied,
    errno.ENODEV: DeviceGone,
    errno.EIO: DeviceGone,
    errno.EINVAL: Unsupported,
}
OPERATIONS = ["open", "ioctl", "mmap", "write32", "read32", "read", "close", "list"]
"""What `scenario` below does, in order."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "node").write_bytes(b"\x01\x02\x03\x04".ljust(PAGE_BYTES))
    return tmp_path / "node"


def scenario(world: World, path: Path) -> int:
    """A driver in small: everything it takes is given back, whatever fails."""
    fd = world.open(str(path), os.O_RDWR)
    try:
        size = bytearray(4)
        world.ioctl(fd, FIONREAD, size)
        if View(size, "FIONREAD").u32(0, "size") != PAGE_BYTES:
            raise MalformedInput(f"the node has {size.hex()} bytes")
        region = world.mmap(fd, PAGE_BYTES)
        try:
            region.write32(8, 7)
            total = region.read32(8)
            total += View(region.read(0, 4), "header").u8(3, "last")
        finally:
            region.close()
    finally:
        world.close(fd)
    return total + len(world.listdir(str(path.parent)))


def run(path: Path, fault: Fault) -> list[tuple[str, object]]:
    worlds: list[LinuxWorld] = []

    def make() -> LinuxWorld:
        worlds.append(LinuxWorld())
        return worlds[-1]

    outcomes = list(sweep(make, lambda world: scenario(world, path), fault))
    for world in worlds:
        check((world.fds, world.maps, world.mapped_bytes) == (0, 0, 0), "a leak")
    check(len(worlds) == len(outcomes) + 1, "the last run met no fault")
    return outcomes


@pytest.mark.parametrize("number", ERRNOS)
def test_each_operation_fails_with_each_errno(path: Path, number: int) -> None:
    before = len(os.listdir("/proc/self/fd"))
    outcomes = run(path, Fault.of_errno(number))
    check([name.split()[0] for name, _ in outcomes] == OPERATIONS, str(outcomes))
    for name, outcome in outcomes:
        disk = number == errno.EIO and str(path.parent) in name
        check(type(outcome) is (DeviceError if disk else ERRNOS[number]), f"{name}: {outcome!r}")
        check(isinstance(outcome, DeviceError) and errno_of(outcome) == number, name)
        check(name in str(outcome), f"{outcome} does not name {name}")
    check(len(os.listdir("/proc/self/fd")) == before, "descriptors")


@pytest.mark.parametrize(
    ("kind", "word", "last"), [("ones", 0xFFFF_FFFF, 0xFF), ("zeros", 0, 0), ("short", 7, 0)]
)
def test_what_is_read_is_spoilt(path: Path, kind: str, word: int, last: int) -> None:
    outcomes = dict(run(path, Fault(kind)))
    by_name = {name.split()[0]: outcome for name, outcome in outcomes.items()}
    if kind == "short":
        check(by_name["ioctl"] == 7 + 4 + 1, "the second half of the answer is zero anyway")
        check(by_name["list"] == 7 + 4, "half of one name is none")
    else:
        check(isinstance(by_name["ioctl"], MalformedInput), repr(by_name["ioctl"]))
        check(type(by_name["list"]) is DeviceError, "a disk that fails, and no device")
    check(by_name["read32"] == word + 4 + 1, repr(by_name["read32"]))
    check(by_name["read"] == 7 + last + 1, repr(by_name["read"]))


def test_files_are_spoilt(path: Path) -> None:
    for kind, expected in (("ones", b"\xff" * PAGE_BYTES), ("zeros", bytes(PAGE_BYTES))):
        check(FaultyWorld(LinuxWorld(), 0, Fault(kind)).read(str(path)) == expected)
    short = FaultyWorld(LinuxWorld(), 0, Fault("short")).read(str(path))
    check(short == path.read_bytes()[: PAGE_BYTES // 2])


def test_a_failing_look_sees_nothing(path: Path) -> None:
    world = FaultyWorld(LinuxWorld(), 1, Fault("errno"))
    check([world.exists(str(path)) for _ in range(3)] == [True, False, True])
    check(world.failed == f"exists {path}")


def test_errors_of_the_scenario_itself_are_not_hidden() -> None:
    def broken(world: World) -> None:
        world.exists("/")
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        list(sweep(LinuxWorld, broken, Fault("errno")))


def test_a_sweep_is_bounded() -> None:
    def busy(world: World) -> None:
        for _ in range(50):
            world.exists("/")

    check(len(list(sweep(LinuxWorld, busy, Fault("errno")))) == 50)
    with pytest.raises(Unsupported, match="more than 20"):
        list(sweep(LinuxWorld, busy, Fault("errno"), limit=20))


def test_protect_reaches_the_region_inside() -> None:
    world = FaultyWorld(LinuxWorld(), -1, Fault("errno"))
    region = world.mmap(-1, PAGE_BYTES)
    world.protect(region, write=False, execute=False)
    with pytest.raises(Denied):
        region.write32(0, 1)
    region.close()

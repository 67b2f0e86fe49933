"""The real world: files, mappings, machine code, and the errors of each."""

from __future__ import annotations

import errno
import gc
import os
import platform
import resource
from pathlib import Path

import numpy as np
import pytest

from drivers.base.contracts import World
from drivers.base.errors import (
    Busy,
    Denied,
    DeviceError,
    MalformedInput,
    NotFound,
    Unsupported,
    UseAfterFree,
)
from drivers.base.oserrors import errno_of
from drivers.base.region import MemoryRegion
from drivers.world.linux import HUGE_PAGE_BYTES, PAGE_BYTES, LinuxWorld
from tests.support import check

FIONREAD = 0x541B  # src: include/uapi/asm-generic/ioctls.h
ADD_CODE = {
    "x86_64": bytes.fromhex("488d0437c3"),  # lea rax, [rdi + rsi]; ret
    "aarch64": bytes.fromhex("0000018bc0035fd6"),  # add x0, x0, x1; ret
}


@pytest.fixture
def world() -> LinuxWorld:
    return LinuxWorld()


def mapped_in_process(cpu_va: int) -> str:
    """The permissions of the mapping at an address, as the kernel tells them; "" when none."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, permissions = line.split()[:2]
        low, high = (int(part, 16) for part in span.split("-"))
        if low <= cpu_va < high:
            return permissions
    return ""


def test_it_satisfies_the_contract(world: LinuxWorld) -> None:
    typed: World = world
    check(typed.name == "linux")


def test_files(world: LinuxWorld, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old!")
    (tmp_path / "link").symlink_to("file")
    world.write(str(path), b"new")
    check(world.read(str(path)) == b"new!", "nothing is truncated")
    check(world.listdir(str(tmp_path)) == ["file", "link"])
    check(world.readlink(str(tmp_path / "link")) == "file")
    check(world.exists(str(path)) and not world.exists(str(tmp_path / "no")))
    check(world.access(str(path), os.R_OK) and not world.access(str(path), os.X_OK))
    with pytest.raises(MalformedInput, match="longer than 3"):
        world.read(str(path), limit_bytes=3)


def test_nothing_is_created(world: LinuxWorld, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        world.write(str(tmp_path / "new"), b"x")
    check(not (tmp_path / "new").exists())


def test_a_fifo_without_a_writer_does_not_block(world: LinuxWorld, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    check(world.read(str(tmp_path / "fifo")) == b"")


def test_a_fifo_with_nothing_in_it_yet_is_busy(world: LinuxWorld, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    writer = os.open(tmp_path / "fifo", os.O_RDWR)
    with pytest.raises(Busy):
        world.read(str(tmp_path / "fifo"))
    os.close(writer)


@pytest.mark.parametrize("size", [0, 3, 4, 7, 8, 13, 16])
def test_words_at_any_offset_of_any_size(size: int) -> None:
    data = bytes(range(1, size + 1))
    memory = bytearray(data)
    region = MemoryRegion(memory)
    for nbytes, load, store in (
        (4, region.read32, region.write32),
        (8, region.read64, region.write64),
    ):
        for off in range(size + 2):
            if off + nbytes > size:
                for use in (load, lambda off, store=store: store(off, 1)):
                    with pytest.raises(IndexError):
                        use(off)
                continue
            np.testing.assert_equal(load(off), int.from_bytes(data[off : off + nbytes], "little"))
            value = int.from_bytes(b"\xf1\xe2\xd3\xc4\xb5\xa6\x97\x88"[:nbytes], "little")
            store(off, value)
            expected = data[:off] + value.to_bytes(nbytes, "little") + data[off + nbytes :]
            np.testing.assert_equal(bytes(memory), expected)
            memory[:] = data


def test_device_numbers(tmp_path: Path) -> None:
    """Of a node that a process has open, whatever it is called; src: null(4)."""
    world, null = LinuxWorld(), os.makedev(1, 3)
    with open("/dev/null") as file, open(tmp_path / "plain", "w") as plain:
        check(world.device_number(f"/proc/self/fd/{file.fileno()}") == null)
        check(world.device_number(f"/proc/self/fd/{plain.fileno()}") == 0)
    (tmp_path / "link").symlink_to("/dev/null")
    check(world.device_number(str(tmp_path / "link")) == null)
    with pytest.raises(NotFound):
        world.device_number(str(tmp_path / "none"))


@pytest.mark.parametrize("operation", ["open", "read", "write", "listdir", "readlink"])
def test_a_missing_path_is_not_found(world: LinuxWorld, operation: str) -> None:
    extra = {"open": (os.O_RDONLY,), "write": (b"",)}.get(operation, ())
    with pytest.raises(NotFound) as caught:
        getattr(world, operation)("/nonexistent/node", *extra)
    check("/nonexistent/node" in str(caught.value) and errno_of(caught.value) == errno.ENOENT)


def test_descriptors_are_counted_and_closed_once(world: LinuxWorld) -> None:
    fds = [world.open("/dev/null", os.O_RDWR) for _ in range(3)]
    check(world.fds == 3)
    for fd in fds:
        check(not os.get_inheritable(fd))
        world.close(fd)
    check(world.fds == 0)
    with pytest.raises(UseAfterFree):
        world.close(fds[0])
    with pytest.raises(UseAfterFree):
        world.ioctl(fds[0], FIONREAD, bytearray(4))
    with pytest.raises(UseAfterFree):
        world.mmap(fds[0], PAGE_BYTES)


def test_ioctl_changes_its_argument(world: LinuxWorld, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(77))
    fd = world.open(str(tmp_path / "file"), os.O_RDONLY)
    argument = bytearray(4)
    check(world.ioctl(fd, FIONREAD, argument) == 0)
    check(int.from_bytes(argument, "little") == 77)
    with pytest.raises(Unsupported) as caught:
        world.ioctl(fd, 0x4B41, bytearray(8))
    check(errno_of(caught.value) == errno.ENOTTY)
    world.close(fd)


@pytest.mark.parametrize("nbytes", [1, 4096, 100_000, HUGE_PAGE_BYTES, 5 * HUGE_PAGE_BYTES + 1])
def test_anonymous_memory_is_zero_writable_and_given_back(world: LinuxWorld, nbytes: int) -> None:
    region = world.mmap(-1, nbytes)
    check(region.nbytes == nbytes and not np.frombuffer(region.view(), np.uint8).any())
    region.write(nbytes - 1, b"\x7f")
    check(region.read(nbytes - 1, 1) == b"\x7f" and world.mapped_bytes == nbytes)
    check(mapped_in_process(region.cpu_va).startswith("rw-"))
    address = region.cpu_va
    region.close()
    region.close()
    check((world.maps, world.mapped_bytes) == (0, 0))
    check(not mapped_in_process(address), "the kernel has it back")


def test_words_have_the_byte_order_of_the_device(world: LinuxWorld) -> None:
    region = world.mmap(-1, 64)
    region.write32(4, 0x01020304)
    region.write64(8, 0x1122334455667788)
    words = np.frombuffer(region.view(), "<u4", 4)
    check(list(words[1:]) == [0x01020304, 0x55667788, 0x11223344])
    check(region.read32(4) == 0x01020304 and region.read64(8) == 0x1122334455667788)
    for value in (-1, 1 << 32):
        with pytest.raises(OverflowError):
            region.write32(0, value)


@pytest.mark.parametrize("off", [-1, 61, 64, 1 << 60])
def test_regions_are_bounds_checked(world: LinuxWorld, off: int) -> None:
    region = world.mmap(-1, 64)
    for use in (
        lambda: region.read32(off),
        lambda: region.write32(off, 1),
        lambda: region.read(off, 4),
        lambda: region.write(off, b"1234"),
    ):
        with pytest.raises(IndexError):
            use()


def test_a_closed_region_is_dead_and_a_view_outlives_it(world: LinuxWorld) -> None:
    region = world.mmap(-1, 4096)
    view = region.view()
    view[0] = 9
    region.close()
    for use in (lambda: region.read32(0), lambda: region.write32(0, 1), region.view):
        with pytest.raises(UseAfterFree):
            use()
    with pytest.raises(UseAfterFree):
        world.protect(region, write=True, execute=False)
    check(view[0] == 9, "the memory stays while it is viewed")


def test_a_file_is_mapped(world: LinuxWorld, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(PAGE_BYTES) + b"second page".ljust(PAGE_BYTES))
    fd = world.open(str(path), os.O_RDWR)
    region = world.mmap(fd, PAGE_BYTES, PAGE_BYTES)
    check(region.read(0, 6) == b"second")
    region.write(0, b"SECOND")
    check(path.read_bytes()[PAGE_BYTES:][:6] == b"SECOND")
    readonly = world.mmap(fd, PAGE_BYTES, write=False)
    with pytest.raises(Denied):
        readonly.write32(0, 1)
    check(readonly.view().readonly)
    world.close(fd)


@pytest.mark.parametrize(("nbytes", "offset"), [(0, 0), (-1, 0), (64, 1), (64, -4096)])
def test_impossible_mappings(world: LinuxWorld, nbytes: int, offset: int) -> None:
    with pytest.raises(ValueError, match="cannot map"):
        world.mmap(-1, nbytes, offset)


def test_too_large_a_mapping_says_its_size(world: LinuxWorld) -> None:
    with pytest.raises(DeviceError, match=str(1 << 60)):
        world.mmap(-1, 1 << 60)
    check(world.maps == 0)


def test_machine_code_runs_and_is_never_writable(world: LinuxWorld) -> None:
    code = ADD_CODE.get(platform.machine())
    if code is None:
        pytest.skip(f"no test code for {platform.machine()}")
    region = world.mmap(-1, PAGE_BYTES)
    region.write(0, code)
    with pytest.raises(Unsupported, match="writable and executable"):
        world.protect(region, write=True, execute=True)
    world.protect(region, write=False, execute=True)
    check(mapped_in_process(region.cpu_va).startswith("r-x"))
    check(world.function(region.cpu_va, 2)(3, (1 << 64) - 1) == 2, "64-bit wrap")
    with pytest.raises(Denied):
        region.write32(0, 0)
    world.protect(region, write=True, execute=False)
    region.write32(0, 0)
    check(mapped_in_process(region.cpu_va).startswith("rw-"))


def test_symbols_are_the_c_librarys(world: LinuxWorld) -> None:
    text = world.mmap(-1, 64)
    text.write(0, b"twelve bytes")
    check(world.function(world.symbol("strlen"), 1)(text.cpu_va) == 12)
    check(world.symbol("sinf") != world.symbol("cosf"))
    for name in ("no_such_function_here", "", "sin\0f", "a b", "é"):
        with pytest.raises(NotFound):
            world.symbol(name)


@pytest.mark.parametrize(("address", "nargs"), [(0, 1), (-1, 1), (1 << 64, 1), (4096, 13)])
def test_impossible_functions(world: LinuxWorld, address: int, nargs: int) -> None:
    with pytest.raises(ValueError, match=r"function|arguments"):
        world.function(address, nargs)


def test_nothing_leaks(world: LinuxWorld) -> None:
    """n = 32, then 17, of descriptors and mappings return to the baseline."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    check(limit > 64)
    for count in (32, 17):
        gc.collect()
        fds_before = len(os.listdir("/proc/self/fd"))
        fds = [world.open("/dev/zero", os.O_RDWR) for _ in range(count)]
        regions = [world.mmap(-1, 3 << 20) for _ in range(count)]
        addresses = [region.cpu_va for region in regions]
        check(world.fds == world.maps == count and world.mapped_bytes == count * (3 << 20))
        for region in regions:
            region.close()
        for fd in fds:
            world.close(fd)
        check(len(os.listdir("/proc/self/fd")) == fds_before, "descriptors")
        check(not any(mapped_in_process(address) for address in addresses), "mappings")
        check((world.fds, world.maps, world.mapped_bytes) == (0, 0, 0), "counters")

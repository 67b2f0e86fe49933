"""Memory on a tape: a machine that writes it, a driver that writes it, and who wrote what."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from drivers.base.contracts import Region, World
from drivers.base.errors import Unsupported
from drivers.world.linux import PAGE_BYTES, LinuxWorld
from drivers.world.recording import LONG_BYTES
from drivers.world.replay import RecordingWorld, ReplayMismatch, ReplayWorld
from drivers.world.taped_memory import FIRST_VA, SMALL_BYTES
from tests.support import check

WORK = 0x1234
LARGE_BYTES = 2 * SMALL_BYTES
DONE_OFF, ANSWER_OFF = 64, 4096
BELL_OFF = 128


class Machine(LinuxWorld):
    """A device whose ioctl adds one to every byte of a command, and says so behind a pointer.

    Its memory is a file, which it writes behind the mappings of the driver.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pointers: dict[int, Region] = {}
        self.seen: list[bytes] = []
        """Commands that the machine found in memory when its doorbell rang."""

    def mmap(
        self, fd: int, nbytes: int, offset: int = 0, *, write: bool = True,
        within: Region | None = None, at: int = 0, huge: bool = False,
    ) -> Region:  # fmt: skip
        region = super().mmap(fd, nbytes, offset, write=write, within=within, at=at, huge=huge)
        self.pointers[region.cpu_va] = region
        return region

    def ioctl(self, fd: int, request: int, argument: bytearray | int) -> int:
        if isinstance(argument, int):
            return 0
        command = os.pread(fd, 8, 0)
        self.seen.append(command)
        os.pwrite(fd, bytes(byte + 1 for byte in command), ANSWER_OFF)
        os.pwrite(fd, b"\1", DONE_OFF)
        answer = self.pointers[int.from_bytes(argument[:8], "little")]
        answer.write32(4, answer.read32(0) * 2)
        return 0


def session(world: World, path: str, *, command: bytes = b"abcdefgh", number: int = 21) -> object:
    """What a driver does: a command in shared memory, an ioctl with a pointer, polling."""
    fd = world.open(path, os.O_RDWR)
    bell = world.mmap(fd, PAGE_BYTES)
    space = world.reserve(LARGE_BYTES + PAGE_BYTES)
    large = world.mmap(fd, LARGE_BYTES, within=space, at=PAGE_BYTES)
    small = world.mmap(fd, PAGE_BYTES, within=world.reserve(PAGE_BYTES), at=0)
    array = world.mmap(-1, PAGE_BYTES)
    large.view()[:8] = command
    array.write32(0, number)
    bell.write64(BELL_OFF, 1)
    before = bytes(small.view()[DONE_OFF : DONE_OFF + 8])
    world.ioctl(fd, WORK, bytearray(array.cpu_va.to_bytes(8, "little") + bytes(8)))
    world.monotonic_s()
    found = (
        before, small.read64(DONE_OFF), large.read(ANSWER_OFF, 8), array.read32(4),
        large.cpu_va, array.cpu_va, bell.read64(BELL_OFF),
    )  # fmt: skip
    for region in (array, small, large, space, bell):
        region.close()
    world.close(fd)
    return found


@pytest.fixture
def node(tmp_path: Path) -> str:
    path = tmp_path / "node"
    path.write_bytes(bytes(LARGE_BYTES))
    return str(path)


def recorded(path: str) -> tuple[bytes, object, Machine]:
    lines: list[str] = []
    machine = Machine()
    seen = session(RecordingWorld(machine, lines.append), path)
    check(machine.fds == 0 and machine.maps == 0, "all given back")
    return "".join(lines).encode(), seen, machine


def test_memory_is_recorded_and_played_back(node: str) -> None:
    data, seen, machine = recorded(node)
    first = FIRST_VA + PAGE_BYTES
    check(isinstance(seen, tuple) and seen[:5] == (bytes(8), 1, b"bcdefghi", 42, first), str(seen))
    check(machine.seen == [b"abcdefgh"], "the command was there when the machine looked")
    Path(node).unlink()
    world = ReplayWorld(data)
    check(session(world, node) == seen)
    world.finish()
    check(world.differ == 0 and not world.differences)


def test_what_the_driver_writes_otherwise_is_reported(node: str) -> None:
    data, _, _ = recorded(node)
    world = ReplayWorld(data)
    session(world, node, command=b"abcdefgX", number=22)
    world.finish()
    reported = " ".join(world.differences)
    check(
        world.differ == 2 and "6162636465666758" in reported and "6162636465666768" in reported,
        reported,
    )
    check("(write64)" in reported and "memory 1 at 0x0" in reported, reported)
    check("1600" in reported and "1500" in reported, reported)


def test_long_writes_are_compared_by_their_digest(node: str) -> None:
    def long_write(world: World, last: bytes) -> None:
        fd = world.open(node, os.O_RDWR)
        memory = world.mmap(fd, LARGE_BYTES, within=world.reserve(LARGE_BYTES))
        memory.write(0, b"x" * (2 * LONG_BYTES - 1) + last)
        world.mmap(fd, PAGE_BYTES).write32(BELL_OFF, 1)

    lines: list[str] = []
    long_write(RecordingWorld(LinuxWorld(), lines.append), b"x")
    check(all(len(line) < LONG_BYTES for line in lines), "a digest is short")
    for last, differ in ((b"x", 0), (b"y", 1)):
        world = ReplayWorld("".join(lines).encode())
        long_write(world, last)
        check(world.differ == differ, str(world.differences))


def test_no_address_of_the_process_is_recorded(node: str) -> None:
    data, _, machine = recorded(node)
    check(len(machine.pointers) == 4, "the machine itself had real addresses")
    for va in machine.pointers:
        little = va.to_bytes(8, "little").hex().encode()
        check(little[:12] not in data and str(va).encode() not in data, hex(va))


def test_memory_of_the_program_is_refused() -> None:
    """An ioctl that names it would put an address of this process on the tape."""
    machine = Machine()
    own = machine.mmap(-1, PAGE_BYTES)
    lines: list[str] = []
    world = RecordingWorld(machine, lines.append)
    fd = world.open("/dev/null", os.O_RDWR)
    with pytest.raises(Unsupported, match="program itself"):
        world.ioctl(fd, WORK, bytearray(own.cpu_va.to_bytes(8, "little")))
    check(not machine.seen, "the machine heard nothing of it")


def damaged(change: Callable[[dict[str, object]], None], data: bytes) -> bytes:
    entries = [json.loads(line) for line in data.splitlines()]
    for entry in entries:
        change(entry)
    return "\n".join(map(json.dumps, entries)).encode()


def test_an_unasked_operation_ends_a_replay(node: str) -> None:
    data, _, _ = recorded(node)

    def other(entry: dict[str, object]) -> None:
        if entry["op"] == "reserve":
            entry["args"] = [PAGE_BYTES * 9]

    world = ReplayWorld(damaged(other, data))
    with pytest.raises(ReplayMismatch, match="operation 2 is reserve"):
        session(world, node)

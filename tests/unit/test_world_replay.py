"""Recordings: played back alike, strictly, and read as hostile input."""

from __future__ import annotations

import errno
import json
import os
import random
import time
from pathlib import Path

import pytest

from drivers.base.contracts import World
from drivers.base.errors import DeviceError, MalformedInput, NotFound, Unsupported
from drivers.base.oserrors import errno_of
from drivers.world.linux import PAGE_BYTES, LinuxWorld
from drivers.world.recording import Entry
from drivers.world.recording_text import MAX_ARGS, MAX_CHANGES, MAX_ELEMENTS, MAX_LINE_BYTES, read
from drivers.world.replay import RecordingWorld, ReplayMismatch, ReplayWorld
from drivers.world.taped_memory import FIRST_VA
from tests.mutation import CPU_LIMIT_S, MUTATIONS
from tests.support import check


def whole(data: bytes) -> list[Entry]:
    """Every line, read at once."""
    return list(read(data.splitlines(keepends=True))[1])


FIONREAD = 0x541B  # src: include/uapi/asm-generic/ioctls.h


def session(world: World, folder: str) -> list[object]:
    """Every operation that can be recorded, and its result."""
    node = f"{folder}/node"
    fd = world.open(node, os.O_RDWR)
    argument = bytearray(4)
    seen: list[object] = [fd, world.ioctl(fd, FIONREAD, argument), bytes(argument)]
    region = world.mmap(fd, PAGE_BYTES)
    region.write32(8, 0xDEADBEEF)
    region.write64(16, 1 << 63)
    region.write(24, b"bytes")
    seen += [region.read32(8), region.read64(16), region.read(24, 5), region.nbytes]
    region.close()
    memory = world.mmap(-1, PAGE_BYTES)
    memory.write32(0, 3)
    seen += [memory.read32(0), memory.view()[0]]
    memory.close()
    space = world.reserve(4 * PAGE_BYTES)
    placed = world.mmap(fd, PAGE_BYTES, within=space, at=PAGE_BYTES)
    placed.write(0, b"written by the driver")
    seen += [world.ioctl(fd, FIONREAD, argument), placed.cpu_va, placed.read(8, 40)]
    placed.close()
    space.close()
    world.close(fd)
    world.write(node, b"x")
    seen += [world.read(node, 1 << 16), world.listdir(folder), world.readlink(f"{folder}/link")]
    seen += [world.exists(node), world.access(node, os.X_OK), world.symbol("strlen")]
    start_s = world.monotonic_s()
    world.sleep(0.0)
    seen.append(world.monotonic_s() - start_s)
    try:
        world.open(f"{folder}/missing", os.O_RDWR)
    except DeviceError as error:
        seen += [type(error), str(error).startswith("open"), errno_of(error)]
    return seen


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[bytes, list[object], str]:
    (tmp_path / "node").write_bytes(bytes(PAGE_BYTES))
    (tmp_path / "link").symlink_to("node")
    lines: list[str] = []
    seen = session(RecordingWorld(LinuxWorld(), lines.append), str(tmp_path))
    return "".join(lines).encode(), seen, str(tmp_path)


def test_a_replay_gives_what_was_recorded(recorded: tuple[bytes, list[object], str]) -> None:
    data, seen, folder = recorded
    check(seen[3] == 0xDEADBEEF and seen[-3:] == [NotFound, True, errno.ENOENT], str(seen))
    world = ReplayWorld(data)
    check(session(world, folder) == seen)
    world.finish()


def test_another_operation_is_named(recorded: tuple[bytes, list[object], str]) -> None:
    data, _, folder = recorded
    world = ReplayWorld(data)
    with pytest.raises(ReplayMismatch, match=r"operation 0 is open .*other.*recording has open"):
        world.open(f"{folder}/other", os.O_RDWR)
    with pytest.raises(ReplayMismatch, match="operation 0 is open"):
        world.open(f"{folder}/node", os.O_RDWR)  # the replay is over
    world = ReplayWorld(data)
    fd = world.open(f"{folder}/node", os.O_RDWR)
    with pytest.raises(ReplayMismatch, match="is the end"):
        world.finish()
    world = ReplayWorld(data)
    check(world.open(f"{folder}/node", os.O_RDWR) == fd)
    with pytest.raises(ReplayMismatch, match="operation 1 is close") as caught:
        world.close(fd)
    check((caught.value.position, caught.value.actual) == (1, f"close [{fd}]"))
    check(world.differ == 1 and "close" in world.differences[0], str(world.differences))
    with pytest.raises(ReplayMismatch, match="operation 1 is close"):
        world.finish()


def test_the_end_of_the_recording_is_an_error_too() -> None:
    with pytest.raises(ReplayMismatch, match="nothing more"):
        ReplayWorld(b"").exists("/")


def test_what_cannot_be_replayed_is_refused(recorded: tuple[bytes, list[object], str]) -> None:
    data, _, folder = recorded
    world = ReplayWorld(data)
    with pytest.raises(Unsupported, match="no machine"):
        world.function(4096, 1)
    fd = world.open(f"{folder}/node", os.O_RDWR)
    world.ioctl(fd, FIONREAD, bytearray(4))
    with pytest.raises(Unsupported, match="no view"):
        world.mmap(fd, PAGE_BYTES).view()
    line = {"op": "mmap", "args": [-1, 64, 0, True, FIRST_VA, False], "result": 0}
    with pytest.raises(IndexError):
        ReplayWorld(json.dumps(line).encode()).mmap(-1, 64).read32(61)


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"op": 1}',
        b'{"op": "format", "args": [], "result": null}',
        b'{"op": "read32", "args": [], "result": "1"}',
        b'{"op": "read32", "args": [], "result": true}',
        b'{"op": "read32", "args": [], "result": 4294967296}',
        b'{"op": "read32", "args": [], "result": -1}',
        b'{"op": "read32", "args": [], "result": ' + b"9" * 5000 + b"}",
        b'{"op": "read32", "args": {}, "result": 1}',
        b'{"op": "read32", "args": []}',
        b'{"op": "read32", "args": [], "result": 1, "error": ["Busy", 0, ""]}',
        b'{"op": "read32", "args": [], "error": ["KeyError", 0, ""]}',
        b'{"op": "read32", "args": [], "error": ["Busy", -1, ""]}',
        b'{"op": "read32", "args": [], "error": "Busy"}',
        b'{"op": "read", "args": [], "result": "0"}',
        b'{"op": "listdir", "args": [], "result": [1]}',
        b'{"op": "ioctl", "args": [], "result": [0, "zz"]}',
        b'{"op": "ioctl", "args": [], "result": [0]}',
        b'{"op": "sleep", "args": [], "result": null, "wrote": 1}',
        b'{"op": "sleep", "args": [], "result": null, "wrote": [[0, 0]]}',
        b'{"op": "sleep", "args": [], "result": null, "became": [[0, -1, "00"]]}',
        b'{"op": "sleep", "args": [], "result": null, "became": [[0, "0", "00"]]}',
        b'{"op": "sleep", "args": [], "result": null, "became": [[0, 0, "zz"]]}',
        b'{"recording": 1}',
        b'"' + b"x" * MAX_LINE_BYTES + b'"',
        # numbers that are none, or beyond what World has: src: RFC 8259, 6, and contracts.py
        b'{"op": "monotonic_s", "args": [], "result": Infinity}',
        b'{"op": "monotonic_s", "args": [], "result": -Infinity}',
        b'{"op": "monotonic_s", "args": [], "result": NaN}',
        b'{"op": "monotonic_s", "args": [], "result": 1e999}',
        b'{"op": "monotonic_s", "args": [], "result": 1e300}',
        b'{"op": "monotonic_s", "args": [], "result": 1099511627776.0}',
        b'{"op": "monotonic_s", "args": [], "result": -1.0}',
        b'{"op": "monotonic_s", "args": [], "result": 1}',
        b'{"op": "sleep", "args": [NaN], "result": null}',
        b'{"op": "sleep", "args": [1e999], "result": null}',
        b'{"op": "sleep", "args": [36893488147419103232], "result": null}',
        b'{"op": "ioctl", "args": [], "result": [2147483648, ""]}',
        # many small things in a line
        b'{"op": "open", "args": [' + b"{}," * MAX_ELEMENTS + b'{}], "result": 1}',
        b'{"op": "open", "args": ['
        + b"[" * MAX_ELEMENTS
        + b"]" * MAX_ELEMENTS
        + b'], "result": 1}',
        b'{"op": "open", "args": [' + b"0," * MAX_ARGS + b'0], "result": 1}',
        b'{"op": "sleep", "args": [], "result": null, "became": [[0, 0, ""]]}',
        b'{"op": "sleep", "args": [], "result": null, "became": [[0, 0, " "]]}',
        b'{"op": "sleep", "args": [], "result": null, "wrote": ['
        + b'[0,0,"0"],' * MAX_CHANGES
        + b'[0,0,"0"]]}',
        b'{"op": "open", "args": [], "error": ["Busy", 16, "' + b"x" * 5000 + b'"]}',
    ],
    ids=range(47),
)
def test_malformed_lines_say_which(line: bytes) -> None:
    with pytest.raises(MalformedInput, match="line 2"):
        whole(b'{"op": "exists", "args": ["/"], "result": true}\n' + line)


@pytest.mark.parametrize(
    "line",
    [
        b'{"recording": 2}',
        b'{"recording": 1, "device": "AMD", "program": "a", "sha256": "0"}',
        b'{"recording": 1, "device": 1, "program": "a", "sha256": "0", "arguments": [], '
        b'"environ": {}}',
        b'{"recording": 1, "device": "AMD", "program": "a", "sha256": "0", "arguments": [1], '
        b'"environ": {}}',
    ],
)
def test_a_malformed_header_is_named(line: bytes) -> None:
    with pytest.raises(MalformedInput, match="line 1"):
        ReplayWorld(line)


@pytest.mark.parametrize("became", [[5, 0, "00" * 8], [0, 64, "00" * 8], [0, 4, "00" * 8],
                                    [0, 0, "00"]])  # fmt: skip
def test_writes_to_memory_that_is_not_there(became: list[object]) -> None:
    """Another memory, behind its end, and half a word."""
    lines = [
        {"op": "mmap", "args": [-1, 64, 0, True, FIRST_VA, False], "result": 0},
        {"op": "sleep", "args": [0.0], "result": None, "became": [became]},
    ]
    world = ReplayWorld("\n".join(json.dumps(line) for line in lines).encode())
    world.mmap(-1, 64)
    with pytest.raises(MalformedInput, match="recording, operation 1"):
        world.sleep(0.0)
    with pytest.raises(MalformedInput):
        world.finish()


def test_answers_of_the_wrong_size_are_malformed() -> None:
    lines = [
        {"op": "ioctl", "args": [3, 1, "00000000"], "result": [0, "00"]},
        {"op": "mmap", "args": [3, 64, 0, True, 0, False], "result": 0},
        {"op": "read_bytes", "args": [0, 0, 4], "result": "00"},
    ]
    world = ReplayWorld("\n".join(json.dumps(line) for line in lines).encode())
    with pytest.raises(MalformedInput, match="ioctl"):
        world.ioctl(3, 1, bytearray(4))
    with pytest.raises(MalformedInput, match="bytes"):
        world.mmap(3, 64).read(0, 4)


def test_only_our_errors_escape_mutated_recordings(
    recorded: tuple[bytes, list[object], str],
) -> None:
    data, _, folder = recorded
    short = data.replace(b"00" * 1000, b"")
    session(ReplayWorld(short), folder)  # what is mutated below is right before it
    rng = random.Random(4)
    outcomes = {True: 0, False: 0}
    slowest_s = 0.0
    for _ in range(MUTATIONS):
        mutated = bytearray(short)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(mutated))
            kind = rng.randrange(3)
            if kind == 0:
                mutated[at] = rng.randrange(256)
            elif kind == 1:
                del mutated[at : at + rng.randrange(40)]
            else:
                mutated[at:at] = mutated[: rng.randrange(60)]
        start_s = time.thread_time()
        try:
            session(ReplayWorld(bytes(mutated)), folder)
        except DeviceError:
            outcomes[False] += 1
        else:
            outcomes[True] += 1
        slowest_s = max(slowest_s, time.thread_time() - start_s)
    check(outcomes[False] > 1000, str(outcomes))
    check(slowest_s < CPU_LIMIT_S, f"the slowest took {slowest_s} s of processor time")

"""Files that a user names to a command: what is no file, or has no end, is refused at once."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drivers import replay
from drivers.bare import trace_player
from drivers.base.errors import BadArgument, DeviceError, MalformedInput, NotFound
from drivers.base.inputs import read_input, read_lines
from queues import decode
from tests.support import check

MIB = 1 << 20


@pytest.fixture(autouse=True)
def nothing_blocks() -> Iterator[None]:
    """Whoever waits for a FIFO is woken."""

    def late(number: int, frame: object) -> None:
        raise AssertionError("it blocks")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def fifo(room: Path) -> str:
    os.mkfifo(room / "fifo")
    return str(room / "fifo")


def unix_socket(room: Path) -> str:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(room / "socket"))
    return str(room / "socket")


ODD: dict[str, tuple[type[DeviceError], Callable[[Path], str]]] = {
    "FIFO": (BadArgument, fifo),
    "device without an end": (BadArgument, lambda room: "/dev/zero"),
    "terminal": (NotFound, lambda room: "/dev/tty0/no"),
    "socket": (NotFound, unix_socket),
    "directory": (NotFound, str),
    "nothing": (NotFound, lambda room: str(room / "none")),
}


@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_file(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected, make = ODD[kind]
    path, before = make(tmp_path), os.listdir("/proc/self/fd")
    for read in (read_input, lambda path, limit: list(read_lines(path, limit, limit))):
        with pytest.raises(expected, match=path):
            read(path, MIB)
    check(os.listdir("/proc/self/fd") == before, "no descriptor is lost")
    check(decode.run([path, "--pm4"]) == 1)
    check(replay.main([path, "--board", "gfx1100"]) == 2)
    shown = capsys.readouterr()
    check(shown.err.count(path) == 2 and shown.err.count("\n") == 2 and not shown.out, shown.err)


def test_sizes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"ab\ncd")
    check(read_input(str(path), 5) == b"ab\ncd")
    check(list(read_lines(str(path), 5, 3)) == [b"ab\n", b"cd"])
    with pytest.raises(MalformedInput, match=r"file is longer than 0 MiB"):
        read_input(str(path), 4)
    with pytest.raises(MalformedInput, match=r"file is longer than 0 MiB"):
        list(read_lines(str(path), 4, 4))
    with pytest.raises(MalformedInput, match=r"a line of .*file is longer"):
        list(read_lines(str(path), 5, 2))
    with path.open("wb") as sparse:
        sparse.truncate(1 << 40)
    for command in (lambda: decode.run([str(path), "--pm4"]) == 1,
                    lambda: replay.main([str(path), "--board", "gfx1100"]) == 2):  # fmt: skip
        check(command(), "refused by its size, unread")


def test_a_file_that_grows_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a\n")
    read = list[int]()

    def follow() -> None:
        for line in read_lines(str(path), MIB, MIB):
            read.append(len(line))
            with path.open("ab") as file:
                file.write(b"b" * 1000 + b"\n")

    with pytest.raises(MalformedInput, match="longer"):
        follow()
    check(MIB - 1001 <= sum(read) <= MIB, "read up to the limit")


def test_one_endless_line_of_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    with path.open("wb") as sparse:
        sparse.truncate(trace_player.MOST_BYTES)
    with pytest.raises(MalformedInput, match="a line of"):
        list(read_lines(str(path), trace_player.MOST_BYTES, MIB))

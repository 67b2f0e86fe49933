"""What a small file may cost: a replay reads what its driver asks for, one line at a time."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drivers.bare import trace_player
from drivers.base import inputs, outside_json
from drivers.base.errors import MalformedInput
from drivers.replay import main
from drivers.world import recording_text
from drivers.world.recording_text import MAX_CHANGES, MAX_ELEMENTS, opened, read
from drivers.world.replay import ReplayWorld
from tests.support import check

MIB = 1 << 20
MOST_BYTES = 64 * MIB
"""Beside four times the file: shared/reliability.md R1."""
HEAD = b'{"recording":1,"device":"AMD","program":"a","sha256":"0","arguments":[],"environ":{}}\n'
MINIMAL = b'{"op":"sleep","args":[],"result":null}\n'
SIXTEEN_MIB = 8 * MIB - 64


def line(
    args: bytes = b"", result: bytes = b"null", op: bytes = b"sleep", more: bytes = b""
) -> bytes:
    return b'{"op":"' + op + b'","args":[' + args + b'],"result":' + result + more + b"}\n"


BOMBS: dict[str, Callable[[], Iterator[bytes]]] = {
    "objects": lambda: (line(b"{}," * MIB + b"{}") for _ in range(2)),
    "changes": lambda: (
        line(more=b',"became":[' + b'[0,0,""],' * (MIB // 2) + b'[0,0,""]]') for _ in range(2)
    ),
    "lines": lambda: iter([MINIMAL] * 300_000),
}
"""Of a few kilobytes each when they are packed."""
LARGEST: dict[str, Callable[[], bytes]] = {
    "bytes": lambda: line(b'"x"', b'"' + b"00" * SIXTEEN_MIB + b'"', b"read"),
    "escapes": lambda: line(b'"' + b"\\u0061" * 2_700_000 + b'"', b'""', b"read"),
    "elements": lambda: line(b"[" + b"{}," * (MAX_ELEMENTS // 2 - 9) + b"0]", b"1", b"open"),
    "changes": lambda: line(
        more=b',"became":[' + b",".join([b'[0,0,"0000000000000000"]'] * (MAX_CHANGES - 9)) + b"]"
    ),
}  # fmt: skip
"""The largest lines that are read."""


def packed(path: Path, lines: Iterator[bytes]) -> Path:
    with gzip.open(path, "wb", 1) as file:
        file.writelines(lines)
    return path


def peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", BOMBS)
def test_a_bomb_costs_what_its_first_line_costs(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def all_lines() -> Iterator[bytes]:
        yield HEAD
        yield from BOMBS[kind]()

    file = packed(tmp_path / "bomb.gz", all_lines())
    most = MOST_BYTES + 4 * file.stat().st_size
    program = tmp_path / "program.py"
    program.write_text("")
    small = tmp_path / "small"
    small.write_bytes(HEAD)
    check(main([str(small), str(program)]) == 1, "and everything is imported")
    found = peak_bytes(lambda: check(main([str(file), str(program)]) in (1, 2)))
    check(found <= most, f"{found} bytes at once, {most} are allowed")
    capsys.readouterr()


@pytest.mark.parametrize("kind", LARGEST)
def test_the_largest_lines(kind: str, tmp_path: Path) -> None:
    file = packed(tmp_path / "large.gz", iter([LARGEST[kind]()]))
    entries: list[int] = []
    found = peak_bytes(lambda: entries.append(sum(1 for _ in read(opened(str(file)))[1])))
    check(entries == [1] and found <= MOST_BYTES + 4 * file.stat().st_size, f"{found} bytes")


def test_a_world_reads_no_line_before_its_operation() -> None:
    taken: list[int] = []

    def lines() -> Iterator[bytes]:
        for number, text in enumerate([HEAD, *[MINIMAL.replace(b"[]", b"[0.0]")] * 9]):
            taken.append(number)
            yield text

    world = ReplayWorld(lines())
    check(taken == [0] and world.header is not None, f"{taken}")
    world.sleep(0.0)
    world.sleep(0.0)
    check(taken == [0, 1, 2], f"{taken}")


def test_what_a_driver_never_reaches_is_not_judged() -> None:
    """A malformed line ends the operation that it stands for, and all after it."""
    text = MINIMAL.replace(b"[]", b"[0.0]") + b"no line\n"
    world = ReplayWorld(text)
    world.sleep(0.0)
    for _ in range(2):
        with pytest.raises(MalformedInput, match=r"^recording, line 2: not a JSON object"):
            world.sleep(0.0)
    with pytest.raises(MalformedInput, match="line 2"):
        world.finish()


def test_lines_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_text, "MAX_LINES", 3)
    check(len(list(read([MINIMAL] * 3)[1])) == 3)
    with pytest.raises(MalformedInput, match="line 4: more than 3 lines"):
        list(read([MINIMAL] * 4)[1])
    monkeypatch.setattr(recording_text, "MAX_BYTES", 3 * len(MINIMAL) - 1)
    with pytest.raises(MalformedInput, match="line 3: the text is longer than"):
        list(read([MINIMAL] * 3)[1])


def test_a_file_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "FREE_BYTES", 1000)
    file = packed(tmp_path / "file.gz", iter([b"0" * 99 + b"\n"] * 1000))
    most = 1000 + inputs.MOST_RATIO * file.stat().st_size
    taken: list[bytes] = []

    def take() -> None:
        taken.extend(inputs.read_lines(str(file), MIB, MIB))

    with pytest.raises(MalformedInput, match="unpacks to more than 100 times its size"):
        take()
    check(most - 100 < 100 * len(taken) <= most, f"{len(taken)} lines of {most} bytes")
    plain = tmp_path / "plain"
    plain.write_bytes(b"0" * 99 + b"\n")
    check(len(list(inputs.read_lines(str(plain), MIB, MIB))) == 1)


def test_numbers_of_a_stranger() -> None:
    for text in (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b"18446744073709551616"):
        for shape in (b"%b", b"[%b]", b'{"a": [0, %b]}'):
            with pytest.raises(ValueError, match=r"number|JSON"):
                outside_json.parse(shape % text, 9)
    right = b'[1e308, 18446744073709551615, -18446744073709551615, "NaN", null, 0.5]'
    check(outside_json.parse(right, 9) == json.loads(right))
    with pytest.raises(ValueError, match="more than 5 elements"):
        outside_json.parse(right, 5)


def access(**more: object) -> str:
    return json.dumps({"op": "R", "register": "GC.X", "dword": 1, "value": 1, **more})


@pytest.mark.parametrize(
    "text",
    [access(t=float("inf")), access(t=0)[:-1] + ', "x": [' + "0," * 99 + "0]}",
     access(step="x" * 999), access(register="x" * 999)],
)  # fmt: skip
def test_lines_of_traces_are_bounded(text: str) -> None:
    with pytest.raises(MalformedInput, match="line 2"):
        list(trace_player.lines([access(t=1e-6), text], "trace", 5))


class Other:
    """A GPU whose registers all read 0."""

    def read(self, bar: int, off: int, nbytes: int) -> int:
        return 0

    def write(self, bar: int, off: int, nbytes: int, value: int) -> None:
        """Nothing stays."""

    def place(self, bar: int, off: int, data: bytes) -> None:
        """Nothing stays."""


def test_a_comparison_with_another_gpu_ends() -> None:
    text = (access(dword=number, value=1) for number in range(10_000))
    count, found = trace_player.play(trace_player.lines(text, "trace", 5), Other())
    check(len(found) == trace_player.MOST_DIFFERENCES and count < 2000, f"{count}, {len(found)}")

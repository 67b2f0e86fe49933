"""`python -m drivers.replay`: what a trace says, and what a board that disagrees is told."""

import gzip
import json
from base64 import b64encode
from pathlib import Path

import pytest

from drivers.bare.trace_player import lines, play
from drivers.base.errors import MalformedInput
from drivers.replay import main
from tests.support import check


class Board:
    """Registers that hold what was written; dword 7 counts its reads."""

    def __init__(self) -> None:
        self.words: dict[int, int] = {}
        self.placed: list[tuple[int, int, bytes]] = []
        self.looks = 0

    def read(self, bar: int, off: int, nbytes: int) -> int:
        check((bar, nbytes) == (5, 4), (bar, nbytes))
        if off == 28:
            self.looks += 1
            return self.looks
        return self.words.get(off, 0)

    def write(self, bar: int, off: int, nbytes: int, value: int) -> None:
        check((bar, nbytes) == (5, 4), (bar, nbytes))
        self.words[off] = value

    def place(self, bar: int, off: int, data: bytes) -> None:
        self.placed.append((bar, off, data))


def access(op: str, dword: int, value: int, name: str = "GC.X") -> str:
    return json.dumps({"op": op, "register": name, "dword": dword, "value": value, "step": "up"})


def test_writes_are_done_again_and_reads_compared() -> None:
    board = Board()
    memory = json.dumps({"op": "W", "bar": 0, "offset": 64, "data": b64encode(b"abc").decode()})
    text = [access("W", 3, 5), memory, access("R", 3, 5), access("R", 4, 9, "GC.Y")]
    count, differences = play(lines(text, "t", 5), board)
    check(count == 4 and board.words == {12: 5}, board.words)
    check(board.placed == [(0, 64, b"abc")], board.placed)
    reported = [str(difference) for difference in differences]
    check(reported == ["line 4 (up): GC.Y reads 0x00000000, 0x00000009 in the trace"], reported)


def test_of_a_register_that_is_waited_for_the_last_read_counts() -> None:
    waited = [access("R", 7, 0), access("R", 7, 0), access("R", 7, 3), access("R", 3, 0)]
    check(play(lines(waited, "t", 5), Board())[1] == [], "the board reached it")
    late = [*waited[:2], access("R", 7, 9), access("W", 3, 1)]
    found = play(lines(late, "t", 5), Board())[1]
    check([(d.line.number, d.found) for d in found] == [(3, 3)], found)


@pytest.mark.parametrize(
    "line",
    [
        "", "[]", "{}", "null", '{"op": "R"}', access("X", 1, 1), access("R", -1, 0),
        access("W", 1, 1 << 32), '{"op": "W", "bar": 9, "offset": 0, "data": ""}',
        '{"op": "W", "bar": 0, "offset": 0, "data": "*"}', "[" * 100_000,
    ],
)  # fmt: skip
def test_a_line_that_is_no_access_is_named(line: str) -> None:
    with pytest.raises(MalformedInput, match="line 2"):
        list(lines([access("R", 1, 0), line], "trace", 5))


def test_the_command_plays_to_a_board(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text(access("R", 0xDE3, 1024, "NBIF.RCC_CONFIG_MEMSIZE") + "\n")
    check(main([str(file), "--board", "gfx1100"]) == 0, "nothing differs")
    file.write_text(access("R", 0xDE3, 1, "NBIF.RCC_CONFIG_MEMSIZE") + "\n")
    check(main([str(file), "--board", "gfx1100"]) == 1, "another size of memory")
    reported = capsys.readouterr().out
    check("reads 0x00000400, 0x00000001 in the trace" in reported, reported)
    file.write_text(access("R", 0xDE3, 1, "X\x1b[2J") + "\n")
    check(main([str(file), "--board", "gfx1100"]) == 1)
    check(r"X\x1b[2J reads" in capsys.readouterr().out, "names of the trace are escaped")
    check(main([str(file), "--board", "gfx1"]) == 2, "no such board")
    check("gfx1100" in capsys.readouterr().err, "those that there are")
    check(main([str(file)]) == 2 and "--board" in capsys.readouterr().err, "it needs a board")


def test_packed_traces_are_unpacked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "trace.jsonl.gz"
    packed = gzip.compress(access("R", 0xDE3, 1024, "NBIF.RCC_CONFIG_MEMSIZE").encode() + b"\n")
    file.write_bytes(packed)
    check(main([str(file), "--board", "gfx1100"]) == 0, capsys.readouterr().err)
    for damaged in (packed[:-6], packed[:12] + b"\xff\xff" + packed[14:]):
        file.write_bytes(damaged)
        check(main([str(file), "--board", "gfx1100"]) == 2, "a damaged file")
        check("cannot be read" in capsys.readouterr().err)

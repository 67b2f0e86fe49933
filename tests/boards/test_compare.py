"""`python -m boards.compare`: numbers, reasons, and what makes it fail."""

import io
import json
from pathlib import Path

import pytest

from boards import compare, compare_trace
from boards.compare_reasons import Difference, load
from boards.compare_trace import BadTrace, read
from tests.support import check

Line = dict[str, object]
HEAD: Line = {"board": "gfx1100"}


def w(register: str, value: int) -> Line:
    return {"op": "W", "register": register, "value": value}


def p(phase: str) -> Line:
    return {"op": "P", "phase": phase}


FIRST = [
    HEAD, p("a"), w("GC[0].SAME", 1), w("GC[0].TWICE", 7), w("GC[0].TWICE", 2), p("b"), p("c"),
    w("GC[0].BASE", 0x100), w("GC[0].OURS", 5), p("only ours"), {"op": "M", "mark": "booted"},
    w("GC[0].SAME", 9), p("late"),
]  # fmt: skip
SECOND = [
    HEAD, w("GC[0].BASE", 0x200), p("a"), p("c"), p("b"), w("GC[0].TWICE", 2), w("GC[0].SAME", 1),
    {"op": "R", "register": "GC[0].THEIRS", "value": 0}, w("GC[1].THEIRS", 0), p("theirs"),
]  # fmt: skip
REASONS = """
[[difference]]
kind = "value"
names = ["GC[*].BASE"]
reason = "addresses"
source = "a layout"

[[difference]]
kind = "first"
names = ["GC[0].OURS"]
reason = "ours"
source = "a file"

[[difference]]
kind = "second"
names = ["GC[1].*"]
reason = "theirs"
source = "a file"

[[difference]]
kind = "phase first"
names = ["only ours"]
reason = "ours"
source = "a file"

[[difference]]
kind = "phase second"
names = ["theirs"]
reason = "theirs"
source = "a file"

[[difference]]
kind = "order"
names = ["b", "c"]
reason = "either"
source = "a file"
"""


def text(lines: list[Line]) -> list[str]:
    return [json.dumps(line) for line in lines]


def run(tmp_path: Path, first: list[Line], second: list[Line], reasons: str | None) -> int:
    for name, lines in (("a", first), ("b", second)):
        (tmp_path / name).write_text("\n".join(text(lines)) + "\n")
    words = [str(tmp_path / "a"), str(tmp_path / "b"), "--until", "booted"]
    if reasons is not None:
        (tmp_path / "reasons").write_text(reasons)
        words += ["--reasons", str(tmp_path / "reasons")]
    return compare.main(words)


def test_registers_and_phases_are_compared_up_to_the_mark() -> None:
    first, second = (read(text(lines), "it", "booted") for lines in (FIRST, SECOND))
    found = compare.compare(first, second)
    want = {
        Difference("value", "GC[0].BASE", (0x100, 0x200)), Difference("first", "GC[0].OURS"),
        Difference("second", "GC[1].THEIRS"), Difference("phase first", "only ours"),
        Difference("phase second", "theirs"),
    }  # fmt: skip
    moved = set(found.differences) - want
    check(want <= set(found.differences), found.differences)
    check(moved in ({Difference("order", "b")}, {Difference("order", "c")}), f"one moved: {moved}")
    check(found.equal == 2, "SAME before the mark, and TWICE at last")


def test_exit_status_says_whether_every_difference_has_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check(run(tmp_path, FIRST, FIRST, None) == 0, "alike")
    check(run(tmp_path, FIRST, SECOND, None) == 1, "no reasons are given")
    check("value: GC[0].BASE: 0x100 and 0x200" in capsys.readouterr().out, "it is listed")
    check(run(tmp_path, FIRST, SECOND, REASONS) == 0, capsys.readouterr().out)
    more = [*SECOND, w("GC[3].NEW", 1)]
    check(run(tmp_path, FIRST, more, REASONS) == 1, "a new register")
    check("new: second: GC[3].NEW" in capsys.readouterr().out, "its name")
    fewer = [line for line in SECOND if line.get("register") != "GC[1].THEIRS"]
    check(run(tmp_path, FIRST, fewer, REASONS) == 1, "a reason explains nothing")
    check("a reason for nothing: second: GC[1].*" in capsys.readouterr().out, "its name")
    other = [{"board": "gfx942"}, *SECOND[1:]]
    check(run(tmp_path, FIRST, other, REASONS) == 2, "two boards")


def test_a_reason_with_values_is_about_those_alone() -> None:
    pinned = REASONS.replace('names = ["GC[*].BASE"]', 'names = ["GC[*].BASE"]\nvalues = [1, 2]')
    reasons = load(pinned, "gfx1100")
    known, new = (Difference("value", "GC[0].BASE", pair) for pair in ((1, 2), (1, 3)))
    check(reasons.new([known, new]) == [new], "another pair")


def test_reasons_are_of_their_chips_and_complete() -> None:
    only = REASONS.replace("kind", 'chips = ["gfx942"]\nkind')
    check(load(only, "gfx1100").all == [], "another chip's")
    check(len(load(only, "gfx942").all) == 6, "its own")
    for bad in ('source = "a file"', 'reason = "ours"', 'kind = "first"'):
        with pytest.raises(ValueError, match=r"no reason|no source|kind None"):
            load(REASONS.replace(bad, ""), "gfx1100")


def test_an_alias_compares_two_queues_that_do_one_job() -> None:
    alias = '[[alias]]\nsecond = "(1.0.1)"\nfirst = "(1.0.0)"\nreason = "r"\nsource = "s"\n'
    reasons = load(alias, "gfx1100")
    first = read(text([HEAD, w("GC[0].CP_HQD_VMID (1.0.0)", 8)]), "it")
    second = read(text([HEAD, w("GC[0].CP_HQD_VMID (1.0.1)", 8)]), "it")
    check(compare.compare(first, second, reasons).differences == (), "alike")
    both = read(text([HEAD, w("GC[0].X (1.0.1)", 8), w("GC[0].X (1.0.0)", 8)]), "it")
    with pytest.raises(ValueError, match="are both written"):
        compare.compare(first, both, reasons)


def test_a_reduced_trace_says_the_same() -> None:
    instances = [w(f"GC[{number}].CP_STAT (8)", 3) for number in (0, 1, 2, 5)]
    whole = read(text([*SECOND, *instances, w("GC[3].CP_STAT (8)", 4)]), "it")
    lines = list(whole.reduced())
    check(any('"GC[0-2].CP_STAT (8)"' in line for line in lines), lines)
    reduced = read(lines, "it")
    check((reduced.last, reduced.phases) == (whole.last, whole.phases), lines)


@pytest.mark.parametrize(
    "line",
    [
        "", "{", "[]", "null", '{"op": "X"}', '{"op": "W", "register": "GC[0].A"}',
        '{"op": "W", "register": "GC[0].A", "value": -1}', '{"op": "P", "phase": 3}',
        '{"op": "W", "register": "GC[0].A", "value": 4294967296}',
        '{"op": "W", "register": "GC[0-99999].A", "value": 1}', "[" * 3000,
        '{"op": "M", "mark": "' + "x" * 5000 + '"}',
    ],
)  # fmt: skip
def test_what_is_no_trace_is_named_with_its_line(line: str) -> None:
    with pytest.raises(BadTrace, match="it, line 2"):
        read([json.dumps(HEAD), line], "it")
    with pytest.raises(BadTrace, match="empty"):
        read([], "it")


@pytest.mark.parametrize(
    "lines",
    [
        [json.dumps(w(f"GC[{number}].X", 1)) for number in range(9)],
        [json.dumps({**w(f"GC[{number}].X", 1), "op": "R"}) for number in range(9)],
        [json.dumps({"op": "P", "phase": f"{number}"}) for number in range(9)],
        [json.dumps({"op": "M", "mark": f"{number}"}) for number in range(9)],
        [json.dumps(w("X\x1b[2J", 1))], [json.dumps(w("x" * 300, 1))],
        [json.dumps({"op": "W", "register": "X", "value": float("inf")})],
    ],
)  # fmt: skip
def test_traces_of_a_stranger(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MOST_REGISTERS", "MOST_PHASES"):
        monkeypatch.setattr(compare_trace, name, 8)
    with pytest.raises(BadTrace, match=r"^it, line \d+ is no line of a trace"):
        read([json.dumps(HEAD), *lines], "it")


def test_a_line_without_an_end() -> None:
    first = next(compare_trace.bounded(io.StringIO("x" * 100_000)))
    check(len(first) == compare_trace.MOST_LINE_BYTES + 1)
    with pytest.raises(BadTrace, match="longer than a trace can be"):
        read(compare_trace.bounded(io.StringIO("x" * 100_000)), "it")

"""Timelines: the Trace Event Format's rules, and that what happened is in them, in its place."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from boards import __main__ as command
from boards.run import Setup, run
from boards.trace import FIRST_GPU_PID, KERNEL_PID
from tests.boards import command_programs as programs
from tests.support import check

Event = dict[str, Any]
METADATA = {
    "process_name",
    "process_labels",
    "process_sort_index",
    "thread_name",
    "thread_sort_index",
}
"""src: Trace Event Format, "Metadata Events": the names there are"""


def traced(folder: Path, text: str, *arguments: str, setup: Setup) -> dict[str, Any]:
    program, output = folder / "program.py", folder / "trace.json"
    program.write_text(text)
    run(setup, program, arguments, trace=output, stderr=io.StringIO())
    return dict(json.loads(output.read_text()))


def check_format(document: dict[str, Any]) -> None:
    """src: Trace Event Format: "JSON Object Format", "Event Descriptions", one rule a phase."""
    check(document["displayTimeUnit"] in ("ms", "ns"))
    open_spans: Counter[tuple[str, str]] = Counter()
    for event in document["traceEvents"]:
        shown = str(event)
        check(isinstance(event["name"], str) and event["name"], shown)
        check(all(type(event[key]) is int for key in ("pid", "tid")), shown)
        check(type(event["ts"]) in (int, float) and event["ts"] >= 0, shown)
        check(isinstance(event["args"], dict), shown)
        phase = event["ph"]
        if phase == "X":
            check(type(event["dur"]) in (int, float) and event["dur"] >= 0, shown)
        elif phase == "C":
            check(event["args"] and all(type(v) is int for v in event["args"].values()), shown)
        elif phase == "i":
            check(event["s"] in ("g", "p", "t"), shown)
        elif phase == "M":
            check(event["name"] in METADATA and isinstance(event["args"]["name"], str), shown)
        elif phase in ("b", "e"):
            key = (event["cat"], event["id"])
            open_spans[key] += 1 if phase == "b" else -1
            check(open_spans[key] in (0, 1), f"{shown} has no beginning, or two")
        else:
            raise AssertionError(f"phase {phase!r} is not written here: {shown}")
    check_nesting(document)


def check_nesting(document: dict[str, Any]) -> None:
    """Slices of one thread lie beside or inside each other, as viewers demand."""
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for e in document["traceEvents"]:
        if e["ph"] == "X":
            tracks.setdefault((e["pid"], e["tid"]), []).append((e["ts"], -e["dur"]))
    for slices in tracks.values():
        ends: list[float] = []
        for start, minus in sorted(slices):
            end = start - minus
            while ends and ends[-1] <= start:
                ends.pop()
            check(not ends or end <= ends[-1] + 1e-6, f"a slice at {start} ends after its parent")
            ends.append(end)


def named(document: dict[str, Any], phase: str, pattern: str) -> list[Event]:
    events = document["traceEvents"]
    return [e for e in events if e["ph"] == phase and re.fullmatch(pattern, e["name"])]


@pytest.mark.parametrize("setup", [Setup("gfx1100", aql=False), Setup("gfx942", aql=True)],
                         ids=lambda setup: setup.chip)  # fmt: skip
def test_a_program_s_timeline(tmp_path: Path, setup: Setup) -> None:
    items = 100_000
    document = traced(tmp_path, programs.ADD, str(items), setup=setup)
    check_format(document)
    tracks = {e["args"]["name"]: (e["pid"], e["tid"]) for e in named(document, "M", "thread_name")}
    kind = "aql" if setup.aql else "pm4"
    (pid, tid) = next(place for name, place in tracks.items() if f"({kind})" in name)
    check(pid == FIRST_GPU_PID, "the GPU's process")
    (dispatch,) = [e for e in document["traceEvents"] if e.get("cat") == "dispatch"]
    check((dispatch["pid"], dispatch["tid"]) == (pid, tid), str(dispatch))
    check(not dispatch["name"].startswith("0x"), "the kernel has no name")
    packets = named(document, "X", "KERNEL_DISPATCH" if setup.aql else "DISPATCH_DIRECT")
    (packet,) = [p for p in packets if p["tid"] == tid]
    check(packet["ts"] <= dispatch["ts"], "the dispatch begins before its packet")
    check(dispatch["ts"] + dispatch["dur"] <= packet["ts"] + packet["dur"] + 1e-6)
    check_waves(document, dispatch, items // (64 if setup.chip == "gfx942" else 32))
    check(named(document, "X", "COPY_LINEAR"), "copies are missing")
    check(named(document, "i", "doorbell") and named(document, "i", "interrupt"))


def check_waves(document: dict[str, Any], dispatch: Event, least: int) -> None:
    """Every wave is in one slice, inside the dispatch, one batch behind the other."""
    slices = [e for e in document["traceEvents"] if e.get("cat") == "waves"]
    check(sum(e["args"]["waves"] for e in slices) == dispatch["args"]["waves"], str(slices))
    # a lane takes a few items, at most 16 here
    check(dispatch["args"]["waves"] >= least // 16, str(dispatch))
    first = 0
    for e in slices:
        check(e["args"]["first"] == first, f"wave {first} is missing")
        first += e["args"]["waves"]
        check(e["ts"] >= dispatch["ts"] - 1e-6, str(e))
        check(e["ts"] + e["dur"] <= dispatch["ts"] + dispatch["dur"] + 1e-6, str(e))
    counts = [max(e["args"].values()) for e in named(document, "C", "waves")]
    check(max(counts) == max(e["args"]["waves"] for e in slices) and counts[-1] == 0, str(counts))


def test_memory_is_mapped_and_unmapped(tmp_path: Path) -> None:
    document = traced(tmp_path, programs.ADD, "1000000", setup=Setup("gfx1100"))
    spans = named(document, "b", r"VRAM .* bytes on GPU 0")
    check(any(int(e["args"]["nbytes"]) >= 4_000_000 for e in spans), "the operand's buffer")
    check(all(e["pid"] == KERNEL_PID and int(e["args"]["va"], 16) for e in spans))
    mapped = [e["args"].get("VRAM", 0) for e in named(document, "C", "mapped bytes")]
    check(max(mapped) >= 8_000_000 and mapped[-1] == 0, str(mapped))
    check(len(named(document, "b", r"queue \d+")) == len(named(document, "e", r"queue \d+")) == 2)


def test_a_fault_is_in_the_timeline(tmp_path: Path) -> None:
    document = traced(tmp_path, programs.UNMAPPED, setup=Setup("gfx1100"))
    check_format(document)
    (fault,) = [e for e in document["traceEvents"] if e.get("cat") == "fault"]
    check(fault["name"].endswith(": unmapped") and fault["args"]["access"] == "write", str(fault))
    check(fault["args"]["va"] == "0x1000" and int(fault["args"]["pc"], 16), str(fault))
    check(named(document, "i", "queue fault"))


def test_the_command_takes_its_output_at_either_end(tmp_path: Path) -> None:
    for argv in (
        ["-o", "x.json", "gfx1100", "p.py", "1"],
        ["gfx1100", "p.py", "1", "-o", "x.json"],
    ):
        args = command.parse(["trace", *argv])
        check((str(args.output), str(args.program), args.operands) == ("x.json", "p.py", ["1"]))
    args = command.parse(["run", "gfx1100", "--aql", "p.py", "--aql", "-o", "y"])
    check((args.aql, args.operands) == (True, ["--aql", "-o", "y"]), str(args))

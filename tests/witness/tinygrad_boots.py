"""tinygrad's boot beside our own: the committed differences, and tinygrad's recorded traces."""

from __future__ import annotations

import json
from pathlib import Path

from boards.access_log import HEAD
from boards.compare import Comparison, compare, listed
from boards.compare_reasons import Reasons, load
from boards.compare_trace import Summary, read
from tests.witness import own_boot
from tests.witness.tinygrad_wheel import VERSION

REASONS = Path(__file__).with_name("tinygrad_differences.toml")
_DATA = Path(__file__).parents[1] / "data"
_MADE_BY = f"make witness-tinygrad ARGS=--record, tinygrad {VERSION}"


def recorded_file(chip: str) -> Path:
    """Where a chip's reduced trace is kept."""
    return _DATA / f"tinygrad_boot_{chip}.trace"


def recorded(chip: str) -> Summary:
    """tinygrad's boot as it was when the file was made. Raises: OSError, BadTrace."""
    path = recorded_file(chip)
    return read(path.read_text().splitlines(), path.name)


def record(theirs: Summary) -> None:
    """Write the file anew."""
    _, *lines = theirs.reduced()
    head = json.dumps({HEAD: theirs.board, "made by": _MADE_BY})
    recorded_file(theirs.board).write_text("\n".join([head, *lines]) + "\n")


def against(ours: Summary, theirs: Summary) -> tuple[Comparison, Reasons]:
    """The comparison, with the reasons that are known on this chip."""
    reasons = load(REASONS.read_text(), ours.board)
    return compare(ours, theirs, reasons), reasons


def check_boot(theirs: Summary) -> tuple[str, list[str]]:
    """(numbers, trouble) of a fresh boot of tinygrad's: it is as recorded, and as ours."""
    chip = theirs.board
    trouble = [
        f"not as recorded in {recorded_file(chip).name}: {line}"
        for line in listed(compare(recorded(chip), theirs).differences)
    ]
    comparison, reasons = against(own_boot.boot(chip), theirs)
    trouble += [f"new difference: {line}" for line in listed(reasons.new(comparison.differences))]
    trouble += [f"a reason for nothing: {', '.join(one.names)}" for one in reasons.stale()]
    return str(comparison), trouble

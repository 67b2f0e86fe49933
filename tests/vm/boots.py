"""amdgpu's boot of a board beside our own driver's, register by register.

python -m tests.vm.boots TRACE...   # keep traces of the cache (amdgpu-gfx1100.trace) in tests/data
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from boards.access_log import HEAD
from boards.compare import Comparison, compare, listed
from boards.compare_reasons import Reasons, load
from boards.compare_trace import Summary, read
from tests.vm.lab import Lab, LabError
from tests.witness import own_boot
from unbound import terminal

REASONS = Path(__file__).with_name("amdgpu_differences.toml")
_DATA = Path(__file__).parents[1] / "data"
_MADE_BY = "python -m tests.vm.boots, Linux 6.12.107 of Debian 13"
CHIPS = ("gfx1100", "gfx1102", "gfx1201")
"""Those whose differences have been looked at."""
VRAM_BYTES = 1 << 30
"""As the lab's boards."""


def recorded_file(chip: str) -> Path:
    """Where a chip's reduced trace is kept."""
    return _DATA / f"amdgpu_boot_{chip}.trace"


def recorded(chip: str) -> Summary:
    """amdgpu's boot as it was when the file was made. Raises: OSError, BadTrace."""
    path = recorded_file(chip)
    return read(path.read_text().splitlines(), path.name)


def against(ours: Summary, theirs: Summary) -> tuple[Comparison, Reasons]:
    """The comparison, with the reasons that are known on this chip."""
    reasons = load(REASONS.read_text(), ours.board)
    return compare(ours, theirs, reasons), reasons


def compared(lab: Lab, board: str) -> str:
    """The numbers for a boot that has just ended; the cache keeps its trace.

    Raises: LabError with differences that have no reason, and reasons for nothing.
    """
    if board not in CHIPS:
        return f"not compared: no list of differences for {board}"
    lines = lab.journal(board)
    lab.places.initrd.with_name(f"amdgpu-{board}.trace").write_text("\n".join(lines) + "\n")
    theirs = read(lines, f"amdgpu's boot of {board}")
    comparison, reasons = against(own_boot.boot(board, VRAM_BYTES), theirs)
    trouble = [f"new: {line}" for line in listed(reasons.new(comparison.differences))]
    trouble += [f"a reason for nothing: {', '.join(one.names)}" for one in reasons.stale()]
    if trouble:
        raise LabError("; ".join(trouble))
    return str(comparison)


def main(paths: Sequence[str]) -> None:
    """Reduce traces, and keep them."""
    for path in paths:
        theirs = read(Path(path).read_text().splitlines(), path)
        _, *lines = theirs.reduced()
        head = json.dumps({HEAD: theirs.board, "made by": _MADE_BY})
        recorded_file(theirs.board).write_text("\n".join([head, *lines]) + "\n")
        print(recorded_file(theirs.board))


if __name__ == "__main__":
    terminal.run(main)

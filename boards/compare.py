"""Two clients' boots of the same board, register by register: what is not alike.

python -m boards.compare ours.trace tinygrad.trace --until booted --reasons differences.toml

Compared are registers that only one client writes, the last values of those that both write, and
the order of phases. Exit status: 0 without a difference, or when every difference has a reason;
1 with a new one, or with a reason that explains nothing; 2 for files that cannot be compared.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from boards.compare_reasons import Difference, Reasons, load
from boards.compare_trace import BadTrace, Summary, bounded, read
from unbound import terminal

SAME, DIFFERENT, UNUSABLE = 0, 1, 2
_INSTANCE = re.compile(r"^(.*?)\[(\d+)\](.*)$")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Numbers of registers, and each difference."""

    equal: int
    differences: tuple[Difference, ...]

    def count(self, kind: str) -> int:
        """How many there are of a kind."""
        return sum(one.kind == kind for one in self.differences)

    def __str__(self) -> str:
        return (
            f"{self.equal} registers equal, {self.count('value')} different, "
            f"{self.count('first')} only the first writes, {self.count('second')} only the second; "
            f"phases: {self.count('order')} in another order, {self.count('phase first')} only in "
            f"the first, {self.count('phase second')} only in the second"
        )


def compare(first: Summary, second: Summary, reasons: Reasons | None = None) -> Comparison:
    """With the aliases of `reasons`. Raises: ValueError for traces of different boards."""
    if first.board != second.board:
        raise ValueError(f"traces of two boards: {first.board} and {second.board}")
    for theirs, ours in reasons.aliases if reasons else ():
        second = second.renamed(theirs, ours)
    found: list[Difference] = []
    equal = 0
    for name, value in first.last.items():
        other = second.last.get(name)
        if other is None:
            found.append(Difference("first", name))
        elif other != value:
            found.append(Difference("value", name, (value, other)))
        else:
            equal += 1
    found += [Difference("second", name) for name in second.last if name not in first.last]
    found += _phases(first.phases, second.phases)
    return Comparison(equal, tuple(found))


def _phases(first: Sequence[str], second: Sequence[str]) -> list[Difference]:
    found = [Difference("phase first", name) for name in first if name not in second]
    found += [Difference("phase second", name) for name in second if name not in first]
    ours = [name for name in first if name in second]
    theirs = [name for name in second if name in first]
    kept = _common(ours, theirs)
    return found + [Difference("order", name) for name in ours if name not in kept]


def _common(first: Sequence[str], second: Sequence[str]) -> set[str]:
    """The longest sequence that is in both: what is beside it has moved."""
    best = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i in range(len(first) - 1, -1, -1):
        for j in range(len(second) - 1, -1, -1):
            alike = first[i] == second[j]
            skipped = max(best[i + 1][j], best[i][j + 1])
            best[i][j] = best[i + 1][j + 1] + 1 if alike else skipped
    kept, i, j = set(), 0, 0
    for _ in range(len(first) + len(second)):
        if i == len(first) or j == len(second):
            break
        if first[i] == second[j]:
            kept.add(first[i])
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return kept


def listed(differences: Sequence[Difference]) -> list[str]:
    """One line each; instances of a block that differ alike share theirs."""
    groups: dict[Difference, list[str]] = {}
    for one in differences:
        parts = _INSTANCE.match(one.name)
        name = f"{parts[1]}[#]{parts[3]}" if parts else one.name
        key = Difference(one.kind, name, one.values)
        groups.setdefault(key, []).append(parts[2] if parts else "")
    return [str(key).replace("[#]", f"[{','.join(numbers)}]") for key, numbers in groups.items()]


def _summary(path: Path, until: str) -> Summary:
    """Raises: BadTrace, OSError."""
    with path.open(encoding="ascii", errors="replace") as file:
        return read(bounded(file), str(path), until)


def report(comparison: Comparison, reasons: Reasons | None) -> bool:
    """Print it; whether nothing is new."""
    print(comparison)
    if reasons is None:
        print("\n".join(listed(comparison.differences)))
        return not comparison.differences
    new, stale = reasons.new(comparison.differences), reasons.stale()
    print(f"{len(comparison.differences) - len(new)} differences have a reason, {len(new)} are new")
    print("\n".join(f"new: {line}" for line in listed(new)))
    for reason in stale:
        print(f"a reason for nothing: {reason.kind}: {', '.join(reason.names)}")
    return not new and not stale


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m boards.compare", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("first", type=Path, metavar="A.trace")
    parser.add_argument("second", type=Path, metavar="B.trace")
    parser.add_argument("--until", default="", metavar="MARK", help="leave out what follows a mark")
    parser.add_argument("--reasons", type=Path, metavar="FILE", help="differences that are known")
    args = parser.parse_args(argv)
    try:
        first, second = (_summary(path, args.until) for path in (args.first, args.second))
        reasons = load(args.reasons.read_text(), first.board) if args.reasons else None
        comparison = compare(first, second, reasons)
    except (BadTrace, ValueError, OSError) as error:
        print(f"boards.compare: {error}", file=sys.stderr)
        return UNUSABLE
    return SAME if report(comparison, reasons) else DIFFERENT


if __name__ == "__main__":
    terminal.run(main)

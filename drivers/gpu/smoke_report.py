"""What `probe --smoke` shows of its tests: lines, or JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from drivers.gpu.smoke_outcome import Outcome
from drivers.machine.output import width_chars

_MS: Final = 1e3
_INDENT: Final = " " * 12


def smoke_json(outcomes: Mapping[str, Sequence[Outcome]]) -> list[dict[str, object]]:
    """Tests as the JSON has them; times in milliseconds."""
    return [
        {
            "gpu": name, "test": one.name, "ok": one.ok, "ms": round(one.seconds * _MS, 3),
            "detail": one.detail,
        }
        for name, tests in outcomes.items()
        for one in tests
    ]  # fmt: skip


def smoke_summary(outcomes: Mapping[str, Sequence[Outcome]]) -> list[str]:
    """One line for all tests of all devices; none where no test was run."""
    every = [one.ok for tests in outcomes.values() for one in tests]
    failed = every.count(False)
    ending = f", {failed} FAILED" if failed else ""
    return [f"{'smoke':<12}{every.count(True)} ok{ending}"] if every else []


def smoke_lines(name: str, outcomes: Iterable[Outcome]) -> Iterator[str]:
    """One line for each test; why it failed below it."""
    for one in outcomes:
        first, _, rest = one.detail.partition("\n")
        shown = f"{'ok' if one.ok else 'FAILED':<7}{one.name:<26}{one.seconds * _MS:>10.2f} ms"
        yield f"{name:<12}{shown}  {first if one.ok else ''}".rstrip()
        if not one.ok:
            lines = [*textwrap.wrap(first, width_chars() - len(_INDENT)), *rest.splitlines()]
            yield from (f"{_INDENT}{line}" for line in lines)

"""The result of a way to devices behind a vendor's library: what was found, tried, and lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from drivers.base.answers import Answers
from drivers.machine.checks import Machine, Result

RAN: Final = "a kernel was built and run"
_GIB: Final = 1 << 30


class Seen(NamedTuple):
    """A device that a library listed."""

    title: str
    library: str
    """The library's file, by which a trial is remembered."""


def judged(
    machine: Machine, kind: str, seen: Sequence[Seen], answers: Answers, nothing: str, advice: str
) -> Result:
    """A result: ready where a kernel ran on a device; `nothing` and `advice` where there is none.

    An open device has every library of its kind in the program's own process, so that one library
    which ends its process is in the way of all devices.
    """
    lost = [str(one) for one in answers.lost]
    missing = [one["missing"] for one in answers.facts if "missing" in one]
    tried = machine.trial(kind, seen) if machine.trial is not None and seen and not lost else {}
    shown, hints, ready = [], [], False
    memory = {one["title"]: one["memory_bytes"] for one in answers.facts if "memory_bytes" in one}
    for number, one in enumerate(seen):
        why, hint = tried.get(number, ("", ""))
        size = f", {memory[one.title] / _GIB:.1f} GiB" if one.title in memory else ""
        shown.append(f"{one.title}{size}: {why}" if why else f"{one.title}{size}")
        hints += [hint] if hint else []
        ready = ready or not why
    details: dict[str, object] = {
        "devices": [one.title for one in seen],
        "memory_bytes": memory,
        "missing": missing,
        "lost": lost,
        "tried": {seen[number].title: why or RAN for number, (why, _) in tried.items()},
        "said": answers.noise,
    }
    if lost:
        names = " and ".join(dict.fromkeys(one.name or "it" for one in answers.lost))
        fix = f"update or remove {names}: a program with {kind}=1 loads it, too"
        return Result(kind, "", False, "; ".join([*lost, *shown]), fix, details)
    if not seen:
        reason = "; ".join([nothing, *missing])
        return Result(kind, "", False, reason, advice, details)
    return Result(kind, "", ready, "; ".join(shown), hints[0] if hints else "", details)

"""What a probe prints of the GPUs that a driver would boot, as text and for JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from drivers.bare.survey import Candidate
from drivers.machine.buses import Unread
from drivers.machine.output import width_chars

_INDENT: Final = " " * 12


def pci_table(found: Sequence[Candidate], none: str, unread: Sequence[Unread] = ()) -> str:
    """Every GPU with its facts, and what is in the way with what to do; `none` without a GPU.

    `unread` are functions that may be GPUs: the bus lists them, and they cannot be read.
    """
    lines: list[str] = []
    for one in found:
        state = "would be claimed and booted" if one.ready else "would be left as it is"
        lines += _wrapped(one.name, f"{one.chip or 'unknown chip'} {one.function}: {state}")
        for fact in one.facts():
            lines += _wrapped("", fact)
        for obstacle in one.obstacles:
            lines += _wrapped("", obstacle.reason)
            lines += _wrapped("", f"-> {obstacle.advice}") if obstacle.advice else []
    for other in unread:
        lines += [*_wrapped("-", other.reason), *_wrapped("", f"-> {other.advice}")]
    return "\n".join(lines or [none])


def pci_facts(found: Sequence[Candidate], unread: Sequence[Unread] = ()) -> dict[str, object]:
    """What `pci_table` shows, as one object for JSON."""
    passed = [{"address": one.address, "reason": one.reason, "advice": one.advice}
              for one in unread]  # fmt: skip
    return {"gpus": [_json(one) for one in found], "unread": passed}


def _json(one: Candidate) -> dict[str, object]:
    return {
        "name": one.name,
        "chip": one.chip or None,
        "ready": one.ready,
        "pci": asdict(one.function),
        "method": one.method.value if one.method is not None else None,
        "facts": one.facts(),
        "obstacles": [asdict(obstacle) for obstacle in one.obstacles],
        "firmware": asdict(one.firmware) if one.firmware is not None else None,
    }


def _wrapped(start: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, width_chars(), initial_indent=f"{start:<12}", subsequent_indent=_INDENT,
        break_on_hyphens=False,
    )  # fmt: skip

"""A plan as text: every step that claiming would take, or every reason why it would not."""

from __future__ import annotations

import textwrap

from drivers.claim.claim import Plan
from drivers.claim.record import Method
from drivers.machine.output import width_chars

_INDENT = "    "
_METHODS = {
    Method.VFIO: "through vfio-pci; DMA only where the IOMMU lets it",
    Method.BARS: "through its BARs alone, without DMA: it is in no IOMMU group",
}


def plan_lines(plan: Plan) -> list[str]:
    """What would be done to one function; nothing is."""
    lines = [f"{plan.function}: {_METHODS[plan.method]}"]
    if plan.refusals:
        lines.append(f"{_INDENT}would be refused, and left as it is:")
        for refusal in plan.refusals:
            lines += [*_wrapped("- ", str(refusal)), *_wrapped("  -> ", refusal.advice)]
        return lines
    if not plan.steps:
        return [*lines, f"{_INDENT}nothing has to be changed to use it"]
    lines.append(f"{_INDENT}would be taken; at the end, or when a step fails, the way back:")
    for number, step in enumerate(plan.steps, 1):
        lines += _wrapped(f"{number}. ", str(step))
    return lines


def _wrapped(start: str, text: str) -> list[str]:
    first = _INDENT + start
    return textwrap.wrap(
        text,
        width_chars(),
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_on_hyphens=False,
        break_long_words=False,
    )

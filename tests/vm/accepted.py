"""What amdgpu itself breaks of the board's rules: each with why the board keeps the rule.

A violation that no line explains fails `make vm`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Accepted:
    """A violation by a regular expression, its reason, and where Linux does it."""

    pattern: str
    reason: str
    source: str


ACCEPTED = (
    Accepted(
        r"write before its block is up: GC\[0\]\.RLC_SPM_MC_CNTL ",
        "the graphics block is not powered before the RLC's autoload; what silicon does with the "
        "write is not known, and amdgpu writes the register again for each process",
        "gfx_v11_0.c gfx_v11_0_rlc_init(): update_spm_vmid(adev, NULL, 0xf), called by sw_init",
    ),
    Accepted(
        r"HDP flush under way: ",
        "one CPU rings a doorbell or invalidates while another is between its own flush and the "
        "read behind it; the board does not know which CPU's stores the work depends on, so with "
        "several CPUs the rule decides nothing (it does on one: tests/boards)",
        "hdp_v6_0.c hdp_v6_0_flush_hdp() reads RCC_CONFIG_MEMSIZE behind each flush",
    ),
)


def unexplained(violations: Iterable[str]) -> tuple[list[str], list[Accepted]]:
    """Violations that nothing explains; and the explanations that were used."""
    left: list[str] = []
    used: list[Accepted] = []
    for violation in violations:
        match = next((one for one in ACCEPTED if re.match(one.pattern, violation)), None)
        if match is None:
            left.append(violation)
        elif match not in used:
            used.append(match)
    return left, used

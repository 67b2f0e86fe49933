"""What amdgpu itself breaks of the board's rules: each with why the board keeps the rule.

A violation that no line explains fails `make vm`. Every line holds for amdgpu alone: the board's
journal says in which session each violation was, and a session is the time while a kernel driver
has MSI on. Our driver, which takes the same GPU in between, uses the BARs and no interrupt
(session 0), so nothing is accepted of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_BROKEN = re.compile(r"broken in session (\d+): (\d+) x (.*)").fullmatch
_SESSIONS = re.compile(r"sessions with MSI: (\d+)").fullmatch


@dataclass(frozen=True, slots=True)
class Broken:
    """A violation, how often it happened, and in which session; 0 is all time without MSI."""

    session: int
    count: int
    text: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """A violation by a regular expression of all of its text, its reason, where Linux does it."""

    pattern: str
    reason: str
    source: str
    most: int | None = None
    """How often in one session; None: as often as it happens."""
    early: int = 0
    """How often for each bind before amdgpu has MSI on."""
    who: str = "amdgpu"


UNKNOWN = (
    "0x1282", "0x162c2", "0x162c3", "0x1660a", "0x1660b", "0x16a2d", "0x16a2e", "0x1882", "0x30b4",
    "0x45071", "0x68e001c", "0x68e0118", "0xc75", "0xe068", "0xf006", "0xfb96",
)  # fmt: skip
"""Dwords without a register that amdgpu accesses while it has MSI on."""
EARLY = ("0x7", "0xde5")
"""Those that it reads once each in every probe, before it has MSI on."""
ACCEPTED: tuple[Accepted, ...] = (
    Accepted(
        r"write before its block is up: GC\[0\]\.RLC_SPM_MC_CNTL \(0xf\)",
        "the graphics block is not powered before the RLC's autoload; what silicon does with the "
        "write is not known, and amdgpu writes the register again for each process",
        "gfx_v11_0.c gfx_v11_0_rlc_init(): update_spm_vmid(adev, NULL, 0xf), called by sw_init",
        most=0, early=1,
    ),
    Accepted(
        r"HDP flush under way: (?:(?:GC|MM)HUB, invalidation by engine \d+|queue \d of SDMA\d|"
        r"(?:compute|graphics|KIQ) queue at doorbell \d+|queue 1\.\d\.\d of GC\[0\])"
        r": no register was read since the flush",
        "one CPU rings a doorbell or invalidates while another is between its own flush and the "
        "read behind it; the board does not know which CPU's stores the work depends on, so with "
        "several CPUs the rule decides nothing (it does on one: tests/boards)",
        "hdp_v6_0.c hdp_v6_0_flush_hdp() reads RCC_CONFIG_MEMSIZE behind each flush",
    ),
    Accepted(
        rf"unknown register: (?:read|write) of dword (?:{'|'.join(UNKNOWN)}) \(0x[0-9a-f]+\)",
        "the board's tables have no register there, and the answer is 0",
        "measured: gfx1100, Linux 6.12.107; the functions that do it are not looked up",
    ),
    Accepted(
        rf"unknown register: read of dword (?:{'|'.join(EARLY)}) \(0x0\)",
        "the board's tables have no register there, and the answer is 0",
        "measured: gfx1100, Linux 6.12.107; the functions that do it are not looked up",
        most=0, early=len(EARLY),
    ),
)  # fmt: skip


def broken(lines: Iterable[str]) -> tuple[list[Broken], int]:
    """Violations by session from a board's log, and how many sessions there were.

    A violation of the list at the end that no session has counts as broken without MSI.
    """
    found: list[Broken] = []
    listed: list[str] = []
    sessions = 0
    for line in lines:
        match = _BROKEN(line)
        if match is not None:
            found.append(Broken(int(match[1]), int(match[2]), match[3]))
        elif line.startswith("violation: "):
            listed.append(line.removeprefix("violation: "))
        elif (match := _SESSIONS(line)) is not None:
            sessions = int(match[1])
    known = {one.text for one in found}
    return found + [Broken(0, 1, text) for text in listed if text not in known], sessions


def unexplained(violations: Iterable[Broken], binds: int) -> tuple[list[str], list[Accepted]]:
    """Violations that nothing explains; and the explanations that were used.

    `binds`: how often amdgpu was bound, for what it does before it has MSI on.
    """
    left: list[str] = []
    used: list[Accepted] = []
    counts: dict[tuple[int, Accepted], int] = {}
    for one in violations:
        match = next((known for known in ACCEPTED if re.fullmatch(known.pattern, one.text)), None)
        if match is None:
            left.append(f"session {one.session}: {one.text}")
            continue
        key = one.session, match
        counts[key] = counts.get(key, 0) + one.count
        if match not in used:
            used.append(match)
    for (session, known), count in counts.items():
        limit = known.most if session else known.early * binds
        if limit is not None and count > limit:
            left.append(f"session {session}: {count} x {known.pattern}, accepted {limit}")
    return left, used

"""What amdgpu itself breaks of the board's rules: each with why the board keeps the rule.

A violation that no line explains fails `make vm`. Every line holds for amdgpu alone: the board's
journal says in which session each violation was, and a session is the time while a kernel driver
has MSI on. Our driver, which takes the same GPU in between, uses the BARs and no interrupt
(session 0), so nothing is accepted of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tests.vm.unmodelled import UNMODELLED
from tests.vm.unmodelled_gfx12 import GFX12
from tests.vm.unmodelled_gfx942 import GFX942

_BROKEN = re.compile(r"broken in session (\d+): (\d+) x (.*)").fullmatch
_SESSIONS = re.compile(r"sessions with MSI: (\d+)").fullmatch


_GFX12 = ("gfx1200", "gfx1201")
_GFX942 = ("gfx942",)


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
    chips: tuple[str, ...] = ()
    """Boards where it is accepted; empty: every one."""


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
        r"(?:compute|graphics|KIQ|HIQ) queue at doorbell \d+(?: of GC\[\d\])?|"
        r"queue 1\.\d\.\d of GC\[\d\](?:, its MQD)?)"
        r": no register was read since the flush",
        "one CPU rings a doorbell or invalidates while another is between its own flush and the "
        "read behind it; the board does not know which CPU's stores the work depends on, so with "
        "several CPUs the rule decides nothing (it does on one: tests/boards)",
        "hdp_v6_0.c hdp_v6_0_flush_hdp() reads RCC_CONFIG_MEMSIZE behind each flush, and so does "
        "hdp_v4_0.c hdp_v4_0_flush_hdp(); an MQD is read when the HIQ's doorbell rings",
    ),
    Accepted(
        r"unknown register: read of dword 0x7 \(0x0\)",
        "BIOS_SCRATCH_7 is meant: adev->bios_scratch_reg_offset is still 0, so that dword 7 of "
        "BAR5 is read, where no register is",
        "amdgpu_bios.c amdgpu_read_bios_from_vram() calls amdgpu_device_need_post() before "
        "amdgpu_atomfirmware_scratch_regs_init() sets the offset",
        most=0, early=1,
    ),
    Accepted(
        r"invalidation: (?:GC|MM)HUB: engine 17 has an address range that is not everything",
        "gfx942's hubs, 8 and 4, are told to forget VMID 0 before they know of what range; nothing "
        "was translated before, and the range is set before anything is",
        "gmc_v9_0.c gmc_v9_0_hw_init() flushes before gmc_v9_0_gart_enable(), which calls "
        "gfxhub_v1_2_gart_enable() and so gfxhub_v1_2_xcc_program_invalidation()",
        most=0, early=12, chips=_GFX942,
    ),
    *(Accepted(one.pattern, one.reason, one.source, early=one.early) for one in UNMODELLED),
    *(Accepted(one.pattern, one.reason, one.source, chips=_GFX12) for one in GFX12),
    *(
        Accepted(one.pattern, one.reason, one.source, early=one.early, chips=_GFX942)
        for one in GFX942
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


def unexplained(
    violations: Iterable[Broken], binds: int, board: str, own: Collection[int] = ()
) -> tuple[list[str], list[Accepted]]:
    """Violations that nothing explains on this board; and the explanations that were used.

    `binds`: how often amdgpu was bound, for what it does before it has MSI on. `own`: sessions of
    our driver, where nothing is explained.
    """
    here = [known for known in ACCEPTED if not known.chips or board in known.chips]
    left: list[str] = []
    used: list[Accepted] = []
    counts: dict[tuple[int, Accepted], int] = {}
    for one in violations:
        match = next((known for known in here if re.fullmatch(known.pattern, one.text)), None)
        if match is None or one.session in own:
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

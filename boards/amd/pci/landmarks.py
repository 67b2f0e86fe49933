"""Phases of a boot, as the board sees them, whoever boots it: a register gets a certain value."""

from __future__ import annotations

import re
from collections.abc import Callable

from boards.amd.pci import psp_names as n

_ENABLE = 1
_MEC_HALT = {"CP_MEC_RS64_CNTL": 1 << 30, "CP_MEC_CNTL": 1 << 30}
"""src: gc_11_0_0_sh_mask.h CP_MEC_RS64_CNTL__MEC_HALT, gc_9_4_3_sh_mask.h ..._ME1_HALT"""
_PSP_COMMANDS = {
    n.LOAD_TOC: "LOAD_TOC", n.SETUP_TMR: "SETUP_TMR", n.AUTOLOAD_RLC: "AUTOLOAD_RLC",
    n.SPATIAL_PART: "SRIOV_SPATIAL_PART", n.BOOT_CFG: "BOOT_CFG", n.DESTROY_TMR: "DESTROY_TMR",
}  # fmt: skip
_RING_COMMANDS = {
    n.INIT_RING: "PSP ring on", n.DESTROY_RINGS: "PSP ring off",
    n.DESTROY_GPCOM_RING: "PSP ring off", n.MODE1_RESET: "mode-1 reset by the PSP",
}  # fmt: skip


def _enabled(name: str) -> Callable[[str, int], str]:
    return lambda register, value: name if value & _ENABLE else ""


def _running(register: str, value: int) -> str:
    return "" if value & _MEC_HALT[register] else "MEC runs"


_RULES: tuple[tuple[str, str, Callable[[str, int], str]], ...] = (
    ("MMHUB", r"(MM)?VM_CONTEXT0_CNTL", _enabled("MM hub on")),
    ("GC", r"(GC)?VM_CONTEXT0_CNTL", _enabled("GC hub on")),
    ("NBIF", r".*RCC_DOORBELL_APER_EN", _enabled("doorbells on")),
    ("OSSSYS", r"IH_RB_CNTL", _enabled("interrupt ring on")),
    (
        "MP0",
        r".*_C2PMSG_35",
        lambda register, value: f"PSP bootloader {n.STAGES.get(value, value)}",
    ),
    ("MP0", r".*_C2PMSG_64", lambda register, value: _RING_COMMANDS.get(value, "")),
    ("MP1", r".*_C2PMSG_66", lambda register, value: f"SMU message {value:#x}"),
    ("MP1", r".*_C2PMSG_75", lambda register, value: f"SMU debug message {value:#x}"),
    ("GC", r"CP_MEC(_RS64)?_CNTL", _running),
    ("GC", r"CP_HQD_ACTIVE", _enabled("compute queue on")),
    ("GC", r"SDMA\d_QUEUE\d_RB_CNTL", _enabled("SDMA ring on")),
    ("SDMA.*", r"SDMA_GFX_RB_CNTL", _enabled("SDMA ring on")),
)
# src: amdgpu/psp_gfx_if.h, mp_*_offset.h; sdma0_4_4_2, gc_11_0_0 and osssys_6_0_0 headers: the
# enable bits of rings and contexts are bit 0


def passed(block: str, register: str, value: int) -> str:
    """The phase that a write begins; "" for any other write."""
    for of_block, pattern, phase in _RULES:
        if re.fullmatch(of_block, block) and re.fullmatch(pattern, register):
            return phase(register, value)
    return ""


def event_phase(name: str, facts: dict[str, int | str]) -> str:
    """The phase that an event of the board begins; "" for any other event."""
    if name == "firmware":
        return f"firmware {facts['kind']}"
    command = facts.get("command")
    if name == "psp" and isinstance(command, int) and command != n.LOAD_IP_FW:
        return f"PSP {_PSP_COMMANDS.get(command, hex(command))}"
    return ""

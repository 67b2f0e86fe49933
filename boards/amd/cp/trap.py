"""A wave that cannot go on, where the process has installed a second-level trap handler.

The kernel's own handler, which comes first, is not run: what it hands on is filled in here.
src: Linux amdkfd/cwsr_trap_handler_gfx9.asm, gfx10.asm, gfx12.asm L_FETCH_2ND_TRAP; ROCR
trap_handler.s and trap_handler_gfx12.s, "ABI between first and second level trap handler".
"""

from __future__ import annotations

import re
import struct
from dataclasses import replace

from boards.amd.cp.context import Context
from boards.amd.isa.decode import Family
from boards.amd.wave.execute import execute
from boards.amd.wave.trap import TTMP
from boards.amd.wave.types import Dispatch, MemoryFault, Privileged, WaveFault

_PC_LO, _PC_HI, _STATUS, _TMA_LO, _TMA_HI = (TTMP + n for n in (0, 1, 12, 14, 15))
_LOW = 0xFFFFFFFF
_PAGE = ("read", "write", "execute")
_MOST_STEPS = 4096
_TRAP_POINTERS = struct.Struct("<2Q")
# src: SQ_WAVE_TRAPSTS_* and SQ_WAVE_EXCP_FLAG_PRIV_* of trap_handler.s, trap_handler_gfx12.s:
# (memory violation, illegal instruction, XNACK error), first bit of the trap's number in ttmp1.
_BITS = {"gfx12": (4, 6, 12)}
_OLD_BITS = (8, 11, 28)
_TRAP_SHIFT = {"gfx12": 28}
_OLD_TRAP_SHIFT = 16
_VCC, _OLD_STATE = (106, 107), (TTMP + 7, TTMP + 11)
_HANDED_ON = {"gfx9": (*_VCC, *_OLD_STATE), "gfx10": (*_VCC, *_OLD_STATE)}
"""ttmp7 and ttmp11, which the first handler fills with counts of the fetch and flags of a debugger
(none here), and the wave's own VCC, which ROCr 5 reads to write it back. Their values are lost.
src: cwsr_trap_handler_gfx9.asm, gfx10.asm save_and_clear_ib_sts; ROCr 5.2.3 trap_handler.s"""
_PRIV = 1 << 5
"""STATUS.PRIV, as the handler finds it."""


def enter(context: Context, dispatch: Dispatch, fault: WaveFault, family: Family) -> None:
    """Run the handler of the queue's process for the wave, when there is one."""
    code, memory = _second_level(context)
    if not code:
        return
    chip = context.host.chip.family
    number = re.fullmatch(r"trap (\d+)", fault.detail) if fault.kind == "trap" else None
    trap = int(number[1]) << _TRAP_SHIFT.get(chip, _OLD_TRAP_SHIFT) if number else 0
    state = Privileged(
        registers={
            _PC_LO: fault.pc & _LOW, _PC_HI: fault.pc >> 32 & 0xFFFF | trap, _STATUS: _PRIV,
            _TMA_LO: memory & _LOW, _TMA_HI: memory >> 32,
            **dict.fromkeys(_HANDED_ON.get(chip, ()), 0),
        },
        flags=0 if number else _flags(fault, _BITS.get(chip, _OLD_BITS)),
        status=_PRIV,
        interrupt=context.host.message,
    )  # fmt: skip
    wave = replace(
        dispatch, entry=code, groups=(1, 1, 1), workgroup=(dispatch.lanes, 1, 1), items=None,
        lds_bytes=0, scratch_wave_bytes=0, max_steps=_MOST_STEPS, privileged=state,
    )  # fmt: skip
    try:
        report = execute(wave, context.waves, context.strict, family)
    except WaveFault as wrong:
        context.host.find("trap handler", str(wrong))
        return
    for violation in report.violations:
        context.host.find("trap handler", str(violation))
    if not state.halts:
        context.host.find("trap handler", "it ended the wave without s_rfe_b64")


def _second_level(context: Context) -> tuple[int, int]:
    """Addresses of the process's handler and of its memory; zeros where there is none.

    src: cwsr_trap_handler_gfx10.asm L_FETCH_2ND_TRAP: the first two pairs of dwords at its TMA
    """
    va = context.spec.kernel_trap_va
    if not va:
        return context.spec.trap
    try:
        code, memory = _TRAP_POINTERS.unpack(context.read(va, _TRAP_POINTERS.size))
    except MemoryFault as fault:
        context.host.find("trap handler", f"the kernel's own has no memory: {fault}")
        return 0, 0
    return code, memory


def _flags(fault: WaveFault, bits: tuple[int, int, int]) -> int:
    violation, illegal, xnack = bits
    if fault.kind == "illegal instruction":
        return 1 << illegal
    paged = fault.access in _PAGE and fault.kind != "misaligned"
    return 1 << violation | (1 << xnack if paged else 0)

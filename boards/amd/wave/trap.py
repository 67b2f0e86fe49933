"""What only a trap handler does: read the reason, write STATUS, interrupt the host, return.

A handler runs as a wave of its own, whose trap registers are filled: the wave that trapped never
goes on. src: RDNA2, RDNA3, RDNA4 and CDNA3 ISA, "Trap handler", S_RFE_B64, S_SENDMSG.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from boards.amd.isa.decode import Instruction
from boards.amd.wave.operands import UnsupportedOperand
from boards.amd.wave.scalar import END, Jump
from boards.amd.wave.state import Waves
from boards.amd.wave.types import Privileged
from boards.machine.arrays import Array

TTMP = 108
"""Code of ttmp0. src: LLVM SIRegisterInfo.td, gfx9 and later."""
FLAGS = frozenset({"HW_REG_TRAPSTS", "HW_REG_EXCP_FLAG_PRIV"})
STATUS = {"HW_REG_STATUS": 13, "HW_REG_STATE_PRIV": 14}
"""Bit HALT. src: ROCR trap_handler.s SQ_WAVE_STATUS_HALT_SHIFT, trap_handler_gfx12.s."""
FETCH = "HW_REG_IB_STS"
"""What ROCr 5's handlers put back before s_rfe_b64: counts of the instruction fetch, which a wave
that halts has no use for. src: trap_handler.s, cwsr_trap_handler_gfx10.asm restore_ib_sts
"""
_INTERRUPT, _DATA_MASK = 1, 0xFFFFFF
"""src: kfd_int_process_v11.c: 24 bits of M0 arrive."""
Run = Callable[[Waves], Any]


def bind_trap(inst: Instruction) -> Run | None:
    """A function for an instruction of trap handlers, or None."""
    if inst.name == "s_rfe_b64":
        return _return(inst)
    if inst.name == "s_sendmsg" and inst.fields["i"] == _INTERRUPT:
        return _interrupt(inst)
    if inst.meaning not in ("s_getreg_b32", "s_setreg_b32"):
        return None
    control = inst.fields["i"]
    name = inst.family.hwregs.get(control & 0x3F, "")
    if name == FETCH and inst.meaning == "s_setreg_b32":
        return _ignore
    if name not in FLAGS and name not in STATUS:
        return None
    low, mask = control >> 6 & 0x1F, (1 << (control >> 11) + 1) - 1
    if inst.meaning == "s_getreg_b32":
        return _get(inst, name, low, mask)
    return _set(inst, name, low, mask) if name in STATUS else None


def _state(w: Waves, what: str) -> Privileged:
    if w.privileged is None:
        raise UnsupportedOperand(f"{what} outside of a trap handler")
    return w.privileged


def _ignore(w: Waves) -> None:
    _state(w, FETCH)


def _get(inst: Instruction, name: str, low: int, mask: int) -> Run:
    target = inst.operands[0]

    def run(w: Waves) -> None:
        state = _state(w, name)
        value = state.flags if name in FLAGS else state.status
        w.put_scalar(target.code, np.full(w.n, value >> low & mask, np.uint32))

    return run


def _set(inst: Instruction, name: str, low: int, mask: int) -> Run:
    source = inst.operands[1].code

    def run(w: Waves) -> None:
        state = _state(w, name)
        value = int(w.scalar(source)[0]) & mask
        state.status = state.status & ~(mask << low) | value << low
        state.halts = bool(state.status >> STATUS[name] & 1)

    return run


def _interrupt(inst: Instruction) -> Run:
    """Outside of a handler the kernel would take M0 for an event, too: no compiler does that."""
    m0 = inst.family.m0

    def run(w: Waves) -> None:
        _state(w, "MSG_INTERRUPT").interrupt(int(w.scalar(m0)[0]) & _DATA_MASK)

    return run


def _return(inst: Instruction) -> Run:
    source = inst.operands[-1].code

    def run(w: Waves) -> Jump:
        state = _state(w, "s_rfe_b64")
        state.returned_to = _pair(w, source)
        if not state.halts:
            raise UnsupportedOperand("a trap handler that goes back to the program")
        return END

    return run


def _pair(w: Waves, code: int) -> int:
    words: list[Array] = [w.scalar(code), w.scalar(code + 1)]
    low, high = (int(word[0]) for word in words)
    return high << 32 | low

"""DPP around an instruction: which lane source 0 comes from, which lanes are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from boards.amd.isa.decode import VGPR, Dpp, Instruction, Operand
from boards.amd.isa.layout import DPP_SHARE
from boards.amd.wave.lanes import dpp_enabled, dpp_sources
from boards.amd.wave.operands import Reader, UnsupportedOperand, reader
from boards.amd.wave.state import Waves
from boards.machine.arrays import Array

Run = Callable[[Waves], Any]
_ONE_LANE, _WIDE = "row_newbcast", 2


def require_lanes(inst: Instruction) -> None:
    """Raises: UnsupportedOperand for a permutation that the family, or this instruction, lacks."""
    dpp, family = inst.dpp, inst.family
    if dpp is None:
        return
    if not dpp.lanes and dpp.control not in family.dpp_controls:
        raise UnsupportedOperand(f"DPP control {dpp.control:#x} of {family.name}")
    # src: llvm AMDGPUAsmParser.cpp, "DP ALU dpp only supports row_newbcast": gfx90a and later of
    # gfx9; no 64-bit operand elsewhere.
    shares = family.row_share == _ONE_LANE and not dpp.lanes and dpp.control in DPP_SHARE
    if not shares and any(o.code >= VGPR and o.dwords == _WIDE for o in inst.operands):
        raise UnsupportedOperand(f"{inst.name} with DPP and an operand of 64 bits")


def permuted(dpp: Dpp | None, read: Reader) -> Reader:
    """Source 0 through DPP: lanes that are out of bounds or off read 0 with bound_ctrl."""
    if dpp is None:
        return read

    def apply(w: Waves) -> Array:
        index, inside = dpp_sources(dpp, w.lanes)
        value = read(w)[:, index]
        if not dpp.bound_control:
            return value
        usable = inside & (dpp.fetch_inactive | w.enabled[:, index])
        return np.where(usable, value, value.dtype.type(0))

    return apply


def fetch(inst: Instruction, o: Operand, kind: str) -> Reader:
    """An operand as stored, source 0 through DPP if the instruction has it."""
    read = reader(inst, o, kind)
    return permuted(inst.dpp, read) if o.field == "a" else read


def written_lanes(w: Waves, dpp: Dpp) -> Array:
    """EXEC, and of it what DPP's masks and bounds let be written, (n, lanes)."""
    index, inside = dpp_sources(dpp, w.lanes)
    allowed: Array = w.enabled & dpp_enabled(dpp, w.lanes)
    if not dpp.bound_control:
        allowed &= inside & (dpp.fetch_inactive | w.enabled[:, index])
    return allowed


def under(dpp: Dpp, run: Run) -> Run:
    """`run` with only the lanes on that DPP lets be written."""

    def narrowed(w: Waves) -> None:
        w.narrowed = written_lanes(w, dpp)
        try:
            run(w)
        finally:
            w.narrowed = None

    return narrowed

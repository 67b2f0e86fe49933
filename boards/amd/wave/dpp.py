"""DPP around an instruction: which lane source 0 comes from, which lanes are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from boards.amd.isa.decode import Dpp, Instruction, Operand
from boards.amd.wave.lanes import dpp_enabled, dpp_sources
from boards.amd.wave.operands import Reader, reader
from boards.amd.wave.state import Waves
from boards.machine.arrays import Array

Run = Callable[[Waves], Any]


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

"""Integer dot products: sums of products of the parts of two dwords."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from boards.amd.isa.decode import Instruction
from boards.amd.wave.dpp import fetch
from boards.amd.wave.operands import UnsupportedOperand, writer
from boards.amd.wave.state import Waves
from boards.machine.arrays import Array

Run = Callable[[Waves], Any]
_NAME = re.compile(r"v_dot(\d)(c?)_([iu])32_(iu|i|u)(\d+)$")


def bind_dot(inst: Instruction) -> Run | None:
    """A function for a dot product of integers, or None."""
    match = _NAME.match(inst.meaning)
    if match is None:
        return None
    target, *sources = inst.operands
    if match[2]:
        sources.append(target)
    f, bits = inst.fields, int(match[5])
    _plain_halves(inst, int(match[1]) == 2)
    mixed = match[4] == "iu"
    signs = (f["neg"] & 1, f["neg"] >> 1 & 1) if mixed else (match[4] == "i",) * 2
    reads = [fetch(inst, o, "u32") for o in sources]
    put = writer(target, "u32")
    signed = match[3] == "i"
    low, high = (-(1 << 31), (1 << 31) - 1) if signed else (0, (1 << 32) - 1)

    def run(w: Waves) -> None:
        x, y, z = (read(w) for read in reads)
        total = (z.view(np.int32) if signed else z).astype(np.int64)
        for at in range(0, int(match[1]) * bits, bits):
            total = total + _part(x, at, bits, signs[0]) * _part(y, at, bits, signs[1])
        if f.get("clamp"):
            total = total.clip(low, high)
        put(w, total.astype(np.uint32), w.mask)

    return run


def _plain_halves(inst: Instruction, halves: bool) -> None:
    """Selections of halves, which only products of 16-bit values could have."""
    f = inst.fields
    chosen = f.get("op_sel") or (f.get("hi_ab", 3), f.get("hi_c", 1)) != (3, 1)
    if inst.encoding == "VOP3P" and halves and chosen:
        raise UnsupportedOperand(f"modifiers of {inst.meaning}")


def _part(x: Array, low: int, bits: int, signed: int) -> Array:
    """A bit field of every element as int64."""
    value = (x >> np.uint32(low) & np.uint32((1 << bits) - 1)).astype(np.int64)
    return np.where(value >> (bits - 1) != 0, value - (1 << bits), value) if signed else value

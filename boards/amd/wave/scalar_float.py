"""Floats in scalar registers (gfx11.5, gfx12): one value a wave, under the same MODE as vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from boards.amd.isa import floats
from boards.amd.isa.decode import Instruction
from boards.amd.isa.scalar_ops import SCALAR
from boards.amd.isa.vector_ops import OPS
from boards.amd.wave.operands import UnsupportedOperand
from boards.amd.wave.scalar import put_result, scalar_reader
from boards.amd.wave.state import Waves
from boards.machine.arrays import Array

Run = Callable[[Waves], Any]
_FLOATS = frozenset({"f16", "f32"})
_TRANSCENDENTAL = "v_s_"
# src: RDNA3.5 ISA 3.3.1 and RDNA4 ISA 3.5.1, MODE: rounding of f32 1:0, of f16 3:2; denormals of
# src: f32 5:4, of f16 7:6.
_ROUND = {"f32": 0, "f16": 2}
_INPUT = {"f32": 4, "f16": 6}


def bind_scalar_float(inst: Instruction) -> Run | None:
    """A function for a scalar float instruction, or None when it is another one."""
    if inst.name.startswith(_TRANSCENDENTAL):
        return _transcendental(inst)
    op = SCALAR.get(inst.meaning)
    if op is None or not _FLOATS & {*op.sources, op.result}:
        return None
    only = op.scc == "only"
    target = inst.operands[0]
    sources = list(inst.operands if only else inst.operands[1:])
    if op.accumulate:
        sources.append(target)
    reads = [_flushed(scalar_reader(inst, o, k), k)
             for o, k in zip(sources, op.sources, strict=True)]  # fmt: skip

    def run(w: Waves) -> None:
        result = np.asarray(op.function(*[read(w) for read in reads]))
        if only:
            w.scc[w.sel] = result
        else:
            put_result(w, target, op.result, _rounded(w, result, op.result))

    return run


def _transcendental(inst: Instruction) -> Run | None:
    """v_s_exp_f32 and others: the vector unit's functions of a scalar."""
    kind = inst.name[-3:]
    op = OPS.get("v_" + inst.name[len(_TRANSCENDENTAL) :])
    if op is None:
        return None
    f = inst.fields
    if f["clamp"] or f["omod"] or f["op_sel"]:
        raise UnsupportedOperand(f"modifiers of {inst.name}")
    target, source = inst.operands
    read = _flushed(scalar_reader(inst, source, kind), kind)

    def run(w: Waves) -> None:
        value = read(w)
        value = np.abs(value) if f["abs"] & 1 else value
        value = -value if f["neg"] & 1 else value
        put_result(w, target, kind, _rounded(w, op.function(value), kind))

    return run


def _flushed(read: Run, kind: str) -> Run:
    if kind not in _FLOATS:
        return read
    bit = np.uint32(1 << _INPUT[kind])

    def apply(w: Waves) -> Array:
        value: Array = read(w)
        if w.plain_mode:
            return value
        return np.where(w.mode[w.sel] & bit == 0, floats.flush(value), value)

    return apply


def _rounded(w: Waves, value: Array, kind: str) -> Array:
    """A result under MODE: rounded to nearest only, denormals flushed where they are off."""
    if kind not in _FLOATS or w.plain_mode:
        return value
    mode = w.mode[w.sel]
    if (mode >> np.uint32(_ROUND[kind]) & np.uint32(3)).any():
        raise UnsupportedOperand("a scalar float in a directed rounding mode")
    bit = np.uint32(2 << _INPUT[kind])
    return np.where(mode & bit == 0, floats.flush(value), value)

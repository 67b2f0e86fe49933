"""Packed f32 of CDNA: one operation on each half of a register pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from boards.amd.isa.decode import VGPR, Instruction, Operand
from boards.amd.isa.vector_ops import OPS
from boards.amd.wave.operands import (
    Reader,
    UnsupportedOperand,
    constant,
    flushed,
    raw_bits,
    reader,
    settled,
    with_signs,
)
from boards.amd.wave.state import Waves
from boards.machine.arrays import Array

Run = Callable[[Waves], Any]


def _half(inst: Instruction, o: Operand, kind: str, *, high: bool) -> Reader:
    """The lower or upper dword of a pair; constants are the same in both halves."""
    if constant(o.code, "u32", inst.literal) is not None:
        return reader(inst, o._replace(dwords=1), kind)
    return reader(inst, o._replace(code=o.code + high, dwords=1), kind)


def _arithmetic(inst: Instruction) -> Run:
    """v_pk_fma_f32 and its like: op_sel picks dwords for the lower result, op_sel_hi the upper."""
    # src: CDNA3 ISA 6.7.1, packed math: OP_SEL, OP_SEL_HI, NEG, NEG_HI select dwords and signs.
    op = OPS[inst.meaning.replace("v_pk_", "v_")]
    f = inst.fields
    target, *sources = inst.operands
    picks = (f["op_sel"], f["hi_ab"] | f["hi_c"] << 2)
    signs = (f["neg"], f["neg_hi"])
    if f["clamp"]:
        raise UnsupportedOperand(f"clamp of {inst.name}")
    rows = [
        [
            with_signs(
                flushed(_half(inst, o, "f32", high=bool(pick >> i & 1)), "f32"),
                "f32", bool(sign >> i & 1), False,
            )
            for i, o in enumerate(sources)
        ]
        for pick, sign in zip(picks, signs, strict=True)
    ]  # fmt: skip

    def run(w: Waves) -> None:
        results = [op.function(*[read(w) for read in row]) for row in rows]
        _put(w, target, [settled(w, value, "f32", inst.name) for value in results])

    return run


def _move(inst: Instruction) -> Run:
    """v_pk_mov_b32: a dword of source 0 below, a dword of source 1 above."""
    f = inst.fields
    target, a, b = inst.operands
    reads = (
        _half(inst, a, "u32", high=bool(f["op_sel"] & 1)),
        _half(inst, b, "u32", high=bool(f["op_sel"] & 2)),
    )

    def run(w: Waves) -> None:
        _put(w, target, [read(w).copy() for read in reads])

    return run


def _put(w: Waves, target: Operand, values: list[Array]) -> None:
    for i, value in enumerate(values):
        kind = "u32" if value.dtype == np.uint32 else "f32"
        w.put(target.code - VGPR + i, raw_bits(value, kind), w.mask)


PAIRS: dict[str, Callable[[Instruction], Run]] = {
    "v_pk_fma_f32": _arithmetic,
    "v_pk_mul_f32": _arithmetic,
    "v_pk_add_f32": _arithmetic,
    "v_pk_mov_b32": _move,
}

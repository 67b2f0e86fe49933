"""Vector instructions of gfx950 that exchange rows of lanes, or take any function of three bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from boards.amd.isa.decode import Instruction
from boards.amd.wave.operands import Reader, UnsupportedOperand, high_half, reader, writer
from boards.amd.wave.state import Waves
from boards.machine.arrays import Array

Run = Callable[[Waves], Any]
_ROW = 16
_CHOICES = 8


def bind_row_swap(inst: Instruction) -> Run:
    """v_permlane16_swap and v_permlane32_swap: odd rows (or halves) of one, even of the other."""
    # src: LLVM AMDGPUUsage, llvm.amdgcn.permlane16.swap and .permlane32.swap.
    first, second = inst.operands
    reads = [reader(inst, o, "u32") for o in (first, second)]
    puts = [writer(o, "u32") for o in (first, second)]
    step = 2 * _ROW if "permlane32" in inst.meaning else _ROW
    fetch_inactive, bound = (bool(inst.fields.get("op_sel", 0) & bit) for bit in (1, 2))

    def run(w: Waves) -> None:
        a, b = (read(w).copy() for read in reads)
        lane, active = np.arange(w.lanes), w.active
        upper = lane // step % 2 == 1
        for put, mine, other, moved, source in (
            (puts[0], a, b, upper, lane - step), (puts[1], b, a, ~upper, lane + step),
        ):  # fmt: skip
            at = np.where(moved, source, lane)
            usable = np.ones_like(active) if fetch_inactive else active[:, at] | ~moved
            value = np.where(moved, other[:, at], mine)
            if bound:
                value, usable = np.where(usable, value, np.uint32(0)), np.ones_like(usable)
            put(w, value, active & usable)

    return run


def bind_bit_function(inst: Instruction) -> Run:
    """v_bitop3: bit i of the table is the result where source 0, 1 and 2 have the bits of i."""
    # src: LLVM VOPInstructions.td, VOP3e BITOP3: bits 7:6 in OMOD, 5:3 in ABS, 2:0 in NEG.
    target, *sources = inst.operands
    f = inst.fields
    table = f["omod"] << 6 | f["abs"] << 3 | f["neg"]
    short = inst.meaning.endswith("b16")
    reads = [_source(inst, i, short) for i in range(len(sources))]
    put = writer(target, "u16" if short else "u32", high=bool(f["op_sel"] >> 3))
    if f["clamp"] or (f["op_sel"] and not short):
        raise UnsupportedOperand(f"modifiers of {inst.name}")

    def run(w: Waves) -> None:
        a, b, c = (read(w) for read in reads)
        result: Array = np.zeros_like(a & b & c)
        for i in range(_CHOICES):
            if table >> i & 1:
                x, y, z = (v if i >> place & 1 else ~v for v, place in ((a, 2), (b, 1), (c, 0)))
                result = result | (x & y & z)
        put(w, result, w.mask)

    return run


def _source(inst: Instruction, number: int, short: bool) -> Reader:
    o = inst.operands[1 + number]
    if not short:
        return reader(inst, o, "u32")
    if inst.fields["op_sel"] >> number & 1:
        return high_half(reader(inst, o, "u32"), "u16")
    return reader(inst, o, "u16")


SWAPS: dict[str, Callable[[Instruction], Run]] = {
    "v_permlane16_swap_b32": bind_row_swap,
    "v_permlane32_swap_b32": bind_row_swap,
    "v_bitop3_b32": bind_bit_function,
    "v_bitop3_b16": bind_bit_function,
}
"""By mnemonic."""

"""SDWA: sources that are bytes or words of a register, results put into a part of one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from boards.amd.isa.decode import VGPR, Instruction, Operand, Sdwa
from boards.amd.wave.operands import (
    BITS,
    DTYPES,
    Reader,
    UnsupportedOperand,
    raw_bits,
    reader,
    writer,
)
from boards.amd.wave.state import Waves
from boards.machine.arrays import Array

Put = Callable[[Waves, Array, "Array | None"], None]
_DWORD, _FIRST_WORD = 6, 4
_SIGN, _KEEP = 1, 2
_WORD_BITS, _BYTE_BITS = 16, 8
_TWO_RESULTS = frozenset({"v_cvt_pk_f32_fp8", "v_cvt_pk_f32_bf8"})
"""The only instructions with SDWA and an operand of 64 bits: their results are two registers."""
# src: llvm VOPInstructions.td, getHasSDWA: no 64-bit operands; VOP1Instructions.td,
# VOPProfile_Base_CVT_PK_F32_F8_SDWA; CDNA3 ISA, V_CVT_PK_F32_FP8: D0[31:0] and D0[63:32].


def _part(select: int) -> tuple[int, int]:
    """Lowest bit and width of a selection."""
    if select >= _FIRST_WORD:
        return (select - _FIRST_WORD) * _WORD_BITS, _WORD_BITS
    return select * _BYTE_BITS, _BYTE_BITS


def part_reader(inst: Instruction, o: Operand, kind: str, sdwa: Sdwa) -> Reader:
    """The selected part of source 0 or 1, extended by zeros or its sign, as `kind`.

    Raises: UnsupportedOperand for a source of 64 bits.
    """
    if BITS[kind] > 32:
        raise UnsupportedOperand(f"{inst.name} with SDWA and a source of 64 bits")
    number = "ab".index(o.field)
    select, extend = sdwa.sources[number], sdwa.sext >> number & 1
    if select == _DWORD:
        return reader(inst, o, kind)
    whole = reader(inst, o, "u32")
    low, width = _part(select)
    up, down = np.uint32(32 - width - low), np.uint32(32 - width)

    def read(w: Waves) -> Array:
        raised = np.ascontiguousarray(whole(w) << up)
        value = (raised.view(np.int32) >> down.astype(np.int32)).view(np.uint32) if extend else (
            raised >> down
        )  # fmt: skip
        narrow = value.astype(f"u{BITS[kind] // 8}") if BITS[kind] < 32 else value
        return narrow.view(DTYPES[kind])

    return read


def part_writer(inst: Instruction, o: Operand, kind: str, sdwa: Sdwa) -> Put:
    """Put a result into the selected part; the rest becomes zeros, the sign, or stays.

    Raises: UnsupportedOperand for a result of 64 bits, where no chip has the form.
    """
    if BITS[kind] > 32:
        if inst.name not in _TWO_RESULTS or sdwa.target != _DWORD:
            raise UnsupportedOperand(f"{inst.name} with SDWA and a result of 64 bits")
        return writer(o, kind)
    register = o.code - VGPR
    low, width = _part(sdwa.target) if sdwa.target < _DWORD else (0, 32)
    mask = np.uint32(((1 << width) - 1) << low)

    def put(w: Waves, value: Array, lanes: Array | None) -> None:
        bits = np.broadcast_to(raw_bits(value, kind).astype(np.uint32), (w.n, w.lanes))
        placed = bits << np.uint32(low) & mask
        if sdwa.unused == _KEEP:
            placed = placed | (w.vgpr[register][w.sel] & ~mask)
        elif sdwa.unused == _SIGN and width < 32:
            above = np.uint32(0xFFFFFFFF << (low + width) & 0xFFFFFFFF)
            negative = placed >> np.uint32(low + width - 1) & np.uint32(1)
            placed = np.where(negative != 0, placed | above, placed)
        w.put(register, placed, lanes)

    return put

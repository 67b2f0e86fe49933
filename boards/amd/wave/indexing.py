"""gfx9's register-index mode: s_set_gpr_idx_*, and what vector instructions do meanwhile."""

from __future__ import annotations

import numpy as np

from boards.amd.isa.decode import VGPR, Instruction
from boards.amd.wave.operands import UnsupportedOperand, reader, writer
from boards.amd.wave.relative import read_far, write_far
from boards.amd.wave.scalar import Run, scalar_reader
from boards.amd.wave.state import Waves
from boards.machine.arrays import Array

_INDEX, _SELECT_LOW, _SELECT = np.uint32(0xFF), np.uint32(12), np.uint32(0xF)
_SOURCE, _TARGET = 1, 8
"""Bits of M0[15:12]: source 0 and the destination are counted from the index."""
_PREFIX = "s_set_gpr_idx_"
_FAMILIES = ("gfx90a", "gfx942", "gfx950")


def bind_indexing(inst: Instruction) -> Run | None:
    """A function for s_set_gpr_idx_*, or None."""
    # src: "Vega" 7nm ISA 3.8.1, 12.3: MODE.gpr_idx_en, M0[7:0] the index, M0[15:12] what it moves.
    if not inst.name.startswith(_PREFIX):
        return None
    action = inst.name.removeprefix(_PREFIX)
    if action == "off":
        return lambda w: w.index_registers(on=False)
    m0 = inst.family.m0
    if action == "mode":
        select = np.uint32((inst.fields["i"] & 0xF) << 12)
        return lambda w: w.put_scalar(m0, w.scalar(m0) & ~(_SELECT << _SELECT_LOW) | select)
    read = scalar_reader(inst, inst.operands[0], "u32")
    if action == "idx":
        return lambda w: w.put_scalar(m0, w.scalar(m0) & ~_INDEX | read(w) & _INDEX)
    select = np.uint32((inst.fields["b"] & 0xF) << 12)

    def turn_on(w: Waves) -> None:
        kept = w.scalar(m0) & ~(_INDEX | _SELECT << _SELECT_LOW)
        w.put_scalar(m0, kept | read(w) & _INDEX | select)
        w.index_registers(on=True)

    return turn_on


def indexable(inst: Instruction, plain: Run | None) -> Run | None:
    """A vector instruction that obeys the index mode; only v_mov_b32 is needed by compilers."""
    if plain is None or inst.family.name not in _FAMILIES:
        return plain
    moves = inst.meaning == "v_mov_b32" and inst.dpp is None and inst.sdwa is None
    indexed = _move(inst) if moves else _refuse(inst)
    return lambda w: indexed(w) if w.indexing else plain(w)


def _refuse(inst: Instruction) -> Run:
    def run(w: Waves) -> None:
        raise UnsupportedOperand(f"{inst.name} while registers are indexed")

    return run


def _move(inst: Instruction) -> Run:
    target, source = inst.operands
    near, put, m0 = reader(inst, source, "u32"), writer(target, "u32"), inst.family.m0

    def far(w: Waves, register: int, bit: int) -> Array:
        value = w.scalar(m0)
        chosen = value >> _SELECT_LOW & np.uint32(bit) != 0
        return register + np.where(chosen, value & _INDEX, 0).astype(np.intp)

    def run(w: Waves) -> None:
        if source.code >= VGPR:
            value = read_far(w, inst, far(w, source.code - VGPR, _SOURCE))
        else:
            value = near(w)
        if (w.scalar(m0) >> _SELECT_LOW & np.uint32(_TARGET)).any():
            write_far(w, inst, far(w, target.code - VGPR, _TARGET), value)
        else:
            put(w, value, w.mask)

    return run

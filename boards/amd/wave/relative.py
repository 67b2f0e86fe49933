"""Registers named through M0: v_movrel*, v_swaprel, s_movrel*."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from boards.amd.isa.decode import VGPR, Instruction, Operand
from boards.amd.wave.operands import Reader, UnsupportedOperand, reader, writer
from boards.amd.wave.scalar import Run, put_result, scalar_reader
from boards.amd.wave.state import Waves
from boards.machine.arrays import Array

Offsets = Callable[[Waves], tuple[Array, Array]]
_FIELD = np.uint32(0x3FF)
_HIGH = np.uint32(16)


def bind_relative(inst: Instruction) -> Run | None:
    """A function for an instruction that indexes registers, or None."""
    if inst.meaning in VECTOR:
        if inst.dpp is not None or inst.sdwa is not None:
            raise UnsupportedOperand(f"{inst.meaning} with DPP or SDWA")
        return _swap(inst) if inst.meaning == "v_swaprel_b32" else _move(inst)
    if inst.meaning.startswith("s_movrel"):
        return _scalar_move(inst)
    return None


def _offsets(inst: Instruction) -> Offsets:
    """How far from the named registers source and destination are, (n,) each."""
    # src: RDNA2 ISA 6.4, V_MOVREL*, V_SWAPREL: M0; the `2` forms and swaps split it in two,
    # the source's offset in 9:0 and the destination's in 25:16.
    m0 = inst.family.m0
    from_source, to_target = VECTOR.get(inst.meaning, (False, False))
    split = inst.meaning.endswith("_2_b32") or inst.meaning == "v_swaprel_b32"

    def find(w: Waves) -> tuple[Array, Array]:
        value = w.scalar(m0)
        if split:
            return (value & _FIELD).astype(np.intp), (value >> _HIGH & _FIELD).astype(np.intp)
        far = value.astype(np.intp)
        return far * from_source, far * to_target

    return find


def _vector(o: Operand) -> int:
    if o.code < VGPR:
        raise UnsupportedOperand("a relative source that is no vector register")
    return o.code - VGPR


def _near(inst: Instruction, o: Operand) -> Reader:
    return reader(inst, o, "u32")


def _move(inst: Instruction) -> Run:
    target, source = inst.operands
    from_source, to_target = VECTOR[inst.meaning]
    offsets, put = _offsets(inst), writer(target, "u32")
    first, near = (_vector(source) if from_source else 0), _near(inst, source)

    def run(w: Waves) -> None:
        source_far, target_far = offsets(w)
        value = read_far(w, inst, first + source_far) if from_source else near(w)
        if to_target:
            write_far(w, inst, _vector(target) + target_far, value)
        else:
            put(w, value, w.mask)

    return run


def _swap(inst: Instruction) -> Run:
    first, second = (_vector(o) for o in inst.operands)
    offsets = _offsets(inst)

    def run(w: Waves) -> None:
        source_far, target_far = offsets(w)
        one, other = read_far(w, inst, first + target_far), read_far(w, inst, second + source_far)
        write_far(w, inst, first + target_far, other)
        write_far(w, inst, second + source_far, one)

    return run


def read_far(w: Waves, inst: Instruction, registers: Array) -> Array:
    """One register for each wave, (n, lanes)."""
    if w.observer is not None:
        w.observer.far_read(w, inst, registers)
    answer: Array = w.vgpr[registers, w.waves]
    return answer


def write_far(w: Waves, inst: Instruction, registers: Array, value: Array) -> None:
    """Write one register of each wave in the lanes that EXEC enables."""
    old = w.vgpr[registers, w.waves]
    w.vgpr[registers, w.waves] = np.where(w.active, value, old)
    if w.observer is not None:
        w.observer.far_write(w, registers)


def _scalar_move(inst: Instruction) -> Run | None:
    """s_movrels reads, s_movreld writes the scalar register M0 further on."""
    target, source = inst.operands
    m0, wide = inst.family.m0, inst.meaning.endswith("b64")
    kind = "u64" if wide else "u32"
    read = scalar_reader(inst, source, kind)
    if inst.meaning.startswith("s_movrelsd"):
        return None

    def fetch(w: Waves) -> None:
        at = source.code + w.scalar(m0).astype(np.intp)
        value = w.sgpr[at, w.waves].astype(np.uint64)
        if wide:
            value |= w.sgpr[at + 1, w.waves].astype(np.uint64) << np.uint64(32)
        put_result(w, target, kind, value)

    def store(w: Waves) -> None:
        at = target.code + w.scalar(m0).astype(np.intp)
        value = read(w).astype(np.uint64)
        for i in range(2 if wide else 1):
            part = value >> np.uint64(32 * i) & np.uint64(0xFFFFFFFF)
            w.sgpr[at + i, w.waves] = part.astype(np.uint32)
            if w.observer is not None:
                w.observer.far_scalar_write(w, at + i)

    return fetch if inst.meaning.startswith("s_movrels_") else store


VECTOR = {
    "v_movrels_b32": (True, False), "v_movreld_b32": (False, True),
    "v_movrelsd_b32": (True, True), "v_movrelsd_2_b32": (True, True),
    "v_swaprel_b32": (True, True),
}  # fmt: skip
"""Whether the source, and whether the destination, is counted from M0."""

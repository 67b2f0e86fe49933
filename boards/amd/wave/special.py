"""Vector instructions that read across lanes, or packed halves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from boards.amd.isa import floats
from boards.amd.isa.decode import VGPR, Instruction
from boards.amd.isa.vector_ops import OPS
from boards.amd.wave.dot import bind_dot
from boards.amd.wave.dpp import fetch, under
from boards.amd.wave.fp8 import CONVERSIONS
from boards.amd.wave.lanes import permlane_sources
from boards.amd.wave.matrix import MATRIX
from boards.amd.wave.matrix12 import MATRIX12
from boards.amd.wave.mfma import bind_mfma
from boards.amd.wave.operands import (
    DTYPES,
    Reader,
    UnsupportedOperand,
    Writer,
    flushed,
    raw_bits,
    reader,
    settled,
    with_signs,
    writer,
)
from boards.amd.wave.pairs import PAIRS
from boards.amd.wave.scaled import bind_scaled
from boards.amd.wave.state import Waves
from boards.amd.wave.swaps import SWAPS
from boards.amd.wave.vector import Run
from boards.machine.arrays import Array

_ROW, _HALF_WAVE = 16, 32
_WITH_DPP = ("v_fma_mix", "v_dot", "v_mbcnt", "v_pk_fmac_f16", "v_cvt_f32_fp8", "v_cvt_f32_bf8")
_RENAMED = {
    "v_pk_add_i16": "v_add_nc_i16", "v_pk_sub_i16": "v_sub_nc_i16", "v_pk_add_u16": "v_add_nc_u16",
    "v_pk_sub_u16": "v_sub_nc_u16",
}  # fmt: skip


def bind_special(inst: Instruction) -> Run | None:
    """A function for an instruction that is not elementwise, or None."""
    if inst.dpp is None:
        return _bind(inst)
    if not inst.meaning.startswith(_WITH_DPP):
        raise UnsupportedOperand(f"{inst.meaning} with DPP")
    run = _bind(inst)
    return under(inst.dpp, run) if run is not None else None


def _bind(inst: Instruction) -> Run | None:
    name = inst.meaning
    if inst.sdwa is not None:
        raise UnsupportedOperand(f"{name} with SDWA")
    if name in _SPECIAL:
        return _SPECIAL[name](inst)
    if inst.encoding in ("VOP3M", "VOP3PX") or "accvgpr" in name:
        return bind_mfma(inst)
    if name.startswith("v_cvt_scalef32"):
        return bind_scaled(inst)
    if name in PAIRS:
        return PAIRS[name](inst)
    if name.startswith("v_pk_"):
        return _packed(inst)
    if name.startswith("v_fma_mix"):
        return _mix(inst)
    other = MATRIX.get(name) or MATRIX12.get(name) or CONVERSIONS.get(name)
    return other(inst) if other is not None else bind_dot(inst)


def first_lane(w: Waves) -> Array:
    """The lowest active lane of each wave, lane 0 when none is."""
    mask = w.mask
    return np.zeros(w.n, np.intp) if mask is None else mask.argmax(axis=1)


def _read_first(inst: Instruction) -> Run:
    target, source = inst.operands
    read = reader(inst, source, "u32")

    def run(w: Waves) -> None:
        value = np.broadcast_to(read(w), (w.n, w.lanes))
        w.put_scalar(target.code, value[np.arange(w.n), first_lane(w)])

    return run


def _lane_select(inst: Instruction, w: Waves) -> Array:
    select = inst.operands[2]
    value = reader(inst, select, "u32")(w)
    return np.broadcast_to(value[:, 0], (w.n,)) & np.uint32(w.lanes - 1)


def _read_lane(inst: Instruction) -> Run:
    target, source, _ = inst.operands
    read = reader(inst, source, "u32")

    def run(w: Waves) -> None:
        w.put_scalar(target.code, read(w)[np.arange(w.n), _lane_select(inst, w)])

    return run


def _write_lane(inst: Instruction) -> Run:
    target, source, _ = inst.operands
    read = reader(inst, source, "u32")

    def run(w: Waves) -> None:
        lanes = _lane_select(inst, w)
        value = np.broadcast_to(read(w)[:, 0], (w.n,))
        w.vgpr[target.code - VGPR, w.waves, lanes] = value

    return run


def _permlane(inst: Instruction) -> Run:
    target, source, low, high = inst.operands
    read, lows, highs = (reader(inst, o, "u32") for o in (source, low, high))
    fetch_inactive, bound = inst.fields["op_sel"] & 1, inst.fields["op_sel"] & 2
    put = writer(target, "u32")
    cross = "x16" in inst.meaning

    def run(w: Waves) -> None:
        index = permlane_sources(
            np.broadcast_to(lows(w)[:, 0], (w.n,)),
            np.broadcast_to(highs(w)[:, 0], (w.n,)),
            w.lanes,
            cross=cross,
        )
        _put_permuted(w, put, read, index, bool(fetch_inactive), bool(bound))

    return run


def _permlane_var(inst: Instruction) -> Run:
    """As permlane16, with the lane to read in a vector register."""
    target, source, picks = inst.operands
    read, pick = reader(inst, source, "u32"), reader(inst, picks, "u32")
    fetch_inactive, bound = inst.fields["op_sel"] & 1, inst.fields["op_sel"] & 2
    put = writer(target, "u32")
    row_of = np.intp(_ROW if "x16" in inst.meaning else 0)

    def run(w: Waves) -> None:
        rows = (np.arange(w.lanes) & ~(_ROW - 1)) ^ row_of
        index = rows + (np.broadcast_to(pick(w), (w.n, w.lanes)) & np.uint32(_ROW - 1))
        _put_permuted(w, put, read, index.astype(np.intp), bool(fetch_inactive), bool(bound))

    return run


def _put_permuted(
    w: Waves, put: Writer, read: Reader, index: Array, fetch_inactive: bool, bound: bool
) -> None:
    """Write what lanes `index` hold; lanes that are off give 0 with `bound`, else nothing."""
    value = np.take_along_axis(np.broadcast_to(read(w), (w.n, w.lanes)), index, axis=1)
    active = w.active
    usable = np.take_along_axis(active, index, axis=1) | fetch_inactive
    if bound:
        value, usable = np.where(usable, value, np.uint32(0)), np.ones_like(usable)
    put(w, value, active & usable)


def _permlane64(inst: Instruction) -> Run:
    target, source = inst.operands
    read, put = reader(inst, source, "u32"), writer(target, "u32")

    def run(w: Waves) -> None:
        # src: RDNA3 ISA, V_PERMLANE64_B32: "treated as scalar NOP in wave32".
        if w.lanes > _HALF_WAVE:
            put(w, np.roll(read(w), _HALF_WAVE, axis=1), w.mask)

    return run


def _mbcnt(inst: Instruction) -> Run:
    target, bits, base = inst.operands
    read_bits, read_base = fetch(inst, bits, "u32"), fetch(inst, base, "u32")
    put = writer(target, "u32")
    first = 32 if "_hi_" in inst.meaning else 0

    def run(w: Waves) -> None:
        below = (np.arange(w.lanes) - first).clip(0, 32).astype(np.uint64)
        mask = ((np.uint64(1) << below) - np.uint64(1)).astype(np.uint32)
        count = np.bitwise_count(read_bits(w) & mask).astype(np.uint32)
        put(w, count + read_base(w), w.mask)

    return run


def _swap(inst: Instruction) -> Run:
    first, second = inst.operands
    reads = [reader(inst, o, "u32") for o in (first, second)]
    puts = [writer(o, "u32") for o in (first, second)]

    def run(w: Waves) -> None:
        a, b = (read(w).copy() for read in reads)
        puts[0](w, b, w.mask)
        puts[1](w, a, w.mask)

    return run


def _half(read: Reader, kind: str, *, high: bool) -> Reader:
    shift = np.uint32(16 if high else 0)
    return lambda w: (read(w) >> shift).astype(np.uint16).view(DTYPES[kind])


def _packed(inst: Instruction) -> Run | None:
    """v_pk_*: one 16-bit operation on each half, halves and signs chosen by modifiers."""
    short = _RENAMED.get(inst.meaning, inst.meaning.replace("v_pk_", "v_"))
    op = OPS.get(short)
    if op is None:
        return None
    f = inst.fields
    target, *sources = inst.operands
    if op.accumulate:
        sources.append(target)
    high_bits = f.get("hi_ab", 3) | f.get("hi_c", 1) << 2
    halves: list[list[Reader]] = []
    for select, negate in ((f.get("op_sel", 0), f.get("neg", 0)), (high_bits, f.get("neg_hi", 0))):
        row = []
        for i, (o, kind) in enumerate(zip(sources, op.sources, strict=True)):
            read = _half(_packed_source(inst, o), kind, high=bool(select >> i & 1))
            read = flushed(read, kind) if kind == "f16" else read
            row.append(with_signs(read, kind, kind == "f16" and bool(negate >> i & 1), False))
        halves.append(row)
    clamp = bool(f.get("clamp"))
    put = writer(target, "u32")
    kind = op.results[0]

    def run(w: Waves) -> None:
        low, high = (_limit(op.function, [r(w) for r in row], kind, clamp) for row in halves)
        if kind == "f16":
            low, high = (settled(w, half, kind, inst.name) for half in (low, high))
        packed = raw_bits(low, kind).astype(np.uint32)
        put(w, packed | raw_bits(high, kind).astype(np.uint32) << np.uint32(16), w.mask)

    return run


def _packed_source(inst: Instruction, o: Any) -> Reader:
    return fetch(inst, o, "p" if inst.meaning.endswith("f16") else "u32")


def _limit(function: Callable[..., Array], values: list[Array], kind: str, clamp: bool) -> Array:
    if not clamp:
        return function(*values)
    if kind == "f16":
        return np.nan_to_num(function(*values), nan=0.0).clip(0, 1).astype(np.float16)
    info = np.iinfo(DTYPES[kind])
    wide = function(*[v.astype(np.int64) for v in values])
    return np.asarray(wide.clip(info.min, info.max).astype(DTYPES[kind]))


def _mix(inst: Instruction) -> Run:
    """v_fma_mix*: f32 fused multiply-add whose sources may be halves of a register."""
    f = inst.fields
    target, *sources = inst.operands
    halves = f["hi_ab"] | f["hi_c"] << 2
    reads = []
    for i, o in enumerate(sources):
        if halves >> i & 1:
            raw = _half(fetch(inst, o, "p"), "f16", high=bool(f["op_sel"] >> i & 1))
            read = _to_f32(flushed(raw, "f16"))
        else:
            read = flushed(fetch(inst, o, "f32"), "f32")
        signs = bool(f["neg"] >> i & 1), bool(f["neg_hi"] >> i & 1)
        reads.append(with_signs(read, "f32", *signs))
    to_half = inst.meaning != "v_fma_mix_f32"
    kind = "f16" if to_half else "f32"
    put = writer(target, kind, high=inst.meaning == "v_fma_mixhi_f16")
    clamp = bool(f["clamp"])

    def run(w: Waves) -> None:
        a, b, c = (read(w) for read in reads)
        value = floats.fma16(a, b, c) if to_half else floats.fma32(a, b, c)
        value = settled(w, value, kind, inst.name)
        if clamp:
            value = np.nan_to_num(value, nan=0.0).clip(0, 1).astype(value.dtype)
        put(w, value, w.mask)

    return run


def _to_f32(read: Reader) -> Reader:
    return lambda w: read(w).astype(np.float32)


def _no_operation(inst: Instruction) -> Run:
    return lambda w: None


_SPECIAL: dict[str, Callable[[Instruction], Run]] = {
    "v_nop": _no_operation,
    "v_readfirstlane_b32": _read_first,
    "v_readlane_b32": _read_lane,
    "v_writelane_b32": _write_lane,
    "v_permlane16_b32": _permlane,
    "v_permlanex16_b32": _permlane,
    "v_permlane16_var_b32": _permlane_var,
    "v_permlanex16_var_b32": _permlane_var,
    "v_permlane64_b32": _permlane64,
    "v_mbcnt_lo_u32_b32": _mbcnt,
    "v_mbcnt_hi_u32_b32": _mbcnt,
    "v_swap_b32": _swap,
    **SWAPS,
}

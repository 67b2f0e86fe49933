"""Vector instructions bound to functions: fetch, modify, compute, clamp, write under EXEC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from boards.amd.isa import (
    convert_ops,
    float_ops,
    floats,
    gfx12_ops,
    gfx950_ops,
    older_ops,
    rare_ops,
)
from boards.amd.isa.decode import VCC, VGPR, Instruction, Operand
from boards.amd.isa.vector_ops import OPS, Op
from boards.amd.wave.dpp import permuted, written_lanes
from boards.amd.wave.operands import (
    BITS,
    DTYPES,
    Reader,
    UnsupportedOperand,
    flush_result,
    flushed,
    high_half,
    reader,
    with_signs,
    writer,
    zeroing_writer,
)  # fmt: skip
from boards.amd.wave.state import EXEC, Waves
from boards.amd.wave.subdword import part_reader, part_writer
from boards.machine.arrays import Array

Run = Callable[[Waves], Any]
Put = Callable[[Waves, Array, "Array | None"], None]

_SHORT = frozenset({"VOP1", "VOP2", "VOPC"})
_HIGH_HALF = 128
_OMOD = (1.0, 2.0, 4.0, 0.5)
_IEEE = 1 << 9
_SIGN, _BOTH_SIGNS = 0x80000000, 0x80008000
_HALF_DOTS = frozenset({"v_dot2_f16_f16", "v_dot2_bf16_bf16"})
_ROUND_MASK = {"f32": 0x3, "f64": 0xC, "f16": 0xC}
_NEVER_ROUND = (
    "v_min", "v_max", "v_med", "v_mov", "v_cndmask", "v_floor", "v_ceil", "v_trunc", "v_rndne",
    "v_fract", "v_frexp", "v_cvt_f64", "v_cvt_f32_f16", "v_cvt_f32_ubyte", "v_rcp", "v_rsq",
    "v_sqrt", "v_exp", "v_log", "v_sin", "v_cos", "v_div_scale", "v_div_fixup",
)  # fmt: skip
"""Exact results, or approximations whose tables the rounding mode does not reach."""
_MODULES = (convert_ops, float_ops, gfx12_ops, gfx950_ops, older_ops, rare_ops)
"""Importing them fills OPS."""


def operation(inst: Instruction) -> Op | None:
    """The meaning of an instruction, if it is an elementwise one."""
    return OPS.get(inst.meaning)


def bind_vector(inst: Instruction, op: Op) -> Run:
    """A function that executes `inst` for the selected waves."""
    compute, put = bind_parts(inst, op)

    def run(w: Waves) -> None:
        value, allowed = compute(w)
        put(w, value, allowed)

    return run


def bind_dual(inst: Instruction) -> Run:
    """Both halves read before either writes."""
    parts = []
    for half in inst.halves:
        op = operation(half)
        if op is None:
            raise UnsupportedOperand(half.name)
        parts.append(bind_parts(half, op))
    (first, put_first), (second, put_second) = parts

    def run(w: Waves) -> None:
        x, mask = first(w)
        x = x.copy() if x.base is not None else x
        y, _ = second(w)
        y = y.copy() if y.base is not None else y
        put_first(w, x, mask)
        put_second(w, y, mask)

    return run


def bind_parts(
    inst: Instruction, op: Op
) -> tuple[Callable[[Waves], tuple[Any, Array | None]], Put]:
    """The computing and the writing half of an instruction."""
    compares = inst.meaning.startswith("v_cmpx")
    count = len(inst.operands) - len(op.sources) if compares else len(op.results)
    targets, sources = inst.operands[:count], list(inst.operands[count:])
    if op.accumulate:
        if inst.sdwa is not None:  # src: llvm VOP2Instructions.td: gfx9 and gfx10 have none
            raise UnsupportedOperand(f"{inst.name} with SDWA")
        sources.append(targets[0])
    if len(sources) < len(op.sources) and op.sources[-1] == "m":
        sources.append(Operand("V", VCC, 1))
    if len(sources) != len(op.sources):
        raise UnsupportedOperand(f"{inst.meaning} with {len(sources)} sources")
    _plain_halves(inst)
    reads = [source_reader(inst, o, kind) for o, kind in zip(sources, op.sources, strict=True)]
    reads[0] = permuted(inst.dpp, reads[0])
    function = _function(inst, op, reads)
    puts = [_put(inst, o, kind) for o, kind in zip(targets, op.results, strict=False)]
    if compares:
        return _with_dpp_mask(inst, function), _put_exec(puts)
    return _with_dpp_mask(inst, function), puts[0] if len(puts) == 1 else _put_all(puts)


def _put_exec(puts: Sequence[Put]) -> Put:
    """v_cmpx: EXEC, after the scalar destination that older families also have."""

    def put(w: Waves, value: Array, mask: Array | None) -> None:
        for one in puts:
            one(w, value, mask)
        w.put_mask(EXEC, _masked(w, value))

    return put


def _plain_halves(inst: Instruction) -> None:
    """Dot products know no selection of halves and no signs of them."""
    f = inst.fields
    if inst.encoding == "VOP3P" and (
        f["op_sel"] or f["neg"] or f["neg_hi"] or f["clamp"] or (f["hi_ab"], f["hi_c"]) != (3, 1)
    ):
        raise UnsupportedOperand(f"modifiers of {inst.meaning}")


def _put_all(puts: Sequence[Put]) -> Put:
    def put(w: Waves, values: Any, mask: Array | None) -> None:
        for one, value in zip(puts, values, strict=True):
            one(w, value, mask)

    return put


def _masked(w: Waves, value: Array) -> Array:
    """A bool result for every lane, off where EXEC is off."""
    full = np.broadcast_to(value, (w.n, w.lanes))
    mask = w.mask
    return full if mask is None else full & mask


def _put(inst: Instruction, o: Operand, kind: str) -> Put:
    if kind == "m":
        return lambda w, value, mask: w.put_mask(o.code, _masked(w, value))
    if o.code < VGPR:
        raise UnsupportedOperand(f"{inst.meaning} writes scalar {o.code}")
    if inst.sdwa is not None:
        return part_writer(inst, o, kind, inst.sdwa)
    high = bool(inst.fields.get("op_sel", 0) & 8) and inst.encoding == "VOP3"
    if BITS[kind] == 16 and not high and inst.name in inst.family.zeroing:
        return zeroing_writer(o, kind)
    target = o
    if is_high(inst, o, kind):
        target, high = o._replace(code=o.code - _HIGH_HALF), True
    return writer(target, kind, high=high)


def is_high(inst: Instruction, o: Operand, kind: str) -> bool:
    """Short encodings name the upper half of v0..v127 as v128..v255 in 16-bit operands."""
    # src: RDNA3 ISA 7.1, 16-bit VGPR operands of VOP1, VOP2 and VOPC.
    split = inst.family.split_registers and inst.encoding in _SHORT
    return split and BITS.get(kind) == 16 and o.vgpr >= _HIGH_HALF


def source_reader(inst: Instruction, o: Operand, kind: str) -> Reader:
    """A source with its half selection, sign modifiers and denormal mode."""
    index = "abc".find(o.field)
    f = inst.fields  # op_sel: a bit for each source, bit 3 for the destination
    if inst.sdwa is not None and o.field in "ab":
        read = part_reader(inst, o, kind, inst.sdwa)
    elif is_high(inst, o, kind):
        read = high_half(reader(inst, o._replace(code=o.code - _HIGH_HALF), "u32"), kind)
    elif BITS.get(kind) == 16 and f.get("op_sel", 0) >> ("abc".find(o.field) % 4) & 1:
        read = high_half(reader(inst, o, "u32"), kind)
    else:
        read = reader(inst, o, kind)
    extra = inst.sdwa or inst.dpp if inst.encoding in _SHORT else None
    neg = extra.neg if extra is not None else f.get("neg", 0)
    absolute = extra.abs if extra is not None else f.get("abs", 0)
    if inst.meaning == "v_cndmask_b32" and kind == "u32" and index >= 0:
        return _sign_bits(read, neg >> index & 1, absolute >> index & 1)
    if kind == "p" and inst.meaning in _HALF_DOTS:
        return _sign_bits(read, neg >> index & 1, absolute >> index & 1, _BOTH_SIGNS)
    if kind not in ("f16", "f32", "f64"):
        if index >= 0 and (neg | absolute) >> index & 1:
            raise UnsupportedOperand(f"sign modifiers of {inst.meaning}")
        return read
    if not inst.meaning.startswith("v_mov"):
        read = flushed(read, kind)
    if index < 0:
        return read
    return with_signs(read, kind, bool(neg >> index & 1), bool(absolute >> index & 1))


def _sign_bits(read: Reader, neg: int, absolute: int, signs: int = _SIGN) -> Reader:
    """The sign modifiers of a dword that is selected, or of two halves of one."""
    if not (neg or absolute):
        return read
    keep = np.uint32(0xFFFFFFFF ^ signs if absolute else 0xFFFFFFFF)
    flip = np.uint32(signs if neg else 0)
    return lambda w: (read(w) & keep) ^ flip


def _with_dpp_mask(
    inst: Instruction, function: Callable[[Waves], Any]
) -> Callable[[Waves], tuple[Any, Array | None]]:
    """Which lanes are written: EXEC, and for DPP also what its masks and bounds allow."""
    dpp = inst.dpp
    if dpp is None:
        return lambda w: (function(w), w.mask)

    return lambda w: (function(w), written_lanes(w, dpp))


def _function(inst: Instruction, op: Op, reads: Sequence[Reader]) -> Callable[[Waves], Any]:
    """Compute the typed result, with rounding mode, denormals, output scale and clamp."""
    kind = op.results[0]
    is_float = kind in _ROUND_MASK
    clamp, omod = bool(inst.fields.get("clamp")), inst.fields.get("omod", 0)
    if inst.sdwa is not None:
        clamp, omod = inst.sdwa.clamp, inst.sdwa.omod
    elif inst.encoding not in ("VOP3", "VOP3SD"):
        clamp, omod = False, 0
    plain = _plain(op.function, reads)
    if clamp and kind == "p":
        raise UnsupportedOperand(f"clamp of {inst.meaning}")
    if clamp and not is_float and kind != "m":
        return _saturating(inst, op, reads, kind)
    if (omod and not is_float) or (is_float and len(op.results) > 1 and (omod or clamp)):
        raise UnsupportedOperand(f"output modifiers of {inst.meaning}")
    if not is_float:
        return plain

    def run(w: Waves) -> Any:
        value = plain(w) if w.plain_mode else _moded(w, op, reads, plain, inst.meaning)
        if len(op.results) > 1:
            return value
        if omod:
            value = _output_scaled(w, value, kind, omod)
        if clamp:
            value = np.where(value > 0, np.minimum(value, 1), 0).astype(value.dtype)
        return value

    return run


def _output_scaled(w: Waves, value: Array, kind: str, omod: int) -> Array:
    """The output modifier: works only while output denormals and the IEEE bit are off."""
    # src: RDNA2 ISA 6.2.2 and later: otherwise ignored; denormals are flushed, -0 becomes +0.
    if w.plain_mode:
        return value
    low = 5 if kind == "f32" else 7
    mode = w.mode[w.sel]
    works = (mode >> np.uint32(low) & np.uint32(1) | mode & np.uint32(_IEEE)) == 0
    scaled = floats.flush(value * value.dtype.type(_OMOD[omod])) + value.dtype.type(0)
    return np.where(works[:, None], scaled, value)


def _plain(function: Callable[..., Any], reads: Sequence[Reader]) -> Callable[[Waves], Any]:
    if len(reads) == 1:
        (a,) = reads
        return lambda w: function(a(w))
    if len(reads) == 2:
        a, b = reads
        return lambda w: function(a(w), b(w))
    if len(reads) == 3:
        a, b, c = reads
        return lambda w: function(a(w), b(w), c(w))
    return lambda w: function(*[read(w) for read in reads])


def _saturating(
    inst: Instruction, op: Op, reads: Sequence[Reader], kind: str
) -> Callable[[Waves], Any]:
    """Integer clamp: the exact result limited to the type's range; a carry stays what it was."""
    if BITS[kind] > 32:
        raise UnsupportedOperand("clamp of a 64-bit integer")
    info = np.iinfo(np.dtype(f"{kind[0]}{BITS[kind] // 8}"))
    if len(op.results) > 1:
        plain = _plain(op.function, reads)
        limit = info.dtype.type(info.min if "sub" in inst.meaning else info.max)

        def carried(w: Waves) -> tuple[Array, Array]:
            total, carry = plain(w)
            return np.where(carry, limit, total), carry

        return carried

    def run(w: Waves) -> Array:
        wide = op.function(*[read(w).astype(np.int64) for read in reads])
        return np.asarray(wide.clip(info.min, info.max).astype(info.dtype))

    return run


def _moded(
    w: Waves, op: Op, reads: Sequence[Reader], plain: Callable[[Waves], Any], name: str
) -> Any:
    """A float result when MODE is not the default."""
    kind = op.results[0]
    shift = 0 if kind == "f32" else 2
    modes = np.unique(w.mode[w.sel] & np.uint32(_ROUND_MASK[kind])) >> np.uint32(shift)
    if (len(modes) == 1 and modes[0] == floats.NEAREST) or name.startswith(_NEVER_ROUND):
        value = plain(w)
    elif len(modes) == 1 and op.addends is not None:
        value = _directed(op, [read(w) for read in reads], kind, int(modes[0]))
    else:
        raise UnsupportedOperand(f"{name} in rounding mode {modes.tolist()}")
    if len(op.results) > 1 or name.startswith("v_mov"):
        return value
    return flush_result(w, value, kind)


def _directed(op: Op, values: list[Array], kind: str, mode: int) -> Array:
    """The result rounded in a direction; infinities and NaNs are those of the plain function."""
    if op.addends is None:
        raise UnsupportedOperand(f"rounding mode {mode}")
    dtype = DTYPES[kind]
    values = list(np.broadcast_arrays(*values))
    finite = np.logical_and.reduce([np.isfinite(v) for v in values])
    result = np.asarray(op.function(*values), dtype)
    parts = [v[finite] for v in values]
    x, y = op.addends(*[v.astype(np.float64) for v in parts])
    zero = -(-x + -y) if mode == floats.DOWN else x + y
    if kind == "f64":
        x, y = op.addends(*[floats.rationals(v) for v in parts])
    result[finite] = floats.round_sum(x, y, zero, dtype, mode)
    return result

"""What instructions of gfx9 and gfx10 compute that gfx11 has no more; added to `OPS`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boards.amd.isa.convert_ops import to_integer
from boards.amd.isa.floats import flush
from boards.amd.isa.scalar_ops import SCALAR, ScalarOp
from boards.amd.isa.small_floats import BF8, BF8_FNUZ, FP8, FP8_FNUZ, Small, narrow, widen
from boards.amd.isa.vector_ops import OPS, Op, define

Array = NDArray[Any]
_I4_BIAS, _I4_SCALE = 8, 16.0


def _unfused(a: Array, b: Array, c: Array) -> Array:
    """Multiply, round, add, round."""
    return np.asarray(a * b + c, a.dtype)


def _mad(a: Array, b: Array, c: Array) -> Array:
    """Multiply, round, add, round; whatever MODE says, denormals are zeros.

    # src: LLVM SIISelLowering.cpp isFMAFasterThanFMulAndFAdd(): v_mad_f32 gives what a product and
    # src: a sum give, and cannot be used where denormals count; CDNA2 ISA, V_MAD_F32
    """
    a, b, c = (flush(value) for value in (a, b, c))
    return flush(np.asarray(flush(np.asarray(a * b, np.float32)) + c, np.float32))


def _vector() -> None:
    # src: CDNA3 ISA, V_LSHL_ADD_U64: the count is source 1's bits 2:0.
    define(
        "u64 u32 u64 -> u64",
        v_lshl_add_u64=lambda a, b, c: (a << (b & np.uint32(7)).astype(np.uint64)) + c,
    )
    define("u64 -> u64", v_mov_b64=lambda a: a)
    define("u16 u16 -> u16", v_subrev_nc_u16=lambda a, b: b - a)
    define("f16 f16 +f16 -> f16", v_mac_f16=_unfused)
    define("f32 f32 +f32 -> f32", v_mac_f32=_mad)
    define("f32 f32 f32 -> f32", v_mad_f32=_mad, v_madmk_f32=_mad, v_madak_f32=_mad)
    define(
        "f16 f16 f16 -> f16",
        v_mad_f16=_unfused, v_mad_legacy_f16=_unfused, v_madmk_f16=_unfused, v_madak_f16=_unfused,
        v_fma_legacy_f16=OPS["v_fma_f16"].function,
        v_div_fixup_legacy_f16=OPS["v_div_fixup_f16"].function,
    )  # fmt: skip
    for kind in ("u16", "i16"):
        define(
            f"{kind} {kind} {kind} -> {kind}",
            **{f"v_mad_legacy_{kind}": OPS[f"v_mad_{kind}"].function},
        )
    for name in ("exp", "log"):
        OPS[f"v_{name}_legacy_f32"] = OPS[f"v_{name}_f32"]
    if "v_cvt_off_f32_i4" not in OPS:
        define("u32 -> f32", v_cvt_off_f32_i4=_offset_of_nibble)
    for kind, low, scale in (("i16", -1.0, 32767.0), ("u16", 0.0, 65535.0)):
        name = f"v_cvt_norm_{kind}_f16"
        if name not in OPS:
            define(f"f16 -> {kind}", **{name: partial(_norm, kind=kind, low=low, scale=scale)})


def _offset_of_nibble(a: Array) -> Array:
    """Four bits as a signed fraction of a pixel."""
    signed = (a & np.uint32(15)).astype(np.int32)
    wrapped = np.where(signed >= _I4_BIAS, signed - 2 * _I4_BIAS, signed)
    return (wrapped / _I4_SCALE).astype(np.float32)


def _norm(a: Array, *, kind: str, low: float, scale: float) -> Array:
    return to_integer(np.rint(a.astype(np.float64).clip(low, 1.0) * scale), kind)


_FORMS = {"fp8fnuz": FP8_FNUZ, "bf8fnuz": BF8_FNUZ, "fp8ocp": FP8, "bf8ocp": BF8}
"""Of gfx942, and of gfx950, whose instructions have the same names."""


def _small_floats() -> None:
    for suffix, form in _FORMS.items():
        define("u32 -> f32", **{f"v_cvt_f32_{suffix}": partial(_from_small, form=form)})
        define("u32 -> u64", **{f"v_cvt_pk_f32_{suffix}": partial(_pair_from_small, form=form)})


def _from_small(a: Array, *, form: Small) -> Array:
    answer: Array = widen(a, form).astype(np.float32)
    return answer


def _pair_from_small(a: Array, *, form: Small) -> Array:
    low, high = (_from_small(a >> np.uint32(n), form=form).view(np.uint32) for n in (0, 8))
    answer: Array = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
    return answer


def pack_small(a: Array, b: Array, form: Small) -> Array:
    """Two f32 as two 8-bit floats in 16 bits."""
    both: Array = narrow(a, form) | narrow(b, form) << np.uint32(8)
    answer: Array = both.astype(np.uint16)
    return answer


def _pack_ops() -> None:
    for suffix, form in _FORMS.items():
        OPS[f"v_cvt_pk_{suffix}_f32"] = Op(
            ("u16",), ("f32", "f32"), lambda a, b, f=form: pack_small(a, b, f)
        )


def _scalar() -> None:
    for bits in (32, 64):
        kind = f"u{bits}"
        trailing = SCALAR[f"s_ctz_i32_b{bits}"].function
        SCALAR[f"s_ff0_i32_b{bits}"] = ScalarOp((kind,), "u32", lambda a, f=trailing: f(~a))
        for name, function in (("quadmask", _quad_mask), ("wqm", _whole_quads)):
            SCALAR.setdefault(f"s_{name}_b{bits}", ScalarOp((kind,), kind, function, "nonzero"))
    SCALAR.setdefault("s_cls_i32_i64", ScalarOp(("u64",), "u32", _leading_signs64))
    SCALAR.setdefault("s_bitreplicate_b64_b32", ScalarOp(("u32",), "u64", _replicate))


def _quads(a: Array) -> Array:
    """For each group of four bits whether one is set: (n, bits / 4)."""
    bits = 8 * a.itemsize
    shifts = np.arange(0, bits, 4).astype(a.dtype)
    answer: Array = (a[:, None] >> shifts & a.dtype.type(15)) != 0
    return answer


def _quad_mask(a: Array) -> Array:
    places = a.dtype.type(1) << np.arange(2 * a.itemsize).astype(a.dtype)
    return np.asarray(np.where(_quads(a), places, a.dtype.type(0)).sum(axis=1), a.dtype)


def _whole_quads(a: Array) -> Array:
    places = a.dtype.type(15) << np.arange(0, 8 * a.itemsize, 4).astype(a.dtype)
    return np.asarray(np.where(_quads(a), places, a.dtype.type(0)).sum(axis=1), a.dtype)


def _leading_signs64(a: Array) -> Array:
    folded = np.where(a >> np.uint64(63) != 0, ~a, a)
    count = SCALAR["s_clz_i32_u64"].function(folded)
    return np.where(folded == 0, np.uint32(0xFFFFFFFF), count)


def _replicate(a: Array) -> Array:
    result = np.zeros(a.shape, np.uint64)
    for bit in range(32):
        on = (a >> np.uint32(bit) & np.uint32(1)).astype(np.uint64)
        result |= on * np.uint64(3) << np.uint64(2 * bit)
    return result


for _install in (_vector, _small_floats, _pack_ops, _scalar):
    _install()

"""What vector instructions compute that gfx950 has first; added to `vector_ops.OPS`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from boards.amd.isa.floats import bf16
from boards.amd.isa.vector_ops import define, pack16, shift_count

Array = NDArray[Any]
_FEEDBACK = np.uint32(0xC5)


def _next_random(a: Array) -> Array:
    """The state after one step of a linear feedback register."""
    # src: CDNA4 ISA, V_PRNG_B32: (in << 1) ^ (in[31] ? 197 : 0)
    return np.asarray(a << np.uint32(1) ^ (a >> np.uint32(31)) * _FEEDBACK)


def _shifted_bytes(a: Array, b: Array, count: Array, low: int, high: int) -> Array:
    """Two arithmetic shifts, each limited to a byte, side by side."""
    n = shift_count(count, 32).astype(np.int32)
    x, y = ((v >> n).clip(low, high).astype(np.uint32) & np.uint32(0xFF) for v in (a, b))
    return (x | y << np.uint32(8)).astype(np.uint16)


define("u32 -> u32", v_prng_b32=_next_random)
define(
    "f32 f32 -> p",
    v_cvt_pk_bf16_f32=lambda a, b: pack16(bf16(a), bf16(b)),
    v_cvt_pk_f16_f32=lambda a, b: pack16(a.astype(np.float16), b.astype(np.float16)),
)
define("u16 -> f32", v_cvt_f32_bf16=lambda a: (a.astype(np.uint32) << 16).view(np.float32))
define(
    "i32 i32 u32 -> u16",
    v_ashr_pk_i8_i32=lambda a, b, n: _shifted_bytes(a, b, n, -128, 127),
    v_ashr_pk_u8_i32=lambda a, b, n: _shifted_bytes(a, b, n, 0, 255),
)

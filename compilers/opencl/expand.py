"""How ops become OpenCL C's, by what the device has: cl_khr_fp64, cl_khr_fp16, or neither."""

from __future__ import annotations

from typing import Final

from compilers.math.expand import Expander
from compilers.math.natives import NativeExpander
from queues.cl.kernel_code import DOUBLE, HALF, HALF_OPS

NATIVE: Final = frozenset({
    "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh",
    "atan2", "hypot", "fmod",
})  # fmt: skip
"""Functions of float32 that are OpenCL C's own where there is no float64, by the same name: within
3 ulp (log10) to 6 (atan2). `pow`, within 16, is too, after exponents that one op does exactly.
# src: The OpenCL C Specification 3.0, 7.4 "Relative Error as ULPs", full profile"""
POWER: Final = "pow"
FUNCTIONS: Final = {name: name for name in sorted(NATIVE | {POWER})}


def expander(features: frozenset[str]) -> Expander:
    """What rewrites a kernel's expressions for a device with these features."""
    half, arithmetic = HALF in features, HALF_OPS in features
    if DOUBLE in features:
        return Expander(features, native_half=half, soft=True, half_ops=arithmetic)
    return NativeExpander(features, NATIVE, native_half=half, half_ops=arithmetic)

"""Kernels in MSL, compiled as C++ against `shim/metal_stdlib` and run lane by lane, beside numpy.

What MSL alone forbids is not seen here; so every word that kernels use is looked up in a list.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

import tensor as xp
from compilers import dtype as dt
from compilers.math.half import half_bits
from drivers.base.errors import Unsupported
from drivers.metal.device import MetalDevice
from drivers.metal.program import make_pipeline
from drivers.world.native import memory_at
from tensor import engine
from tests.metal.made_up import compiled, metal, runtime
from tests.metal.messages import BYTES, bench
from tests.support import check

RNG: Final = np.random.default_rng(7)
_TEXT: Final = """
include metal_stdlib pragma clang fp contract off using namespace metal typedef static inline
const return for if else void kernel device threadgroup thread buffer uint group lane
max_total_threads_per_threadgroup threadgroup_position_in_grid thread_index_in_threadgroup
__attribute__ aligned char uchar short ushort int long ulong float half bytes
char2 char4 uchar2 uchar4 short2 short4 ushort2 ushort4 int2 int4 uint2 uint4 long2 long4 ulong2
ulong4 float2 float4 packed_char2 packed_char4 packed_uchar2 packed_uchar4 packed_short2
packed_short4 packed_ushort2 packed_ushort4 packed_int2 packed_int4 packed_uint2 packed_uint4
packed_long2 packed_long4 packed_ulong2 packed_ulong4 packed_float2 packed_float4 as_type
popcount select fabs sqrt floor ceil trunc rint copysign fma exp exp2 log log2 log10 sin cos tan
asin acos atan sinh cosh tanh asinh acosh atanh atan2 fmod pow
simdgroup_half8x8 simdgroup_float8x8 thread_elements simdgroup_multiply_accumulate
threadgroup_barrier simdgroup_barrier mem_flags mem_threadgroup simd_shuffle_xor simd_ballot
simd_vote vote_t
"""
WORDS: Final = frozenset(_TEXT.split())
"""Words that kernels may have. # src: Metal Shading Language Specification 3.1: declarations 2.1,
4, 5.1, 5.2; types 2.2, 2.3, 2.19; functions 6.3 to 6.5; SIMD-groups and barriers 6.7, 6.9"""
INTEGERS: Final = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
OWN: Final = re.compile(
    r"[vpm]\d+|at\d+|[abc]\d+|k_\w+|[iuf](8|16|32|64)(x\d+)?|x\d+|\d\w*|[xl]|(0x)?[0-9a-f.]+p?f?"
)
"""Names that the printer makes: values, buffers, arrays, loops, matrices, kernels, types."""
FUNCTIONS: Final[dict[str, tuple[Callable[[float], float], float, float, float]]] = {
    "exp": (math.exp, -20, 20, 4), "expm1": (math.expm1, -3, 20, 5),
    "log": (math.log, 1e-3, 50, 4), "log1p": (math.log1p, -0.9, 9, 5),
    "log2": (math.log2, 1e-3, 50, 4), "log10": (math.log10, 1e-3, 50, 4),
    "sin": (math.sin, -9, 9, 4), "cos": (math.cos, -9, 9, 4), "tan": (math.tan, -1.5, 1.5, 6),
    "asin": (math.asin, -1, 1, 4), "acos": (math.acos, -1, 0.99, 4),
    "atan": (math.atan, -9, 9, 5), "sinh": (math.sinh, -9, 9, 4), "cosh": (math.cosh, -9, 9, 4),
    "tanh": (math.tanh, -4, 4, 5), "asinh": (math.asinh, -9, 9, 4),
    "acosh": (math.acosh, 1.1, 9, 4), "atanh": (math.atanh, -0.9, 0.9, 5),
    "sqrt": (math.sqrt, 0, 9, 0.51), "erf": (math.erf, -4, 4, 5),
}  # fmt: skip
"""Name -> (the same in float64, from, to, units in the last place that MSL allows, at most).
# src: Metal Shading Language Specification 3.1, table 7.1; expm1, log1p and erf are ours"""


@pytest.fixture(scope="module")
def device() -> Iterator[MetalDevice]:
    with metal() as opened, engine.adopted("METAL", opened):
        yield opened


def on(values: Any, dtype: Any = None) -> Any:
    return xp.asarray(values, dtype=dtype, device="METAL")


def ulps(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest error, in units of the last place of float32."""
    unit = np.spacing(np.abs(wanted).astype(np.float32)).astype(np.float64)
    return float(np.max(np.abs(found.astype(np.float64) - wanted) / unit))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function(device: MetalDevice, name: str) -> None:
    exact, low, high, allowed = FUNCTIONS[name]
    values = RNG.uniform(low, high, 500).astype(np.float32)
    wanted = np.array([exact(float(value)) for value in values])
    ask = getattr(xp, name, None) or getattr(xp.special, name)
    found = ask(on(values)).numpy()
    check(ulps(found, wanted) <= allowed, f"{ulps(found, wanted):.2f} units")


@pytest.mark.parametrize("name", ["expm1", "log1p", "exp", "tanh", "sinh", "atan", "asinh"])
def test_special_cases_of_a_function(device: MetalDevice, name: str) -> None:
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0], np.float32)
    with np.errstate(all="ignore"):
        wanted = getattr(np, {"atan": "arctan", "asinh": "arcsinh"}.get(name, name))(values)
    found = getattr(xp, name)(on(values)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=3e-7)
    np.testing.assert_array_equal(np.signbit(found)[:4], np.signbit(wanted)[:4])


def test_hypot_of_special_cases(device: MetalDevice) -> None:
    a = np.array([3, 0, -0.0, np.inf, np.nan, np.nan, 1e38, 1e-30, 5], np.float32)
    b = np.array([4, 0, 0, np.nan, -np.inf, 1, 1e38, 1e-30, 0], np.float32)
    np.testing.assert_allclose(xp.hypot(on(a), on(b)).numpy(), np.hypot(a, b), rtol=3e-7)


@pytest.mark.parametrize(
    "name", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
)
def test_integers(device: MetalDevice, name: str) -> None:
    info = np.iinfo(name)
    a, b = (RNG.integers(info.min, info.max, 333, name, endpoint=True) for _ in range(2))
    x, y = on(a), on(b)
    with np.errstate(all="ignore"):
        for found, wanted in (
            (x + y, a + b), (x - y, a - b), (x * y, a * b), (x & y, a & b), (x ^ y, a ^ b),
            (x < y, a < b), (x == x, a == a), (xp.where(x < y, x, y), np.where(a < b, a, b)),
            (xp.sum(x, dtype=getattr(xp, name)), np.sum(a, dtype=name)),
            (xp.max(x), a.max()), (xp.astype(x, xp.float32), a.astype(np.float32)),
        ):  # fmt: skip
            np.testing.assert_array_equal(found.numpy(), wanted)


def test_floats_of_16_bits(device: MetalDevice) -> None:
    a, b = (RNG.standard_normal(300).astype(np.float16) for _ in range(2))
    x, y = on(a), on(b)
    wanted = (a.astype(np.float32) * b.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal((x * y).numpy(), wanted)
    np.testing.assert_array_equal((x * 2.5 + 0.1).numpy(), a * np.float16(2.5) + np.float16(0.1))
    wide = xp.astype(xp.astype(on(a.astype(np.float32)), xp.bfloat16), xp.float32).numpy()
    words = a.astype(np.float32).view(np.uint32)
    rounded = ((words + 0x7FFF + (words >> 16 & 1)) & 0xFFFF0000).astype(np.uint32)
    np.testing.assert_array_equal(wide, rounded.view(np.float32))


@pytest.mark.parametrize("value", [0.1, -2.5, 65519.0, 65520.0, 1e-8, 3.3895e38, -np.inf, np.nan])
def test_constants_of_16_bits(device: MetalDevice, value: float) -> None:
    zero = np.zeros(3, np.float16)
    with np.errstate(all="ignore"):
        wanted = zero + np.float16(value)
    np.testing.assert_array_equal((on(zero) + value).numpy(), wanted)
    single = np.float32(value).view(np.uint32)
    rounded = np.uint32((int(single) + 0x7FFF + (int(single) >> 16 & 1)) & 0xFFFF0000)
    wide = rounded.view(np.float32) if value == value else np.float32(np.nan)
    made = xp.astype(xp.full(3, value, dtype=xp.bfloat16, device="METAL"), xp.float32)
    np.testing.assert_array_equal(made.numpy(), np.full(3, wide))


@pytest.mark.parametrize("value", [0.1, -0.0, 65520.0, -1e9, 6e-8, math.nan, -math.nan])
def test_bits_of_constants(value: float) -> None:
    with np.errstate(all="ignore"):
        wanted = int(np.float16(value).view(np.uint16))
    check(half_bits(value, dt.float16) == wanted, f"{wanted:#x}")
    short = half_bits(value, dt.bfloat16)
    check(short >> 15 == wanted >> 15, "its sign")
    back = np.uint32(short << 16).view(np.float32)
    np.testing.assert_allclose(back, value, rtol=2**-8)


def test_zero_nan_and_infinity(device: MetalDevice) -> None:
    a = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, 2.0], np.float32)
    b = np.array([-0.0, 0.0, 1.0, -np.inf, np.nan, -1.0, 0.0], np.float32)
    with np.errstate(all="ignore"):
        for found, wanted in (
            (on(a) + on(b), a + b), (on(a) / on(b), a / b), (on(a) < on(b), a < b),
            (xp.maximum(on(a), on(b)), np.maximum(a, b)), (-on(a), -a),
            (on(a) * 1.0, a * np.float32(1)),
        ):  # fmt: skip
            got = found.numpy()
            np.testing.assert_array_equal(got, wanted)
            here = wanted == wanted
            np.testing.assert_array_equal(np.signbit(got)[here], np.signbit(wanted)[here])


@pytest.mark.parametrize("shape", [(7,), (1000,), (3, 5, 7), (33, 129), (2, 5000)])
def test_reductions_and_scans(device: MetalDevice, shape: tuple[int, ...]) -> None:
    a = RNG.integers(-1000, 1000, shape).astype(np.float32)
    x = on(a)
    np.testing.assert_array_equal(xp.sum(x, axis=-1).numpy(), a.sum(-1))
    np.testing.assert_array_equal(xp.min(x).numpy(), a.min())
    np.testing.assert_array_equal(xp.argmax(x, axis=-1).numpy(), a.argmax(-1))
    np.testing.assert_array_equal(xp.cumulative_sum(x, axis=-1).numpy(), a.cumsum(-1))


@pytest.mark.parametrize("name", ["float32", "int64", "uint8"])
@pytest.mark.parametrize("shape", [(50,), (4, 700), (2, 5000)])
def test_sorts(device: MetalDevice, name: str, shape: tuple[int, ...]) -> None:
    a = RNG.integers(0, 1 << 40 if name == "int64" else 250, shape).astype(name)
    np.testing.assert_array_equal(xp.sort(on(a), axis=-1).numpy(), np.sort(a, -1))
    order = xp.argsort(on(a), axis=-1).numpy()
    np.testing.assert_array_equal(order, np.argsort(a, -1, kind="stable"))


@pytest.mark.parametrize("sizes", [(16, 16, 16), (33, 47, 65), (1, 200, 70), (128, 64, 96)])
def test_products(device: MetalDevice, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a, b = RNG.integers(-9, 9, (m, k)), RNG.integers(-9, 9, (k, n))
    for dtype in (np.float32, np.int32):
        found = (on(a.astype(dtype)) @ on(b.astype(dtype))).numpy()
        np.testing.assert_array_equal(found, (a @ b).astype(dtype))


@pytest.mark.parametrize("sizes", [(32, 32, 32), (64, 64, 64), (40, 72, 33)])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("dtype", "name"),
    [("float16", "half8x8"), ("bfloat16", "float8x8"), ("float32", "float8x8")],
)
def test_products_by_matrices_of_simd_groups(
    device: MetalDevice, sizes: tuple[int, int, int], turned: bool, dtype: str, name: str
) -> None:
    m, n, k = sizes
    a, b = RNG.integers(-9, 9, (m, k)), RNG.integers(-9, 9, (k, n))

    def given(values: np.ndarray) -> xp.Tensor:
        return xp.astype(on(values.astype(np.float32)), getattr(xp, dtype)).realize()

    x, y = given(a), given(b.T.copy()).T if turned else given(b)
    before = len(compiled)
    found = (xp.astype(x, xp.float32) @ xp.astype(y, xp.float32)).numpy()
    np.testing.assert_array_equal(found, a @ b)
    made = "".join([*compiled][before:])
    if made:
        declared = re.findall(r"simdgroup_(\w+) [ab]\d+, ", made)
        check(declared and set(declared) == {name}, f"{declared}")
    kernels = [text for text in compiled if "simdgroup_multiply_accumulate" in text]
    check(kernels, "no kernel has matrices")


def test_exchange_and_votes_are_used(device: MetalDevice) -> None:
    keys = RNG.integers(0, 1 << 60, (1, 3000))
    np.testing.assert_array_equal(xp.sort(on(keys), axis=-1).numpy(), np.sort(keys, -1))
    rows = RNG.random((40, 700), np.float32)
    shares = xp.softmax(on(rows) @ on(rows.T), axis=-1).numpy()
    np.testing.assert_allclose(shares.sum(-1), 1, rtol=1e-5)
    for word in ("simd_shuffle_xor", "threadgroup_barrier", "as_type<uint2>"):
        check(any(word in text for text in compiled), f"no kernel has {word}")


def test_float64_is_refused_by_name(device: MetalDevice) -> None:
    with pytest.raises(Unsupported, match="float64"):
        (on(np.ones(3, np.float32)) + on(np.ones(3))).numpy()


def test_every_word_is_one_of_msl_s(device: MetalDevice) -> None:
    """Of the kernels made here, and of all that this process compiled before."""
    x = on(RNG.uniform(0.1, 0.9, 64).astype(np.float32))
    total = x
    for name in FUNCTIONS:
        total = total + getattr(xp, name)(x + (name == "acosh"))
    total.numpy()
    for name in INTEGERS:
        numbers = on(np.arange(1, 65, dtype=name))
        (numbers // 3 * numbers + xp.astype(x * 9, numbers.dtype) + xp.max(numbers)).numpy()
    half = on(np.ones((32, 32), np.float16))
    xp.sort(on(RNG.integers(0, 1 << 60, (1, 3000))), axis=-1).numpy()
    xp.cumulative_sum(x).numpy()
    xp.matmul(half, half).numpy()
    kernels = [source for source in compiled if "// threadgroup bytes:" in source]
    found = set(re.findall(r"\w+", "\n".join(kernels)))
    needed = {"simd_shuffle_xor", "simdgroup_multiply_accumulate", "threadgroup_barrier", "as_type"}
    check(needed <= found, f"no kernel has {needed - found}")
    unknown: set[str] = set()
    for source in kernels:
        helpers = set(re.findall(r"^static inline \w+ (\w+)\(", source, re.M))
        for word in set(re.findall(r"[A-Za-z0-9_]+(?:\.[0-9a-f]*p?f?)?", source)):
            if word not in WORDS and word not in helpers and not OWN.fullmatch(word):
                unknown.add(word)
    check(not unknown, f"{sorted(unknown)}")


# Lanes that meet

_HEAD: Final = """// threadgroup bytes: 256
#include <metal_stdlib>
using namespace metal;
[[max_total_threads_per_threadgroup(64)]]
kernel void k_x(const device int *p0 [[buffer(0)]], device int *p1 [[buffer(1)]],
uint group [[threadgroup_position_in_grid]], uint lane [[thread_index_in_threadgroup]]) {
threadgroup int m0[64] __attribute__((aligned(16)));
"""
_MEET: Final = "threadgroup_barrier(mem_flags::mem_threadgroup);"


def ran(body: str) -> tuple[np.ndarray, list[str]]:
    """What a kernel of one threadgroup makes of 0, 1, ... 63, and the report."""
    runtime().report()
    with bench() as found:
        pipeline = make_pipeline(found.api, found.device, f"{_HEAD}{body}\n}}\n", "k_x")
        source = memory_at(found.send("contents", found.a), BYTES, int).cast("B").cast("i")
        result = memory_at(found.send("contents", found.b), BYTES, int).cast("B")
        for place in range(64):
            source[place] = place
        commands = found.commands()
        encoder = found.compute(commands)
        found.send("setComputePipelineState:", encoder, pipeline.handle)
        found.dispatch(encoder)
        found.send("endEncoding", encoder)
        found.finish(commands)
        made = np.frombuffer(bytes(result), np.int32)
        pipeline.release()
    return made, runtime().report()


def test_lanes_meet() -> None:
    found, report = ran(f"m0[lane] = p0[lane];\n{_MEET}\np1[lane] = m0[63 - lane];")
    np.testing.assert_array_equal(found, np.arange(64)[::-1])
    check(report == [], f"{report}")


def test_a_barrier_that_is_missing_is_seen_in_the_result() -> None:
    found, _ = ran("m0[lane] = p0[lane];\np1[lane] = m0[63 - lane];")
    check((found != np.arange(64)[::-1]).any(), "lanes ran as if they had met")


def test_shared_memory_is_not_zero() -> None:
    found, _ = ran("if (p0[lane] == 99) m0[lane] = 1;\np1[lane] = m0[lane];")
    check((found != 0).all(), "nobody wrote it")


@pytest.mark.parametrize(
    "body",
    [
        f"if (lane < 60) {{ {_MEET} }}\np1[lane] = 0;",
        f"if (lane < 32) {{ {_MEET} }} else {{\n{_MEET} }}\np1[lane] = 0;",
        "int x = 0;\nif (lane & 1) x = simd_shuffle_xor(p0[lane], 1);\np1[lane] = x;",
    ],
)
def test_lanes_that_do_not_meet_are_reported(body: str) -> None:
    _, report = ran(body)
    check(any(line.startswith("lanes do not meet: ") for line in report), f"{report}")


def test_values_are_exchanged_in_a_simd_group() -> None:
    found, report = ran("p1[lane] = simd_shuffle_xor(p0[lane], 16);")
    np.testing.assert_array_equal(found, np.arange(64) ^ 16)
    check(report == [], f"{report}")
    found, _ = ran("p1[lane] = (int)(uint)(simd_vote::vote_t)simd_ballot(p0[lane] % 3 == 0);")
    for first in (0, 32):
        bits = sum(1 << i for i in range(32) if (first + i) % 3 == 0)
        wanted = np.array([bits] * 32, np.uint32).view(np.int32)
        np.testing.assert_array_equal(found[first : first + 32], wanted)

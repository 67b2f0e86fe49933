"""20,000 operands of each class of arithmetic, against Python's integers and exact fractions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from compilers.nv import cubin, nvrtc
from tests.boards.nv_harness import device_on
from tests.boards.nv_warp_harness import compiled, run
from tests.boards.nv_warp_kernels import CASES
from tests.nv_cubins import needs_nvrtc
from tests.support import check

pytestmark = needs_nvrtc
COUNT, BLOCK = 20_000, 160
WORD = 1 << 32
_RNG = np.random.default_rng(86)
Integers = Callable[[int, int, int], int]


def _signed(x: int) -> int:
    return x - WORD if x >> 31 else x


CLASSES: dict[str, tuple[str, Integers]] = {
    "IADD3": ("a - b + c", lambda a, b, c: a - b + c),
    "IMAD": ("a * b + c", lambda a, b, c: a * b + c),
    "IMAD.HI": ("__umulhi(a, b) ^ c", lambda a, b, c: (a * b >> 32) ^ c),
    "IMAD.HI signed": (
        "(unsigned)__mulhi((int)a, (int)b) ^ c",
        lambda a, b, c: (_signed(a) * _signed(b) >> 32) ^ c,
    ),
    "LOP3": ("(a & b) ^ (~c | a)", lambda a, b, c: (a & b) ^ (~c | a)),
    "SHF": ("(a << (b & 31)) ^ (c >> (b & 31))", lambda a, b, c: (a << (b & 31)) ^ (c >> (b & 31))),
    "SHF funnel": (
        "__funnelshift_r(a, b, c)", lambda a, b, c: (b << 32 | a) >> (c & 31),
    ),
    "LEA": ("(a << 5) + b - c", lambda a, b, c: (a << 5) + b - c),
    "IMNMX": (
        "min(a, b) ^ (unsigned)max((int)b, (int)c)",
        lambda a, b, c: min(a, b) ^ max(_signed(b), _signed(c)),
    ),
    "ISETP": ("a < b ? c : b", lambda a, b, c: c if a < b else b),
    "POPC": ("__popc(a) + __clz(b) + __ffs(c)", lambda a, b, c: a.bit_count()
             + (32 - b.bit_length()) + ((c & -c).bit_length())),
    "PRMT": ("__byte_perm(a, b, c & 0x7777)", lambda a, b, c: sum(
        ((b << 32 | a) >> 8 * (c >> 4 * n & 7) & 255) << 8 * n for n in range(4))),
}  # fmt: skip


def _results(kind: str, expression: str, *sources: Any) -> Any:
    names = ("a", "b", "c")
    params = ", ".join(f"const {kind} *p{name}" for name in names)
    loads = " ".join(f"{kind} {name} = p{name}[i];" for name in names)
    source = (
        f'extern "C" __global__ void f({kind} *o, {params}, int n) {{ int i = blockIdx.x * {BLOCK}'
        f" + threadIdx.x; {loads} o[i] = {expression}; }}"
    )
    args = (np.zeros(COUNT, sources[0].dtype), *sources, COUNT)
    buffers, found = run(compiled(source), args, (COUNT // BLOCK, 1, 1), (BLOCK, 1, 1))
    check(not found, str(found[:3]))
    return buffers[0]


@pytest.mark.parametrize("name", CLASSES)
def test_integers_are_pythons(name: str) -> None:
    expression, exact = CLASSES[name]
    sources = [_RNG.integers(0, WORD, COUNT, np.uint32) for _ in range(3)]
    sources[1][:100], sources[2][50:150] = 0, WORD - 1
    got = _results("unsigned", expression, *sources)
    lists = [each.tolist() for each in sources]
    expected = [exact(a, b, c) % WORD for a, b, c in zip(*lists, strict=True)]
    np.testing.assert_array_equal(got, np.array(expected, np.uint32))


def _singles() -> Any:
    """Of all exponents, and some near each other."""
    words = _RNG.integers(0, WORD, COUNT, np.uint32)
    words[: COUNT // 2] = words[: COUNT // 2] & 0x807FFFFF | 0x3F800000
    values = words.view(np.float32)
    return np.where(np.isfinite(values), values, np.float32(1.5))


@pytest.mark.parametrize(
    ("expression", "exact"),
    [
        ("a + c", lambda a, b, c: a + c),
        ("a * b", lambda a, b, c: a * b),
        ("fmaf(a, b, c)", lambda a, b, c: a * b + c),
    ],
    ids=("FADD", "FMUL", "FFMA"),
)
def test_singles_are_the_nearest(expression: str, exact: Callable[..., Fraction]) -> None:
    sources = [_singles() for _ in range(3)]
    got = _results("float", expression, *sources)
    lists = [[Fraction(x) for x in each.tolist()] for each in sources]
    largest = Fraction(float(np.finfo(np.float32).max))
    half = Fraction(2) ** 103
    below = np.nextafter(got, np.float32(-np.inf)).tolist()
    above = np.nextafter(got, np.float32(np.inf)).tolist()
    for n, value in enumerate(got.tolist()):
        true = exact(*(each[n] for each in lists))
        if not np.isfinite(value):
            check(abs(true) >= largest + half, f"{n}: {value}")
            continue
        error, even = abs(Fraction(value) - true), not got.view(np.uint32)[n] & 1
        for other in (below[n], above[n]):
            if np.isfinite(other):
                rest = abs(Fraction(other) - true)
                check(error < rest or (error == rest and even), f"{n}: {value}, not {other}")


def test_singles_in_every_rounding_mode() -> None:
    sources = [_singles() for _ in range(3)]
    a, b = (each.astype("f8") for each in sources[:2])
    product = a * b
    finite = np.abs(product) < float(np.finfo(np.float32).max)
    down = _results("float", "__fmul_rd(a, b)", *sources)
    up = _results("float", "__fmul_ru(a, b)", *sources)
    zero = _results("float", "__fmul_rz(a, b)", *sources)
    check((down[finite] <= product[finite]).all(), "down")
    check((up[finite] >= product[finite]).all(), "up")
    nearest = np.nextafter(down[finite], np.float32(np.inf))
    check((nearest >= up[finite]).all(), "neighbours")
    np.testing.assert_array_equal(zero[finite], np.where(product > 0, down, up)[finite])


def _doubles() -> Any:
    """Of all exponents, some near each other, some whose products are subnormal."""
    words = _RNG.integers(0, 1 << 64, COUNT, np.uint64)
    near, small = np.uint64(0x3FF << 52), np.uint64(0x1FE << 52)
    fraction = words & np.uint64((1 << 63) | (1 << 52) - 1)
    words[: COUNT // 2] = fraction[: COUNT // 2] | near
    words[-1000:] = fraction[-1000:] | small
    values = words.view(np.float64)
    return np.where(np.isfinite(values), values, 1.5)


DOUBLES = {
    "DADD": ("__dadd_r{}(a, c)", lambda a, b, c: a + c),
    "DMUL": ("__dmul_r{}(a, b)", lambda a, b, c: a * b),
    "DFMA": ("__fma_r{}(a, b, c)", lambda a, b, c: a * b + c),
}


@pytest.mark.parametrize("mode", "nduz")
@pytest.mark.parametrize("name", DOUBLES)
def test_doubles_are_rounded_once(name: str, mode: str) -> None:
    expression, exact = DOUBLES[name]
    sources = [_doubles() for _ in range(3)]
    with np.errstate(over="ignore"):
        sources[2][: COUNT // 4] = -(sources[0] * sources[1])[: COUNT // 4]
    sources[2] = np.where(np.isfinite(sources[2]), sources[2], 1.5)
    got = _results("double", expression.format(mode), *sources)
    lists = [[Fraction(x) for x in each.tolist()] for each in sources]
    with np.errstate(over="ignore"):
        below, above = (np.nextafter(got, way).tolist() for way in (-np.inf, np.inf))
    for n, value in enumerate(got.tolist()):
        true = exact(*(each[n] for each in lists))
        if mode == "n" and np.isfinite(value):
            nearest = true.numerator / true.denominator
            check(value == nearest, f"{n}: {value}, not {nearest}")
        elif mode != "n":
            down = mode == "d" or (mode == "z" and true > 0)
            low, high = (value, above[n]) if down else (below[n], value)
            check(low == -np.inf or Fraction(low) <= true, f"{n}: {value} is above")
            check(high == np.inf or true <= Fraction(high), f"{n}: {value} is below")


CASTS = {
    "double of long": ("long long", "double", "(double)a", np.int64, np.float64),
    "double of unsigned": ("unsigned long long", "double", "(double)a", np.uint64, np.float64),
    "single of long": ("long long", "float", "(float)a", np.int64, np.float32),
    "single of unsigned": ("unsigned long long", "float", "(float)a", np.uint64, np.float32),
    "double of byte": ("signed char", "double", "(double)a", np.int8, np.float64),
    "single of short": ("short", "float", "(float)a", np.int16, np.float32),
}


@pytest.mark.parametrize("name", CASTS)
def test_integers_become_the_nearest_number(name: str) -> None:
    kind, to, expression, dtype, result = CASTS[name]
    limits = np.iinfo(dtype)
    a = _RNG.integers(limits.min, limits.max, COUNT, dtype, endpoint=True)
    a = a >> _RNG.integers(0, limits.bits, COUNT).astype(dtype)
    source = (
        f'extern "C" __global__ void f({to} *o, const {kind} *p) {{ int i = blockIdx.x * {BLOCK}'
        f" + threadIdx.x; {kind} a = p[i]; o[i] = {expression}; }}"
    )
    args = (np.zeros(COUNT, result), a)
    buffers, found = run(compiled(source), args, (COUNT // BLOCK, 1, 1), (BLOCK, 1, 1))
    check(not found, str(found[:3]))
    np.testing.assert_array_equal(buffers[0], a.astype(result))


def test_a_kernel_through_the_driver() -> None:
    case = next(case for case in CASES if case.name == "add")
    binary = cubin.load(nvrtc.compile_object(case.source, "sm_86", frozenset()), "f", "sm_86")
    _, a, b, count = case.args
    with device_on("ga102") as (device, _):
        program = device.load(binary)
        buffers = [device.alloc(each.nbytes) for each in (a, a, b)]
        for buffer, data in zip(buffers[1:], (a, b), strict=True):
            device.copy_in(buffer, memoryview(data))
        device.compute_queue().exec(program, [*buffers, count], case.grid, case.block).submit()
        device.synchronize(5.0)
        got = np.zeros_like(a)
        device.copy_out(memoryview(got), buffers[0])
    np.testing.assert_array_equal(got, a + b)

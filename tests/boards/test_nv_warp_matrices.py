"""Matrix instructions and pairs of halves against numpy: 20,000 numbers of each kind and more.

IMMA and pairs of halves are exact. Sums of HMMA are exact, too, where the numbers are small and
whole; elsewhere they are within what a sum in double precision, rounded once, can be off.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest

from tests.boards.nv_warp_harness import compiled, run
from tests.nv_cubins import needs_nvrtc
from tests.support import check

pytestmark = needs_nvrtc
_RNG = np.random.default_rng(16816)
WARPS, LANES = 40, 32
GRID, BLOCK = (10, 1, 1), (128, 1, 1)
COUNT = 20_480
Array = Any


def _mma(kind: str, a: int, b: int, c: int, letter: str) -> str:
    """A kernel of one mma.sync; registers of a lane lie together."""
    names = iter(range(99))
    groups = [[f"%{next(names)}" for _ in range(count)] for count in (c, a, b, c)]
    texts = ",".join("{" + ",".join(group) + "}" for group in groups)
    word = "float" if letter == "f" else "unsigned"
    outs = ",".join(f'"={letter}"(d[{k}])' for k in range(c))
    ins = ",".join([f'"r"(a[i*{a}+{k}])' for k in range(a)] + [f'"r"(b[i*{b}+{k}])' for k in
                   range(b)] + [f'"{letter}"(c[i*{c}+{k}])' for k in range(c)])  # fmt: skip
    stores = " ".join(f"o[i*{c}+{k}] = d[{k}];" for k in range(c))
    return (
        f'extern "C" __global__ void f({word} *o, const unsigned *a, const unsigned *b,'
        f" const {word} *c) {{ int i = blockIdx.x * 128 + threadIdx.x; {word} d[{c}];"
        f' asm volatile("mma.sync.aligned.{kind} {texts};" : {outs} : {ins}); {stores} }}'
    )


def _rows(values: Array, bits: int, rows: int) -> Array:
    """(warp, row, column) to (lane, register): PTX's fragments of a first factor, or a second."""
    each = 32 // bits
    warps, _, depth = values.shape
    parts = depth // (4 * each)
    shaped = values.reshape(warps, rows, 8, parts, 4, each)
    lanes = shaped.transpose(0, 2, 4, 3, 1, 5)
    return np.ascontiguousarray(lanes).reshape(warps * LANES, parts * rows, each)


def _words(lanes: Array, bits: int) -> Array:
    low = lanes.astype(np.int64) & (1 << bits) - 1
    return np.bitwise_or.reduce(low << bits * np.arange(lanes.shape[-1]), axis=-1).astype(np.uint32)


def _sums(values: Array, rows: int) -> Array:
    """(warp, row, 8 columns) to (lane, register) of the sums."""
    shaped = values.reshape(len(values), rows, 8, 4, 2).transpose(0, 2, 3, 1, 4)
    return np.ascontiguousarray(shaped).reshape(len(values) * LANES, 2 * rows)


def _run(source: str, out: Array, *inputs: Array) -> Array:
    buffers, found = run(compiled(source), (out, *inputs), GRID, BLOCK)
    check(not found, str(found[:3]))
    return buffers[0]


INTEGERS: Final = {
    "m8n8k16 s8": ("m8n8k16.row.col.s32.s8.s8.s32", 1, 16, 8, True, True),
    "m16n8k16 s8": ("m16n8k16.row.col.s32.s8.s8.s32", 2, 16, 8, True, True),
    "m16n8k32 s8 u8": ("m16n8k32.row.col.s32.s8.u8.s32", 2, 32, 8, True, False),
    "m16n8k32 u8": ("m16n8k32.row.col.s32.u8.u8.s32", 2, 32, 8, False, False),
    "m16n8k32 satfinite": ("m16n8k32.row.col.satfinite.s32.s8.s8.s32", 2, 32, 8, True, True),
    "m8n8k32 u4 s4": ("m8n8k32.row.col.s32.u4.s4.s32", 1, 32, 4, False, True),
    "m16n8k32 s4 u4": ("m16n8k32.row.col.s32.s4.u4.s32", 2, 32, 4, True, False),
    "m16n8k64 s4": ("m16n8k64.row.col.s32.s4.s4.s32", 2, 64, 4, True, True),
}


def _whole(shape: tuple[int, ...], bits: int, *, is_signed: bool) -> Array:
    low = -(1 << bits - 1) if is_signed else 0
    return _RNG.integers(low, low + (1 << bits), shape, np.int64)


@pytest.mark.parametrize("name", INTEGERS)
def test_imma_is_exact(name: str) -> None:
    kind, rows, depth, bits, first, second = INTEGERS[name]
    a = _whole((WARPS, 8 * rows, depth), bits, is_signed=first)
    b = _whole((WARPS, 8, depth), bits, is_signed=second)
    c = _RNG.integers(-(1 << 31), 1 << 31, (WARPS, 8 * rows, 8))
    c[::2] >>= 12
    total = np.einsum("wmk,wnk->wmn", a, b) + c
    if "satfinite" in kind:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    words = [_words(_rows(a, bits, rows), bits), _words(_rows(b, bits, 1), bits)]
    source = _mma(kind, words[0].shape[1], words[1].shape[1], 2 * rows, "r")
    addend = _sums(c, rows).astype(np.uint32)
    got = _run(source, np.zeros(addend.size, "u4"), *words, addend)
    expected = (_sums(total, rows) & 0xFFFFFFFF).astype(np.uint32)
    np.testing.assert_array_equal(got, expected.ravel())


FLOATS: Final = {
    "m16n8k16 f16": ("m16n8k16.row.col.f32.f16.f16.f32", 16, 16),
    "m16n8k8 f16": ("m16n8k8.row.col.f32.f16.f16.f32", 8, 16),
    "m16n8k16 bf16": ("m16n8k16.row.col.f32.bf16.bf16.f32", 16, -16),
    "m16n8k8 bf16": ("m16n8k8.row.col.f32.bf16.bf16.f32", 8, -16),
    "m16n8k8 tf32": ("m16n8k8.row.col.f32.tf32.tf32.f32", 8, 32),
    "m16n8k4 tf32": ("m16n8k4.row.col.f32.tf32.tf32.f32", 4, 32),
}


def _floats(shape: tuple[int, ...], kind: int, *, whole: bool) -> tuple[Array, Array]:
    """(numbers, their bits) in halves, bfloat16 or TF32."""
    values = _RNG.integers(-8, 9, shape) if whole else _RNG.standard_normal(shape)
    if kind == 16:
        halves = values.astype(np.float16)
        return halves.astype(np.float64), halves.view(np.uint16)
    words = values.astype(np.float32).view(np.uint32)
    words = words & np.uint32(0xFFFF0000 if kind < 0 else 0xFFFFE000)
    return words.view(np.float32).astype(np.float64), words >> 16 if kind < 0 else words


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "any"])
@pytest.mark.parametrize("name", FLOATS)
def test_hmma_is_the_sum(name: str, whole: bool) -> None:
    kind, depth, number = FLOATS[name]
    bits = abs(number)
    a, a_bits = _floats((WARPS, 16, depth), number, whole=whole)
    b, b_bits = _floats((WARPS, 8, depth), number, whole=whole)
    shape = WARPS, 16, 8
    given = _RNG.integers(-99, 99, shape) if whole else _RNG.standard_normal(shape)
    c = given.astype(np.float32)
    words = [_words(_rows(a_bits, bits, 2), bits), _words(_rows(b_bits, bits, 1), bits)]
    source = _mma(kind, words[0].shape[1], words[1].shape[1], 4, "f")
    got = _run(source, np.zeros(c.size, "f4"), *words, _sums(c, 2))
    total = np.einsum("wmk,wnk->wmn", a, b) + c
    expected = _sums(total.astype(np.float32), 2).ravel()
    if whole:
        np.testing.assert_array_equal(got, expected)
    sizes = _sums(np.einsum("wmk,wnk->wmn", np.abs(a), np.abs(b)) + np.abs(c), 2).ravel()
    error = np.abs(got.astype(np.float64) - _sums(total, 2).ravel())
    check(bool((error <= np.spacing(np.abs(expected)) / 2 + sizes * 2.0**-48).all()), name)


Exact = Callable[[Fraction, Fraction, Fraction], Fraction]
PAIRS: Final[dict[str, tuple[str, Exact]]] = {
    "add": ("add.rn.{} %0,%1,%2", lambda a, b, c: a + b),
    "sub": ("sub.rn.{} %0,%1,%2", lambda a, b, c: a - b),
    "mul": ("mul.rn.{} %0,%1,%2", lambda a, b, c: a * b),
    "fma": ("fma.rn.{} %0,%1,%2,%3", lambda a, b, c: a * b + c),
    "fma relu": ("fma.rn.relu.{} %0,%1,%2,%3", lambda a, b, c: max(a * b + c, Fraction(0))),
    "fma sat": (
        "fma.rn.sat.{} %0,%1,%2,%3",
        lambda a, b, c: min(max(a * b + c, Fraction(0)), Fraction(1)),
    ),
    "min": ("min.{} %0,%1,%2", lambda a, b, c: min(a, b)),
    "max": ("max.{} %0,%1,%2", lambda a, b, c: max(a, b)),
}
_ONLY_HALVES = ("add", "sub", "mul", "fma sat")
"""PTX ISA: bfloat16 has these from sm_90 on, or not at all."""


def _of_bits(bits: Array, *, brain: bool) -> Array:
    if brain:
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return bits.view(np.float16).astype(np.float64)


def _nearest(true: Fraction, found: int, *, brain: bool) -> bool:
    """Whether no other number of the format is nearer, or as near and even."""
    infinite, sign = (0x7F80, 0x8000) if brain else (0x7C00, 0x8000)
    size = found & ~sign
    if size > infinite or (size == 0) != (abs(true) <= Fraction(2) ** (-134 if brain else -25)):
        return False
    if size and (found & sign != 0) != (true < 0):
        return False
    near = [np.array([k], np.uint16) for k in (max(size - 1, 0), size, size + 1)]
    below, value, above = (float(_of_bits(k, brain=brain)[0]) for k in near)
    if size == infinite:
        step = Fraction(below) - Fraction(_before(size, brain=brain))
        return abs(true) >= Fraction(below) + step / 2
    error = abs(Fraction(value) - abs(true))
    others = [abs(Fraction(x) - abs(true)) for x in (below, above) if np.isfinite(x) and x != value]
    return all(error < x or (error == x and not size & 1) for x in others)


def _before(size: int, *, brain: bool) -> float:
    return float(_of_bits(np.array([size - 2], np.uint16), brain=brain)[0])


PAIR_CASES: Final = [(name, "f16x2") for name in PAIRS] + [
    (name, "bf16x2") for name in PAIRS if name not in _ONLY_HALVES
]


@pytest.mark.parametrize(("name", "kind"), PAIR_CASES)
def test_pairs_are_rounded_once(name: str, kind: str) -> None:
    text, exact = PAIRS[name]
    brain = kind == "bf16x2"
    bits = [_RNG.integers(0, 1 << 16, COUNT, np.uint16) for _ in range(3)]
    infinite = np.uint16(0x7F80 if brain else 0x7C00)
    one = np.uint16(0x3F80 if brain else 0x3C00)
    for each in bits:
        each[: COUNT // 2] = each[: COUNT // 2] & np.uint16(0x83FF) | one
        none = each & infinite == infinite
        each[none] = one
    asm = text.format(kind)
    operands = ',"r"(p[i]),"r"(q[i])' + (',"r"(r[i])' if "%3" in asm else "")
    source = (
        'extern "C" __global__ void f(unsigned *o, const unsigned *p, const unsigned *q,'
        " const unsigned *r) { int i = blockIdx.x * 128 + threadIdx.x; unsigned x;"
        f' asm("{asm};" : "=r"(x) : {operands[1:]}); o[i] = x; }}'
    )
    words = [each.view(np.uint32) for each in bits]
    grid = (COUNT // 2 // 128, 1, 1)
    buffers, found = run(compiled(source), (np.zeros(COUNT // 2, "u4"), *words), grid, BLOCK)
    check(not found, str(found[:3]))
    numbers = [[Fraction(x) for x in _of_bits(each, brain=brain).tolist()] for each in bits]
    for n, got in enumerate(buffers[0].view(np.uint16).tolist()):
        true = exact(*(each[n] for each in numbers))
        check(_nearest(true, got, brain=brain), f"{name} {n}: {got:#x}, not {float(true)}")

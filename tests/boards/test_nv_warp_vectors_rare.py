"""20,000 operands each of F2I, FRND, FMNMX, DMMA, IDP and VABSDIFF, against Python's exact numbers.

Each test looks into the compiled code first: the instruction that it is about has to be there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from boards.nv.isa.decode import WORD_BYTES, UnknownInstruction, decode
from tests.boards.nv_warp_harness import compiled, run
from tests.nv_cubins import needs_nvrtc
from tests.support import check

pytestmark = needs_nvrtc
COUNT, BLOCK = 20_000, 160
WORD = 1 << 32
ARCH = "sm_86"
_RNG = np.random.default_rng(1986)
_TYPES = {
    np.float32: "float", np.float64: "double", np.int32: "int",
    np.uint32: "unsigned", np.int64: "long long", np.uint64: "unsigned long long",
}  # fmt: skip


def mnemonics(code: bytes) -> set[str]:
    """What the words of a kernel are called, by the decoder's tables."""
    found = set()
    for at in range(0, len(code), WORD_BYTES):
        try:
            found.add(decode(int.from_bytes(code[at : at + WORD_BYTES], "little"), ARCH).mnemonic)
        except UnknownInstruction:
            continue
    return found


def results(name: str, kind: Any, expression: str, *sources: Any) -> Any:
    """What a kernel computes of each element; `name` is an instruction that it has."""
    letters = "abc"[: len(sources)]
    kinds = [_TYPES[each.dtype.type] for each in sources]
    pairs = list(zip(kinds, letters, strict=True))
    params = "".join(f", const {each} *p{letter}" for each, letter in pairs)
    loads = " ".join(f"{each} {letter} = p{letter}[i];" for each, letter in pairs)
    source = (
        f'extern "C" __global__ void f({_TYPES[kind]} *o{params}) {{ int i = blockIdx.x * {BLOCK}'
        f" + threadIdx.x; {loads} {_TYPES[kind]} r; {expression}; o[i] = r; }}"
    )
    kernel = compiled(source, ARCH)
    check(name in mnemonics(kernel[0]), f"no {name} in {sorted(mnemonics(kernel[0]))}")
    args = (np.zeros(COUNT, kind), *sources)
    buffers, found = run(kernel, args, (COUNT // BLOCK, 1, 1), (BLOCK, 1, 1))
    check(not found, str(found[:3]))
    return buffers[0]


def numbers(kind: Any) -> Any:
    """Of all exponents, many between 2^-2 and 2^62, halves between whole numbers, specials."""
    unsigned: Any = {4: np.uint32, 8: np.uint64}[np.dtype(kind).itemsize]
    any_bits = _RNG.integers(0, np.iinfo(unsigned).max, COUNT, unsigned, endpoint=True)
    values = any_bits.view(kind).copy()
    third = COUNT // 3
    with np.errstate(over="ignore"):
        scaled = _RNG.uniform(-1, 1, third) * 2.0 ** _RNG.integers(-2, 63, third)
        values[:third] = scaled.astype(kind)
    values[third : 2 * third] = (_RNG.integers(-4000, 4000, third) / 2).astype(kind)
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 0.5, -0.5, 2.0**31, -(2.0**31), 2.0**63]
    with np.errstate(over="ignore"):
        values[-len(edges) :] = np.array(edges).astype(kind)
    return values


def nearest(value: Fraction) -> int:
    return round(value)


MODES: dict[str, tuple[str, Callable[[Fraction], int]]] = {
    "rn": ("rni", nearest), "rz": ("rzi", math.trunc), "rd": ("rmi", math.floor),
    "ru": ("rpi", math.ceil),
}  # fmt: skip
SOURCES: dict[str, tuple[Any, str]] = {"f32": (np.float32, "f"), "f64": (np.float64, "d")}
INTEGERS: dict[str, tuple[Any, str]] = {
    "s32": (np.int32, "r"),
    "u32": (np.uint32, "r"),
    "s64": (np.int64, "l"),
    "u64": (np.uint64, "l"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("to", INTEGERS)
@pytest.mark.parametrize("given", ["f32", "f64"])
def test_f2i_is_pythons_rounding_within_the_integers(given: str, to: str, mode: str) -> None:
    """Out of range: the nearest end. NaN: 0, or the highest bit alone where 64 bits take part.

    src: PTX ISA, cvt
    """
    kind, letter = SOURCES[given]
    result, place = INTEGERS[to]
    name, exact = MODES[mode]
    source = numbers(kind)
    text = f'asm("cvt.{name}.{to}.{given} %0, %1;" : "={place}"(r) : "{letter}"(a))'
    got = results("F2I", result, text, source).tolist()
    limits = np.iinfo(result)
    wide = "64" in given + to
    nothing = int(limits.min) if result in (np.int32, np.int64) else 1 << limits.bits - 1
    for number, value in zip(source.tolist(), got, strict=True):
        if math.isnan(number):
            expected = nothing if wide else 0
        elif math.isinf(number):
            expected = int(limits.max if number > 0 else limits.min)
        else:
            expected = min(max(exact(Fraction(number)), int(limits.min)), int(limits.max))
        check(value == expected, f"{number!r} became {value}, not {expected}")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("given", ["f32", "f64"])
def test_frnd_is_pythons_rounding_with_its_sign(given: str, mode: str) -> None:
    """Whole numbers; a zero keeps the sign of what it came from."""
    (kind, letter), (name, exact) = SOURCES[given], MODES[mode]
    source = numbers(kind)
    text = f'asm("cvt.{name}.{given}.{given} %0, %1;" : "={letter}"(r) : "{letter}"(a))'
    got = results("FRND", kind, text, source).tolist()
    for number, value in zip(source.tolist(), got, strict=True):
        if math.isnan(number):
            check(math.isnan(value), f"{value} of no number")
            continue
        expected = number if math.isinf(number) else float(exact(Fraction(number)))
        same = math.copysign(1.0, value) == math.copysign(1.0, number)
        check(value == expected and same, f"{number!r} became {value!r}, not {expected!r}")


def order(value: float) -> tuple[float, float]:
    """The order of numbers, -0 below +0."""
    return value, math.copysign(1.0, value)


@pytest.mark.parametrize("nan", ["", ".NaN"], ids=["number", "nan"])
@pytest.mark.parametrize("name", ["min", "max"])
def test_fmnmx_orders_numbers_and_zeros(name: str, nan: str) -> None:
    """What is no number loses, or with .NaN wins; the result is then the one NaN 0x7FFFFFFF.

    src: PTX ISA, min, max
    """
    a, b = numbers(np.float32), numbers(np.float32)
    b = b[_RNG.permutation(COUNT)]
    a[:2000:2], b[:2000:2] = 0.0, -0.0
    a[1:2000:2], b[1:2000:2] = -0.0, 0.0
    a[2000:3000], b[2500:3500] = np.nan, np.nan
    text = f'asm("{name}{nan}.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b))'
    bits = results("FMNMX", np.float32, text, a, b).view(np.uint32).tolist()
    chosen = min if name == "min" else max
    for one, other, got in zip(a.tolist(), b.tolist(), bits, strict=True):
        left = [value for value in (one, other) if not math.isnan(value)]
        if not left or (nan and len(left) < 2):
            check(got == 0x7FFFFFFF, f"{one!r}, {other!r}: {got:#x}")
            continue
        expected = int(np.float32(chosen(left, key=order)).view(np.uint32))
        check(got == expected, f"{one!r}, {other!r}: {got:#x}, not {expected:#x}")


def byte(word: int, place: int, *, is_signed: bool) -> int:
    value = word >> 8 * place & 0xFF
    return value - 256 if is_signed and value >> 7 else value


def half(word: int, place: int, *, is_signed: bool) -> int:
    value = word >> 16 * place & 0xFFFF
    return value - 65536 if is_signed and value >> 15 else value


def words() -> tuple[Any, Any, Any]:
    a, b, c = (_RNG.integers(0, WORD, COUNT, np.uint32) for _ in range(3))
    a[:64], b[32:96], c[:128] = 0x80808080, 0x7F80FF00, 0x7FFFFFFF
    return a, b, c


@pytest.mark.parametrize("first", "su")
@pytest.mark.parametrize("second", "su")
@pytest.mark.parametrize("kind", ["dp4a", "dp2a.lo", "dp2a.hi"])
def test_idp_is_the_sum_of_products(kind: str, second: str, first: str) -> None:
    text = f"{kind}.{first}32.{second}32"
    a, b, c = words()
    text = f'asm("{text} %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c))'
    got = results("IDP", np.uint32, text, a, b, c).tolist()
    one, two = {"is_signed": first == "s"}, {"is_signed": second == "s"}
    upper = 2 if kind.endswith("hi") else 0
    for x, y, z, value in zip(a.tolist(), b.tolist(), c.tolist(), got, strict=True):
        if kind == "dp4a":
            total = sum(byte(x, n, **one) * byte(y, n, **two) for n in range(4))
        else:
            total = sum(half(x, n, **one) * byte(y, upper + n, **two) for n in range(2))
        check(value == (total + z) % WORD, f"{x:#x}, {y:#x}, {z:#x}: {value:#x}")


def signed(word: int) -> int:
    return word - WORD if word >> 31 else word


DISTANCES: dict[str, tuple[str, str, Callable[[int, int, int], int]]] = {
    "VABSDIFF signed": (
        "VABSDIFF", "r = __sad((int)a, (int)b, c)",
        lambda a, b, c: abs(signed(a) - signed(b)) + c,
    ),
    "VABSDIFF": ("VABSDIFF", "r = __usad(a, b, c)", lambda a, b, c: abs(a - b) + c),
    "VABSDIFF4 sum": (
        "VABSDIFF4", 'asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;"'
        ' : "=r"(r) : "r"(a), "r"(b), "r"(c))',
        lambda a, b, c: c + sum(
            abs(byte(a, n, is_signed=False) - byte(b, n, is_signed=False)) for n in range(4)
        ),
    ),
    "VABSDIFF4 signed sum": (
        "VABSDIFF4", 'asm("vabsdiff4.u32.s32.s32.add %0, %1, %2, %3;"'
        ' : "=r"(r) : "r"(a), "r"(b), "r"(c))',
        lambda a, b, c: c + sum(
            abs(byte(a, n, is_signed=True) - byte(b, n, is_signed=True)) for n in range(4)
        ),
    ),
    "VABSDIFF4 bytes": (
        "VABSDIFF4", 'asm("vabsdiff4.u32.u32.u32 %0, %1, %2, %3;"'
        ' : "=r"(r) : "r"(a), "r"(b), "r"(0)); r ^= c',
        lambda a, b, c: c ^ sum(
            abs(byte(a, n, is_signed=False) - byte(b, n, is_signed=False)) << 8 * n
            for n in range(4)
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DISTANCES)
def test_vabsdiff_is_the_distance(name: str) -> None:
    instruction, text, exact = DISTANCES[name]
    a, b, c = words()
    got = results(instruction, np.uint32, text, a, b, c).tolist()
    for x, y, z, value in zip(a.tolist(), b.tolist(), c.tolist(), got, strict=True):
        expected = exact(x, y, z) % WORD
        check(value == expected, f"{x:#x}, {y:#x}, {z:#x}: {value:#x}, not {expected:#x}")


LANES, PER_WARP = 32, 64
DMMA = """extern "C" __global__ void f(double *o, double *a, double *b, double *c) {
  int i = blockIdx.x * 32 + threadIdx.x; double x, y;
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%4,%5};"
      : "=d"(x), "=d"(y) : "d"(a[i]), "d"(b[i]), "d"(c[2 * i]), "d"(c[2 * i + 1]));
  o[2 * i] = x; o[2 * i + 1] = y; }"""


def fused(a: float, b: float, c: float) -> float:
    """A product and a sum, rounded once: the division of integers is."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return exact.numerator / exact.denominator


def test_dmma_rounds_each_product_and_sum_once() -> None:
    """Four products a result, added to it one after the other.

    src: PTX ISA, mma.m8n8k4 with .f64: lane of row r and column k of A is 4r + k, of B 4n + k; of
    sums c0 and c1 of lane l are row l / 4, columns 2 (l % 4) and the next
    """
    warps = -(-COUNT // PER_WARP)
    shape = warps, LANES
    scale = 2.0 ** _RNG.integers(-30, 30, shape)
    a, b = _RNG.standard_normal(shape) * scale, _RNG.standard_normal(shape)
    c = _RNG.standard_normal((warps, PER_WARP)) * np.repeat(scale, 2, axis=1)
    kernel = compiled(DMMA, ARCH)
    check("DMMA" in mnemonics(kernel[0]), "no DMMA")
    args = np.zeros(c.size), a, b, c
    buffers, found = run(kernel, args, (warps, 1, 1), (LANES, 1, 1))
    check(not found, str(found[:3]))
    got = buffers[0].reshape(warps, LANES, 2).tolist()
    one, two, start = a.tolist(), b.tolist(), c.reshape(warps, LANES, 2).tolist()
    for warp in range(warps):
        for lane in range(LANES):
            row = lane // 4
            for place in range(2):
                column, value = 2 * (lane % 4) + place, start[warp][lane][place]
                for k in range(4):
                    value = fused(one[warp][4 * row + k], two[warp][4 * column + k], value)
                check(got[warp][lane][place] == value, f"warp {warp}, {row}, {column}")

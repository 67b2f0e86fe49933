"""Blackwell's float and integer instructions of uniform registers, and its sums of halves.

A word is put together from its fields; the decoder, whose text is nvdisasm's, says that it is the
instruction that is meant.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from boards.nv.isa.decode import decode
from boards.nv.isa.text import text
from boards.nv.launch import Launch
from boards.nv.space import GpuSpace
from boards.nv.warp.arch import of_chip
from boards.nv.warp.build import Builder
from boards.nv.warp.memory import GlobalMemory
from boards.nv.warp.opcodes import UNIFORM, action
from boards.nv.warp.reach import Reach
from boards.nv.warp.state import Threads
from tests.boards.nv_warp_harness import LOCAL_WINDOW, SHARED_WINDOW, chip_of
from tests.support import check

SM, LANES = 120, 32
OUT, A, B, C = 8, 2, 4, 6
TRUE: Final = 7
PREDICATE_AT, OUT_1, OUT_2 = 87, 81, 84
ALWAYS = TRUE << PREDICATE_AT
NOWHERE = TRUE << OUT_1 | TRUE << OUT_2
draw = np.random.default_rng(120)


def _floats(low: int) -> Any:
    """With numbers that are small, large, infinite, none."""
    values = draw.standard_normal(LANES).astype("f4") * np.float32(10) ** low
    values[:4] = np.inf, -np.inf, np.nan, -0.0
    return draw.permutation(values)


X, Y, Z = _floats(0), _floats(1), _floats(2)
M, N = (draw.integers(0, 1 << 32, LANES, np.uint32) for _ in range(2))


def _fused() -> Any:
    """Products of singles are exact in a double, and so are these sums, but for their last bits."""
    wide = X.astype(np.longdouble) * Y.astype(np.longdouble) + Z.astype(np.longdouble)
    return wide.astype("f4")


def _smaller() -> Any:
    less = (X < Y) | (X == Y) & np.signbit(X)
    return np.where(np.isnan(X), Y, np.where(np.isnan(Y), X, np.where(less, X, Y)))


with np.errstate(all="ignore"):
    FLOATS: Final = {
        "UFADD UR8, UR2, UR6": (0x254 | C << 64, X + Z),
        "UFADD UR8, UR2, -UR6": (0x254 | C << 64 | 1 << 75, X - Z),
        "UFMUL UR8, UR2, UR4": (0x256 | B << 32 | 4 << 84, X * Y),
        "UFFMA UR8, UR2, UR4, UR6": (0x255 | B << 32 | C << 64, _fused()),
        "UFSEL UR8, UR2, UR4, !UPT": (0x251 | B << 32 | ALWAYS | 8 << PREDICATE_AT, Y),
        "UFMNMX UR8, UR2, UR4, UPT": (0x250 | B << 32 | TRUE << 66 | ALWAYS, _smaller()),
    }
INTEGERS: Final = {
    "UVIADD.32 UR8, UR2, UR4": (0x249 | B << 32, M + N),
    "UVIADD.32 UR8, UR2, -UR4": (0x249 | B << 32 | 1 << 63, M - N),
    "UVIMNMX.U32 UR8, UR2, UR4, UPT": (0x24A | B << 32 | ALWAYS, np.minimum(M, N)),
    "UVIMNMX.S32 UR8, UR2, UR4, !UPT": (
        0x24A | B << 32 | 1 << 72 | ALWAYS | 8 << PREDICATE_AT,
        np.maximum(M.view("i4"), N.view("i4")),
    ),
    "UIABS UR8, UR4": (0x24D | B << 32, np.abs(N.view("i4"))),
    "UIMAD.HI.U32 UR8, UR2, UR4, URZ": (
        0x2A6 | B << 32 | 255 << 64 | TRUE << OUT_1 | 0xF << PREDICATE_AT,
        (M.astype("u8") * N.astype("u8") >> np.uint64(32)).astype("u4"),
    ),
}  # fmt: skip


def _prepared(word: int) -> tuple[Threads, Any]:
    chip = chip_of(SM)
    space = GpuSpace(49)
    launch = Launch(
        chip=chip, code_va=0, space=space, grid=(1, 1, 1), block=(LANES, 1, 1), constants={},
        registers=32, barriers=0, shared_bytes=0, local_bytes=0,
        shared_window=SHARED_WINDOW, local_window=LOCAL_WINDOW,
    )  # fmt: skip
    build = Builder(word, 0, {}, of_chip(chip))
    build.take(0, 12)
    build.predicate_in(12, 15, uniform=word & 0x1FF in UNIFORM)
    run = action(build, Reach(GlobalMemory(space), {}, lambda what: None))
    build.finish()
    return Threads(launch, 0, 1), run


def _ran(word: int, sources: dict[int, Any], *, uniform: bool = True) -> Threads:
    t, run = _prepared(word)
    rows = t.uniforms if uniform else t.registers
    for number, values in sources.items():
        rows[number] = values.view("u4")
    run(t, t.alive)
    return t


def _word(fields: int) -> int:
    return fields | TRUE << 12 | OUT << 16 | A << 24 | 1 << 91


def _named(word: int, name: str) -> None:
    check((found := text(decode(word | 0xFC << 108, "sm_120"), 0).rstrip(" ;")) == name, found)


@pytest.mark.parametrize("name", FLOATS)
def test_floats_of_a_warp(name: str) -> None:
    fields, expected = FLOATS[name]
    word = _word(fields)
    _named(word, name)
    with np.errstate(all="ignore"):
        t = _ran(word, {A: X, B: Y, C: Z})
    np.testing.assert_array_equal(t.uniforms[OUT].view("f4"), expected)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_of_a_warp(name: str) -> None:
    fields, expected = INTEGERS[name]
    word = _word(fields) & ~(A << 24 if "UIABS" in name else 0)
    _named(word, name)
    t = _ran(word, {A: M, B: N})
    np.testing.assert_array_equal(t.uniforms[OUT], expected.view("u4"))


@pytest.mark.parametrize("condition", range(16))
def test_floats_of_a_warp_compared(condition: int) -> None:
    fields = 0x253 | B << 32 | condition << 76 | 1 << OUT_1 | 2 << OUT_2 | ALWAYS
    t = _ran(_word(fields) & ~(0xFF << 16), {A: X, B: Y})
    truths = (X < Y, X == Y, X > Y, np.isnan(X) | np.isnan(Y))
    held = np.zeros(LANES, bool)
    for bit, truth in enumerate(truths):
        held |= truth if condition >> bit & 1 else False
    np.testing.assert_array_equal(t.uniform_predicates[1], held)
    np.testing.assert_array_equal(t.uniform_predicates[2], ~held)


def _halves(words: Any, *, brain: bool, upper: bool) -> Any:
    part = words >> np.uint32(16) if upper else words & np.uint32(0xFFFF)
    if brain:
        return (part << np.uint32(16)).view("f4")
    return part.astype("u2").view("f2").astype("f4")


@pytest.mark.parametrize("upper", [False, True], ids=["low", "high"])
@pytest.mark.parametrize("brain", [False, True], ids=["half", "bfloat16"])
def test_a_half_and_a_single(brain: bool, upper: bool) -> None:
    more = brain << 82 | upper << 83 | 1 << 81
    sources = {A: M, B: N, C: Z}
    parts = (_halves(x, brain=brain, upper=upper) for x in (M, N))
    with np.errstate(all="ignore"):
        total = _ran((_word(0x221 | C << 32 | more)) & ~(1 << 91), sources, uniform=False)
        word = _word(0x223 | B << 32 | C << 64 | more | upper << 84) & ~(1 << 91)
        product = _ran(word, sources, uniform=False)
        one, two = (x.astype(np.longdouble) for x in parts)
        sums = one.astype("f4") + Z
        wide = (one * two + Z.astype(np.longdouble)).astype("f4")
    np.testing.assert_array_equal(total.registers[OUT].view("f4"), sums)
    np.testing.assert_array_equal(product.registers[OUT].view("f4"), wide)

"""What gfx90a computes in its own way: products and sums of f32 that flush denormals."""

from __future__ import annotations

import numpy as np
import pytest

from boards.amd.isa.decode import decode
from boards.amd.isa.gfx90a import GFX90A
from boards.amd.isa.text import disassemble
from boards.amd.wave.execute import bind
from boards.amd.wave.operands import UnsupportedOperand
from boards.amd.wave.state import Waves
from tests.boards.isa_kernels import IDS
from tests.boards.wave_harness import kernel, launch
from tests.support import check

_TINY, _STEP = np.float32(2.0**-126), np.float32(1 + 2.0**-23)
# (a, b, c, a * b rounded, plus c rounded, with denormals as zeros of their sign)
# src: LLVM SIISelLowering.cpp isFMAFasterThanFMulAndFAdd(), "the same result as the separate
# src: operations", and not to be used where denormals are supported
_CASES = [
    (3.0, 4.0, 5.0, 17.0),
    (_STEP, _STEP, -np.float32(1 + 2.0**-22), 0.0),  # fused it is 2**-46
    (np.float32(1e-40), 1e30, 0.0, 0.0),  # a denormal factor
    (_TINY, 0.5, 0.0, 0.0),  # a denormal product
    (1.0, _TINY, -np.float32(1.5) * _TINY, -0.0),  # a denormal sum
    (1.0, 1.0, np.float32(1e-39), 1.0),
]
_MAD = (0xD1C10003, 0x040A0300)
_MADMK, _MADAK = (0x2E060300, 0x3FC00000), (0x30060300, 0x3FC00000)
_MAC = (0x2C060300,)
"""v_mad_f32 v3, v0, v1, v2; v_madmk_f32 v3, v0, 1.5, v1; v_madak_f32 v3, v0, v1, 1.5; v_mac_f32"""


def ran(words: tuple[int, ...], registers: list[np.ndarray]) -> np.ndarray:
    """v3 after one instruction, whose v0 and up hold these values; denormals are on in MODE."""
    w = Waves(1, 64, 8, 0, 1)
    w.set_mode(np.full(1, 0xF0, np.uint32))
    for number, values in enumerate(registers):
        w.vgpr[number] = np.resize(values.astype(np.float32), 64).view(np.uint32)
    for word in (126, 127):
        w.put_scalar(word, np.full(1, 0xFFFFFFFF, np.uint32))
    run = bind(decode(GFX90A, [*words, 0, 0, 0], 0))
    if run is None:
        raise AssertionError("no meaning")
    run(w)
    found: np.ndarray = w.vgpr[3][0, : len(registers[0])].copy().view(np.float32)
    return found


def columns() -> list[np.ndarray]:
    """The cases' a, b, c, and results."""
    return [np.array(column, np.float32) for column in zip(*_CASES, strict=True)]


def bits(values: np.ndarray) -> list[int]:
    return [int(value) for value in values.view(np.uint32)]


def test_products_and_sums_are_two_operations_without_denormals() -> None:
    a, b, c, wanted = columns()
    check(bits(ran(_MAD, [a, b, c])) == bits(wanted), f"{ran(_MAD, [a, b, c])}, not {wanted}")
    check(bits(ran(_MAC, [a, b, c, c])) == bits(wanted), f"{ran(_MAC, [a, b, c, c])}")


def test_forms_with_a_literal() -> None:
    a, b = np.array([2.0, -4.0], np.float32), np.array([1.0, 0.25], np.float32)
    np.testing.assert_array_equal(ran(_MADMK, [a, b]), a * 1.5 + b)
    np.testing.assert_array_equal(ran(_MADAK, [a, b]), a * b + 1.5)
    words = (_MAD, _MADMK, _MADAK, _MAC)
    texts = [" ".join(disassemble(decode(GFX90A, [*w, 0, 0, 0], 0)).split()) for w in words]
    check(texts == [
        "v_mad_f32 v3, v0, v1, v2", "v_madmk_f32 v3, v0, 0x3fc00000, v1",
        "v_madak_f32 v3, v0, v1, 0x3fc00000", "v_mac_f32_e32 v3, v0, v1",
    ], str(texts))  # fmt: skip


def test_signs_of_f64_factors_are_refused() -> None:
    # v_mfma_f64_4x4x4f64 a[0:1], v[0:1], v[2:3], a[0:1] with BLGP 1
    words = [0xD3EF8000, 0x04020500, 0, 0]
    plain = bind(decode(GFX90A, words, 0))
    check(plain is not None, "without BLGP it is executed")
    with pytest.raises(UnsupportedOperand, match="blgp"):
        bind(decode(GFX90A, [words[0], words[1] | 1 << 29, 0, 0], 0))


_DIVIDE = kernel(
    """  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %pa = getelementptr i32, ptr addrspace(1) %a, i32 %t
  %pb = getelementptr i32, ptr addrspace(1) %b, i32 %t
  %va = load i32, ptr addrspace(1) %pa
  %vb = load i32, ptr addrspace(1) %pb
  %q = udiv i32 %va, %vb
  store i32 %q, ptr addrspace(1) %pa
  ret void""",
    "ptr addrspace(1) noalias %a, ptr addrspace(1) noalias %b",
    top=IDS,
)


def test_division_of_integers_that_llvm_makes_of_them() -> None:
    random = np.random.default_rng(3)
    a = random.integers(0, 1 << 32, 64).astype(np.uint32)
    b = (random.integers(1, 1 << 32, 64) >> random.integers(0, 31, 64)).astype(np.uint32) | 1
    wanted = a // b
    report = launch(_DIVIDE, [a, b], workgroup=(64, 1, 1), cpu="gfx90a")
    np.testing.assert_array_equal(a, wanted)
    check(not report.violations, str(report.violations))

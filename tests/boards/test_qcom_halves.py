"""float16 on the board: conversions keep subnormal numbers; arithmetic in half registers is numpy's
but for them, where kernels are rendered for it."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from boards.front import Setup, power_on, tuning_of
from compilers import dtype as dt
from compilers import graph
from queues.qcom.kernel_code import FLUSH16
from tests.boards.qcom_runner import compute
from tests.compilers.lowering import leaf, matmul
from tests.qcom_devices import QcomMachine, opened
from tests.support import check

every_chip = pytest.mark.parametrize("arch", ["a630", "a660", "a740", "x1-85"])
FAST = frozenset({FLUSH16})
COUNT = 4000
SMALLEST = np.float16(2.0**-14)
PLAIN = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
COMPARED = {"lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal}


def every_half() -> np.ndarray:
    return np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)


def halves(seed: int) -> np.ndarray:
    """Bits of all kinds, a third of them near 1."""
    numbers = np.random.default_rng(seed)
    raw = numbers.integers(0, 1 << 16, COUNT).astype(np.uint16).view(np.float16)
    raw[::3] = numbers.standard_normal(COUNT)[::3].astype(np.float16)
    return raw


def flushed(values: np.ndarray) -> np.ndarray:
    """# src: Mesa 25.0.7, tu_device.cc: shaderDenormPreserveFloat16 is false"""
    small = np.abs(values) < SMALLEST
    return np.where(small, np.copysign(np.float16(0), values), values)


def same(got: np.ndarray, want: np.ndarray) -> None:
    bits = f"u{want.dtype.itemsize}"
    equal = (got.view(bits) == want.view(bits)) | ((got != got) & (want != want))
    check(bool(equal.all()), f"{(~equal).sum()} differ: {got[~equal][:4]}, not {want[~equal][:4]}")


@every_chip
def test_every_float16_is_that_float32(arch: str) -> None:
    values = every_half()
    (found,) = compute([graph.cast(leaf(values), dt.float32)], arch)
    same(found, values.astype(np.float32))


@pytest.mark.parametrize("seed", range(4))
@every_chip
def test_float32_is_rounded_once(arch: str, seed: int) -> None:
    numbers = np.random.default_rng(seed)
    values = (numbers.standard_normal(COUNT) * 2.0 ** numbers.integers(-27, 18, COUNT)).astype("f4")
    kept = np.abs(every_half()[(COUNT * seed) : (COUNT * (seed + 1))].astype(np.float32))
    values[1::2] = ((kept + np.nextafter(kept, np.float32(9e9))) / 2)[1::2]
    values[::4] = (kept + np.float32(2.0**-25))[::4]
    values[:4] = np.inf, np.nan, 65520, -65519
    with np.errstate(over="ignore"):
        (found,) = compute([graph.cast(leaf(values), dt.float16)], arch)
        same(found, values.astype(np.float16))


@pytest.mark.parametrize("op", PLAIN)
@pytest.mark.parametrize("fast", [False, True])
@every_chip
def test_sums_and_products(arch: str, op: str, *, fast: bool) -> None:
    a, b = halves(1), halves(2)
    with np.errstate(all="ignore"):
        want = flushed(PLAIN[op](flushed(a), flushed(b))) if fast else PLAIN[op](a, b)
        root = graph.binary(op, leaf(a), leaf(b))
        (found,) = compute([root], arch, features=FAST if fast else frozenset())
    same(found, want)


@pytest.mark.parametrize("op", COMPARED)
@pytest.mark.parametrize("arch", ["a630", "a740"])
def test_comparisons_in_half_registers(arch: str, op: str) -> None:
    a, b = halves(3), halves(4)
    b[::5] = a[::5]
    root = graph.binary(op, leaf(a), leaf(b))
    (found,) = compute([root], arch, features=FAST)
    np.testing.assert_array_equal(found, COMPARED[op](flushed(a), flushed(b)))


@pytest.mark.parametrize("registers", [0, 4])
@every_chip
def test_steps_in_half_registers(arch: str, registers: int) -> None:
    """Whole numbers of which all sums are exact; few registers keep halves in private memory."""
    numbers = np.random.default_rng(5)
    a, b = (numbers.integers(-3, 4, (48, 48)).astype(np.float16) for _ in range(2))
    roots = [matmul(leaf(a), leaf(b)), graph.reduce("add", leaf(a), (0,))]
    product, total = compute(roots, arch, registers, FAST)
    np.testing.assert_array_equal(product, a.astype(int) @ b.astype(int))
    np.testing.assert_array_equal(total, a.sum(0))


@pytest.mark.parametrize("setting", ["", "0", "1"])
def test_a_setting_asks_for_half_registers(setting: str) -> None:
    with opened(QcomMachine("a630", "KGSL"), "KGSL", {"QCOM_FLUSH16": setting}) as made:
        check((FLUSH16 in made.limits.features) == (setting == "1"), str(made.limits.features))


def test_a_board_keeps_the_setting() -> None:
    tuning = tuning_of("a630", {"QCOM_FLUSH16": "1", "QCOM_IFACE": "MSM", "AMD_HANG_S": "1"})
    check(tuning == {"QCOM_FLUSH16": "1"}, f"{tuning}")
    with closing(power_on(Setup("a630", tuning=tuning)).open()) as device:
        check(FLUSH16 in device.limits.features, str(device.limits.features))

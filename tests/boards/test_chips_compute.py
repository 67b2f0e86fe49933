"""Chips that are others' data compute what numpy does: sums and products, in PM4 and AQL."""

from __future__ import annotations

import numpy as np
import pytest

import tensor as xp
from tests import amd_kernels
from tests.board_option import board_as
from tests.boards.driver_harness import device_on, get, kernel
from tests.support import check

DEVICE = "AMD:6"
"""A name that no other test takes."""
CHIPS = [("gfx90a", "KFD"), ("gfx1103", "KFD"), ("gfx1150", "KFD"), ("gfx1151", "KFD"),
         ("gfx1101", "PCI"), ("gfx1102", "PCI"), ("gfx1200", "PCI")]  # fmt: skip


def product(dtype: str) -> None:
    """Small whole numbers, whose products every order of additions and every type gets right."""
    random = np.random.default_rng(7)
    for m, n, k in ((16, 16, 16), (33, 40, 70)):
        left, right = (random.integers(-4, 5, s).astype(np.float32) for s in ((m, k), (k, n)))
        a, b = (xp.asarray(each, device=DEVICE) for each in (left, right))
        kind = getattr(xp, dtype)
        found = xp.astype(xp.astype(a, kind) @ xp.astype(b, kind), xp.float32).numpy()
        wanted = left @ right
        check(np.abs(wanted).max() <= 256, "each of these types holds it")
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
@pytest.mark.parametrize(("chip", "iface"), CHIPS)
def test_sums_and_products(chip: str, iface: str, queue: str) -> None:
    with board_as(DEVICE, chip, queue, "LLVM", iface) as board:
        values = np.arange(1000, dtype=np.float32)
        doubled = xp.asarray(values, device=DEVICE) + xp.asarray(values[::-1].copy(), device=DEVICE)
        np.testing.assert_array_equal(doubled.numpy(), np.full(1000, 999, np.float32))
        for dtype in ("float32", "float16", "bfloat16"):
            product(dtype)
        found = [str(violation) for violation in board.violations]
        check(not found, f"the board found {found}")


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
@pytest.mark.parametrize(("chip", "iface"), CHIPS)
def test_private_memory(chip: str, iface: str, queue: str) -> None:
    """gfx90a's kernels are told where it is in registers, the others' hardware knows."""
    with device_on(chip, f"PCI {queue}" if iface == "PCI" else queue) as (_, device):
        program = device.load(kernel(amd_kernels.scratch(), chip, 64))
        out = device.alloc(4 * 64)
        device.launch(program, [out, 5], 1)
        np.testing.assert_array_equal(get(device, out, "int32"), 25 + np.arange(64))

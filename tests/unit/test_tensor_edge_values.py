"""Casts and operations on values at the edges of their dtypes, beside numpy bit for bit.

All values of a pair of dtypes are one array, so that a pair costs one kernel. Expected: numpy's.
"""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pytest

import tensor as xp
from drivers.base.errors import Unsupported
from tests.share import part, turn
from tests.support import check

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
EVERY = ("bool", *INTEGERS, *FLOATS)
OPERATIONS = ("add", "subtract", "multiply", "minimum", "maximum", "less", "equal")


def edges(name: str) -> Any:
    """Limits, neighbours of limits, zeros of both signs, what is no number."""
    kind = np.dtype(name)
    if kind.kind == "b":
        return np.array([False, True])
    if kind.kind in "iu":
        low, high = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
        found = {low, low + 1, -5, -1, 0, 1, 7, 100, high // 2, high // 2 + 1, high - 1, high}
        return np.array(sorted(one for one in found if low <= one <= high), kind)
    top = np.finfo(kind)
    return np.array(
        [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 100.0, top.max, -top.max, 4 * top.tiny,
         -4 * top.tiny, np.inf, -np.inf, np.nan], kind,
    )  # fmt: skip


def same(got: Any, wanted: Any, what: str) -> None:
    """Bit for bit, but that NaN is NaN."""
    if wanted.dtype.kind == "f":
        check(np.array_equal(np.isnan(got), np.isnan(wanted)), f"{what}: NaN in {got}")
        signs = np.where(np.isnan(wanted), False, np.signbit(got) != np.signbit(wanted))
        check(not signs.any(), f"{what}: sign of {got[signs]}")
    np.testing.assert_array_equal(got, wanted, what)


def _fits(values: Any, target: str) -> Any:
    """Those whose cast is defined: not what no integer of the target is."""
    kind = np.dtype(target)
    if values.dtype.kind != "f" or kind.kind not in "iu":
        return values
    limits = np.iinfo(kind)
    whole = np.isfinite(values)
    inside = np.abs(np.where(whole, values, 0).astype(np.float64)) < min(float(limits.max), 2**53)
    return values[whole & inside & ((values > -1) | (limits.min < 0))]


def test_casts() -> None:
    """From every dtype to every other one."""
    pairs = today([(a, b) for a in EVERY for b in EVERY if a != b], 33, 8)
    refused = 0
    for source, target in pairs:
        values = _fits(edges(source), target)
        try:
            got = xp.astype(xp.asarray(values), getattr(xp, target)).numpy()
        except Unsupported:  # no float64, no int64 on this device
            refused += 1
            continue
        with np.errstate(over="ignore"):
            wanted = values.astype(target)
        same(got, wanted, f"{source} to {target}")
    check(refused < len(pairs), "this device casts nothing")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operations(operation: str) -> None:
    """A column with a row, of each dtype."""
    done = 0
    for name in today([*INTEGERS, *FLOATS], 6, 2):
        values = edges(name)
        column, row = values[:, None].copy(), values
        try:
            got = getattr(xp, operation)(xp.asarray(column), xp.asarray(row)).numpy()
        except Unsupported:
            continue
        with np.errstate(all="ignore"):
            wanted = getattr(np, operation)(column, row)
        if wanted.dtype.kind == "f" and operation in {"minimum", "maximum"}:  # either zero
            got, wanted = got + got.dtype.type(0), wanted + wanted.dtype.type(0)
        same(got, wanted, f"{operation} of {name}")
        done += 1
    check(done, "nothing was computed")


@pytest.mark.parametrize("wide", ["float16", "float32"])
def test_products_that_become_halves(wide: str) -> None:
    """Of halves, and of float32 that is rounded once more: the sign of zero stays."""
    values = edges("float16")[:8]
    column, row = values[:, None].astype(wide), values.astype(wide)
    got = xp.astype(xp.asarray(column) * xp.asarray(row), xp.float16).numpy()
    same(got, (column * row).astype(np.float16), f"products of {wide}")


def today(things: list[Any], count: int, of_a_share: int) -> list[Any]:
    """Those whose turn it is: each costs a kernel, and on some devices a second."""
    return turn(things, part(count, of_a_share), date.today().toordinal(), "edges")

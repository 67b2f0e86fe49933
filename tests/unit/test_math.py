"""Elementary functions: error in units of the last place, and the special cases of C Annex F."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from compilers import dtype as dt
from compilers.graph import MATH1
from tests.support import check
from tests.unit.kernel_harness import HOST, RENDERERS, VECTOR, Call, apply_all, by_all
from tests.unit.test_render_ops import check_calls, same

NAN, INF = float("nan"), float("inf")
EXACT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": np.vectorize(math.erf),
}  # fmt: skip
MAX_ULP = 2.0
LIBRARY_ULP = 3.0
POLYNOMIAL = ("exp", "exp2", "expm1", "log", "log2", "log1p", "tanh", "erf", "sin", "cos", "tan")
NO_FMA = HOST - {name for name in HOST if name.startswith("avx512") or name == "fma"}
SPECIAL = {
    "exp": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (89.0, INF), (-104.0, 0.0)],
    "exp2": [(0.0, 1.0), (INF, INF), (-INF, 0.0), (128.0, INF), (127.0, 2.0**127),
             (-149.0, 2.0**-149), (-151.0, 0.0), (10.0, 1024.0)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0), (-30.0, -1.0), (89.0, INF)],
    "log": [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (-1.0, NAN), (-INF, NAN), (INF, INF)],
    "log2": [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (-1.0, NAN), (INF, INF), (8.0, 3.0),
             (2.0**-149, -149.0), (0.5, -1.0)],
    "log10": [(0.0, -INF), (1.0, 0.0), (-1.0, NAN), (INF, INF), (1000.0, 3.0)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (-2.0, NAN), (INF, INF), (-INF, NAN)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (2.0, NAN)],
    "acos": [(1.0, 0.0), (2.0, NAN)],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (1.0, INF), (-1.0, -INF), (2.0, NAN)],
}  # fmt: skip


def samples() -> np.ndarray:
    """Every exponent and sign, dense near where functions change, and awkward large angles."""
    random = np.random.default_rng(11)
    every = np.arange(0, 1 << 32, 65519, dtype=np.uint64).astype(np.uint32).view(np.float32)
    dense = [
        random.uniform(low, high, 20000)
        for low, high in ((-1.2, 1.2), (-4.5, 4.5), (-105, 90), (-150, 130), (0, 3), (-40, 40))
    ]
    multiples = np.arange(1, 20000) * (np.pi / 2)
    near = np.concatenate([*dense, multiples, -multiples]).astype(np.float32)
    return np.concatenate([every, near])


def ulp_error(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """|got - exact| in float32 units of the exact value; 0 where both are the same special."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        unit = np.spacing(
            np.maximum(np.abs(rounded), np.float32(2.0**-126)).clip(max=np.finfo(np.float32).max)
        ).astype(np.float64)
        error = np.abs(got.astype(np.float64) - exact) / unit
    equal = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    error[equal & ~np.isfinite(rounded)] = 0
    return np.where(np.isnan(error), np.inf, error)


@pytest.mark.parametrize("features", [HOST, NO_FMA], ids=["host", "no-fma"])
def test_error_bound(features: frozenset[str]) -> None:
    x = samples()
    calls = [Call(op, dt.float32, [x], [dt.float32]) for op in sorted(MATH1)]
    for call, got in zip(calls, apply_all(calls, "llvm", features), strict=True):
        with np.errstate(all="ignore"):
            exact = EXACT[call.op](x.astype(np.float64))
        error = ulp_error(got, exact)
        worst = int(np.argmax(error))
        check(
            error[worst] <= (MAX_ULP if call.op in POLYNOMIAL else LIBRARY_ULP),
            f"{call.op}({x[worst]!r}) = {got[worst]!r}, exactly {exact[worst]!r}: "
            f"{error[worst]} ulp",
        )


def test_scalar_vector_and_c_agree() -> None:
    x = samples()[::16]
    calls = [
        Call(op, dt.float32, [x], [dt.float32], lanes)
        for op in sorted(MATH1)
        for lanes in (1, 4, VECTOR)
    ]
    of_llvm, of_c = by_all(lambda renderer: apply_all(calls, renderer)).values()
    wanted = {call.op: got for call, got in zip(calls, of_llvm, strict=True)}
    for call, *results in zip(calls, of_llvm, of_c, strict=True):
        for got in results:
            same(got, wanted[call.op], dt.float32, [x], f"{call.op} {call.lanes}")


def special_cases(op: str, dtype: dt.DType) -> tuple[np.ndarray, np.ndarray]:
    """Arguments and results of the table that the dtype can hold."""
    info = np.finfo(dtype.name)
    cases = [
        (x, y) for x, y in SPECIAL[op] if dtype is dt.float32 or not np.isfinite(x) or abs(x) <= 1
    ]
    cases = [(x, y) for x, y in cases if float(np.array(x, dtype.name)) == x]
    cases = [(x, y) for x, y in cases if np.isnan(y) or np.isinf(y) or abs(y) <= info.max]
    x, y = (np.array(column, dtype.name) for column in zip(*cases, (NAN, NAN), strict=True))
    return x, y


def test_special_cases() -> None:
    calls, wanted = [], []
    for op in sorted(SPECIAL):
        for dtype in (dt.float16, dt.float32, dt.float64):
            x, y = special_cases(op, dtype)
            calls.append(Call(op, dtype, [x], [dtype]))
            wanted.append(y)
    check_calls(calls, wanted)


@pytest.mark.parametrize("renderer", RENDERERS)
def test_binary_functions(renderer: str) -> None:
    functions = {"pow": np.power, "atan2": np.arctan2, "hypot": np.hypot}
    values = np.array([0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -2.5, INF, -INF, NAN, 1e-3])
    a, b = (m.ravel() for m in np.meshgrid(values, values))
    calls = [
        Call(op, dtype, [a.astype(dtype.name), b.astype(dtype.name)], [dtype, dtype])
        for op in functions
        for dtype in (dt.float32, dt.float64)
    ]
    for call, got in zip(calls, apply_all(calls, renderer), strict=True):
        x, y = (array.astype(np.float64) for array in call.arrays)
        with np.errstate(all="ignore"):
            wanted = functions[call.op](x, y).astype(call.out.name)
        np.testing.assert_allclose(got, wanted, rtol=4 * np.finfo(call.out.name).eps)
        np.testing.assert_array_equal(np.signbit(got)[got == 0], np.signbit(wanted)[got == 0])

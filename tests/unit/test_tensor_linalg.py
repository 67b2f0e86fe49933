"""Products of matrices and tensors against numpy in float64."""

from __future__ import annotations

import numpy as np
import pytest

import tensor as xp
from tests.support import check

RNG = np.random.default_rng(3)
SHAPES = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)), ((5, 1, 2, 3), (6, 3, 4)), ((2, 0), (0, 4)),
    ((0, 3), (3, 4)), ((5, 2, 3), (3,)), ((3,), (5, 3, 4)), ((1, 1), (1, 1)), ((33, 70), (70, 65)),
]  # fmt: skip
RTOL = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6, "float64": 1e-13}


def norm_close(got, want, rtol):
    """Relative difference of the norms; equal shapes."""
    np.testing.assert_equal(got.shape, want.shape)
    error = np.linalg.norm(np.ravel(got.astype(np.float64) - want))
    check(error <= rtol * max(float(np.linalg.norm(np.ravel(want))), 1e-30), f"{error}")


@pytest.mark.parametrize("dtype", RTOL)
@pytest.mark.parametrize("shapes", SHAPES, ids=repr)
def test_matmul(dtype, shapes):
    a, b = (xp.asarray(RNG.normal(size=shape), dtype=getattr(xp, dtype)) for shape in shapes)
    got = xp.matmul(a, b)
    check(got.dtype is getattr(xp, dtype))
    want = np.matmul(a.numpy().astype(np.float64), b.numpy().astype(np.float64))
    norm_close(got.numpy(), want, RTOL[dtype])
    norm_close((a @ b).numpy(), want, RTOL[dtype])


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64"])
def test_matmul_of_integers_wraps(dtype):
    a, b = (RNG.integers(0, 100, shape).astype(dtype) for shape in ((4, 30), (30, 5)))
    got = xp.asarray(a) @ xp.asarray(b)
    np.testing.assert_array_equal(got.numpy(), a @ b)
    np.testing.assert_equal(got.dtype.name, dtype)


@pytest.mark.parametrize(("dtype", "bits"), [("bfloat16", 7), ("float16", 10)])
def test_half_precision_products_are_not_rounded(dtype, bits):
    step = 2.0**-bits
    a = xp.asarray([1 + step, 1 + 2 * step], dtype=getattr(xp, dtype))
    b = xp.asarray([1 + step, -1.0], dtype=getattr(xp, dtype))
    # (1 + step)**2 - (1 + 2 step) is step**2, which a product rounded to half would lose.
    for got in (a @ b, xp.tensordot(a, b, axes=1), xp.einsum("i,i", a, b), xp.vecdot(a, b)):
        np.testing.assert_equal(float(got), step**2)


def test_matmul_refuses():
    for a, b in (((2, 3), (2, 3)), ((3,), (2,)), ((), (3,))):
        with pytest.raises(ValueError, match="matmul"):
            xp.matmul(xp.ones(a), xp.ones(b))
    with pytest.raises(TypeError, match="bool"):
        xp.matmul(xp.ones((2, 2), dtype=xp.bool), xp.ones((2, 2), dtype=xp.bool))


def test_nan_and_infinity_travel():
    a, b = np.array([[np.inf, 1.0], [np.nan, 0.0]]), np.array([[0.0, 1.0], [1.0, 1.0]])
    with np.errstate(invalid="ignore"):  # infinity times 0, as meant
        expected = a @ b
    np.testing.assert_array_equal((xp.asarray(a) @ xp.asarray(b)).numpy(), expected)


def test_transposed_operands_and_epilogue():
    a, b = RNG.normal(size=(7, 5)), RNG.normal(size=(9, 7))
    got = xp.asarray(a).T @ xp.asarray(b).T * 2.0 + 1.0
    norm_close(got.numpy(), a.T @ b.T * 2.0 + 1.0, 1e-13)


@pytest.mark.parametrize("axes", [0, 1, 2, ((0, 1), (1, 0)), ((-1,), (-1,)), ((), ())], ids=repr)
def test_tensordot(axes):
    a, b = RNG.normal(size=(3, 4, 4)), RNG.normal(size=(4, 4, 4))
    if axes == ((0, 1), (1, 0)):
        b = RNG.normal(size=(4, 3, 4))
    got = xp.tensordot(xp.asarray(a), xp.asarray(b), axes=axes)
    norm_close(got.numpy(), np.tensordot(a, b, axes), 1e-12)


def test_vecdot_and_outer():
    a, b = RNG.normal(size=(3, 4)), RNG.normal(size=(5, 3, 4))
    norm_close(xp.vecdot(xp.asarray(a), xp.asarray(b)).numpy(), np.vecdot(a, b), 1e-13)
    got = xp.vecdot(xp.asarray(a), xp.asarray(b), axis=-2)
    norm_close(got.numpy(), np.sum(a * b, axis=-2), 1e-13)
    norm_close(xp.outer(xp.asarray(a[0]), xp.asarray(b[0, 0])).numpy(), np.outer(a[0], b[0, 0]), 0)
    with pytest.raises(ValueError, match="axis"):
        xp.vecdot(xp.asarray(a), xp.asarray(b), axis=0)


EINSUM = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ii", (3, 3)), ("ii->i", (3, 3)),
    ("ij->ji", (2, 3)), ("ij->", (2, 3)), ("i,j->ij", (2,), (3,)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("...ij,...jk->...ik", (2, 3, 4), (4, 5)),
    ("i,i", (4,), (4,)), ("ij,kj,kl->il", (2, 3), (4, 3), (4, 5)),
    ("iij,jk->ik", (2, 2, 3), (3, 4)), ("ij,ik,il->jkl", (2, 3), (2, 4), (2, 5)),
    ("ab,cd->", (2, 3), (3, 2)), ("...i->...", (2, 3, 4)), ("ba", (2, 3)), ("iii->i", (3, 3, 3)),
    ("i...,i...->...", (2, 3), (2, 1)),
]  # fmt: skip


@pytest.mark.parametrize("case", EINSUM, ids=lambda case: case[0])
def test_einsum(case):
    subscripts, *shapes = case
    operands = [RNG.normal(size=shape) for shape in shapes]
    got = xp.einsum(subscripts, *map(xp.asarray, operands))
    norm_close(got.numpy(), np.einsum(subscripts, *operands), 1e-12)


@pytest.mark.parametrize(
    "case", [("ij", (2,)), ("i,j", (2,)), ("i->jj", (2,)), ("ii", (2, 3)), ("i1", (2, 2))]
)
def test_einsum_refuses(case):
    subscripts, *shapes = case
    with pytest.raises(ValueError, match=r"name|label|repeats"):
        xp.einsum(subscripts, *(xp.ones(shape) for shape in shapes))

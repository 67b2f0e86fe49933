"""Threefry against published vectors; distributions against their moments."""

from __future__ import annotations

import numpy as np
import pytest

import tensor as xp
from compilers.graph import toposort
from compilers.plan.dtypes import check_graph
from compilers.plan.signature import rebuild, signature
from tests.support import check

# src: Random123 tests/kat_vectors, threefry2x32 with 20 rounds: (counter, key, result)
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
N = 4096


def words(values):
    return xp.asarray(np.array(values, np.uint32))


@pytest.mark.parametrize("case", KNOWN, ids=lambda case: f"{case[2][0]:08x}")
def test_known_answers(case):
    counter, key, want = case
    x = words(counter)
    first, second = xp.random.threefry2x32(words(key), x[0], x[1])
    np.testing.assert_equal((int(first), int(second)), want)


def test_the_seed_fills_the_key():
    np.testing.assert_array_equal(xp.random.key((7 << 32) + 5).numpy(), [5, 7])
    np.testing.assert_array_equal(xp.random.key(-1).numpy(), [0xFFFFFFFF] * 2)


def test_draws_are_blocks_of_the_counter():
    key = xp.random.key(3)
    got = xp.random.bits(key, (2, 3)).numpy().ravel()
    for place in range(6):
        x = words([place, 0])
        np.testing.assert_equal(int(xp.random.threefry2x32(key, x[0], x[1])[0]), got[place])


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_every_bit_is_even(dtype):
    values = xp.random.bits(xp.random.key(1), (N,), dtype=getattr(xp, dtype)).numpy()
    np.testing.assert_equal(values.dtype.name, dtype)
    for bit in range(8 * values.itemsize):
        ones = np.count_nonzero((values >> np.array(bit, dtype)) & np.array(1, dtype))
        check(abs(ones - N / 2) < 6 * np.sqrt(N) / 2, f"bit {bit}: {ones} of {N}")


def test_draws_of_float32_need_no_64_bits():
    x = xp.random.uniform(xp.random.key(4), (3, 5), dtype=xp.float32)
    roots = rebuild(signature([x._node])[0]).roots
    check_graph(roots, {"bool", "int32", "uint32", "float32"}, "a device of 32 bits")
    check({node.dtype.itemsize for node in toposort(roots)} <= {1, 4})


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform(dtype):
    x = xp.random.uniform(xp.random.key(5), (N,), dtype=getattr(xp, dtype))
    check(x.dtype is getattr(xp, dtype))
    values = x.numpy().astype(np.float64)
    check(values.min() >= 0.0 and values.max() < 1.0)
    check(abs(values.mean() - 0.5) < 6 * np.sqrt(1 / 12 / N), f"{values.mean()}")
    check(abs(values.var() - 1 / 12) < 0.006)
    scaled = xp.random.uniform(xp.random.key(5), (N,), low=-2.0, high=4.0).numpy()
    check(scaled.min() >= -2.0 and scaled.max() < 4.0)


@pytest.mark.parametrize("dtype", FLOATS)
def test_normal(dtype):
    x = xp.random.normal(xp.random.key(6), (N,), mean=1.0, std=2.0, dtype=getattr(xp, dtype))
    check(x.dtype is getattr(xp, dtype))
    values = (x.numpy().astype(np.float64) - 1.0) / 2.0
    check(np.isfinite(values).all())
    check(abs(values.mean()) < 6 / np.sqrt(N), f"{values.mean()}")
    check(abs(values.var() - 1.0) < 6 * np.sqrt(2 / N), f"{values.var()}")
    check(abs(np.mean(values**3)) < 6 * np.sqrt(15 / N))
    check(abs(np.mean(values**4) - 3.0) < 6 * np.sqrt(96 / N))


def test_randint():
    values = xp.random.randint(xp.random.key(7), (N,), -3, 5).numpy()
    counts = np.bincount(values + 3, minlength=8)
    np.testing.assert_equal(len(counts), 8)
    check(np.all(np.abs(counts - N / 8) < 6 * np.sqrt(N / 8)))
    info = np.iinfo(np.int64)
    wide = xp.random.randint(xp.random.key(7), (N,), info.min, info.max + 1).numpy()
    check(wide.min() < 0 < wide.max())
    small = xp.random.randint(xp.random.key(7), (N,), 250, 256, dtype=xp.uint8).numpy()
    np.testing.assert_array_equal(np.unique(small), np.arange(250, 256))
    with pytest.raises(ValueError, match="randint"):
        xp.random.randint(xp.random.key(7), (1,), 5, 5)
    with pytest.raises(ValueError, match="randint"):
        xp.random.randint(xp.random.key(7), (1,), 0, 257, dtype=xp.uint8)


def test_permutation():
    order = xp.random.permutation(xp.random.key(8), 100).numpy()
    np.testing.assert_array_equal(np.sort(order), np.arange(100))
    check(not np.array_equal(order, np.arange(100)))
    rows = np.arange(30).reshape(10, 3)
    got = xp.random.permutation(xp.random.key(9), xp.asarray(rows)).numpy()
    np.testing.assert_array_equal(got[np.argsort(got[:, 0])], rows)


def test_keys_differ_and_repeat():
    key = xp.random.key(11)
    draws = [xp.random.bits(k, (8,)).numpy() for k in xp.random.split(key, 3)]
    draws += [xp.random.bits(xp.random.fold_in(key, i), (8,)).numpy() for i in (0, 1, 1 << 40)]
    for i, one in enumerate(draws):
        for other in draws[:i]:
            check(not np.array_equal(one, other))
    again = xp.random.bits(xp.random.split(xp.random.key(11), 3)[2], (8,)).numpy()
    np.testing.assert_array_equal(again, draws[2])


def test_a_key_is_checked():
    with pytest.raises(TypeError, match="uint32"):
        xp.random.uniform(xp.asarray([1, 2]), (3,))
    with pytest.raises(TypeError, match="floating"):
        xp.random.uniform(xp.random.key(1), (3,), dtype=xp.int32)

"""Counter-based random numbers: the same key gives the same numbers on every device.

Element i of a draw is Threefry-2x32 with 20 rounds of the counter i under the key.
Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from operator import index as as_int

import numpy as np

from compilers import dtype as dt
from compilers import graph
from compilers.dtype import DType
from compilers.graph import Node
from tensor import engine, ops
from tensor.arguments import takes_tensors
from tensor.core import Tensor, wrap
from tensor.creation import as_shape, full
from tensor.elementwise import astype, bitcast, cos, log, minimum, nextafter, sqrt
from tensor.manipulation import contiguous, stack, take
from tensor.promotion import DEFAULT_FLOAT, as_dtype, as_scalar
from tensor.sorting import argsort

__all__ = ["bits", "fold_in", "key", "normal", "permutation", "randint", "split", "uniform"]


def __dir__() -> list[str]:
    return __all__


# src: Salmon et al. 2011, table 2 (Threefry-2x32) and the Skein key-schedule parity
ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA
ROUNDS = 20
ROUNDS_PER_KEY = 4
WORD_BITS = 32
WORD_MASK = (1 << WORD_BITS) - 1

SPLIT_SPACE = WORD_MASK
FOLD_SPACE = WORD_MASK - 1
"""High counter words that no draw reaches: keys made from a key never equal its draws."""

Words = tuple[Tensor, Tensor]
Shapelike = int | Sequence[int]


def key(seed: int, *, device: str | None = None) -> Tensor:
    """A key from a seed: two words of uint32."""
    seed = as_int(seed)
    words = np.array([seed & WORD_MASK, seed >> WORD_BITS & WORD_MASK], np.uint32)
    return wrap(words, engine.device_name(device))


def _rotate(x: Tensor, by: int) -> Tensor:
    return (x << by) | (x >> (WORD_BITS - by))


@takes_tensors
def threefry2x32(key: Tensor, x0: Tensor, x1: Tensor, /) -> Words:
    """The block cipher: two words of counter to two random words, element by element."""
    first, second = key[0], key[1]
    schedule = (first, second, first ^ second ^ PARITY)
    x0, x1 = x0 + first, x1 + second
    for number in range(ROUNDS):
        x0 = x0 + x1
        x1 = _rotate(x1, ROTATIONS[number % len(ROTATIONS)]) ^ x0
        if (number + 1) % ROUNDS_PER_KEY == 0:
            turn = (number + 1) // ROUNDS_PER_KEY
            x0 = x0 + schedule[turn % len(schedule)]
            x1 = x1 + schedule[(turn + 1) % len(schedule)] + turn
    return x0, x1


def _words(key: Tensor, shape: Sequence[int], space: int = 0) -> Words:
    """Two random words for each element of `shape`."""
    if key.dtype is not dt.uint32 or key.shape != (2,):
        raise TypeError(f"a key is uint32[2], not {key.dtype.name}{list(key.shape)}; use key(seed)")
    place: Node = graph.iota(prod(shape))
    low = Tensor(graph.cast(place, dt.uint32), key.device)
    return _shaped(threefry2x32(key, low, _high(place, key.device) + space), tuple(shape))


def _high(place: Node, device: str) -> Tensor:
    """The counters' second words, without a shift in int64 where all are 0: not all devices have
    int64."""
    if place.shape[0] - 1 <= WORD_MASK:
        return full(place.shape, 0, dtype=dt.uint32, device=device)
    return Tensor(graph.cast(ops.with_value("shr", place, WORD_BITS), dt.uint32), device)


def _shaped(words: Words, shape: tuple[int, ...]) -> Words:
    first, second = (Tensor(graph.reshape(x._node, shape), x.device) for x in words)
    return first, second


@takes_tensors
def split(key: Tensor, number: int = 2, /) -> tuple[Tensor, ...]:
    """Independent keys from one, which must not be used for anything else."""
    number = as_int(number)
    pairs = contiguous(stack(list(_words(key, (number,), SPLIT_SPACE)), axis=1))
    return tuple(pairs[i] for i in range(number))


@takes_tensors
def fold_in(key: Tensor, data: int, /) -> Tensor:
    """A key that depends on `data` as well: one for each step of a loop."""
    data = as_int(data)
    words = np.array([data & WORD_MASK, data >> WORD_BITS & WORD_MASK], np.uint32)
    counter = wrap(words, key.device)
    own = contiguous(stack([x[0] for x in _words(key, (1,), FOLD_SPACE)]))
    return contiguous(stack(list(threefry2x32(own, counter[0], counter[1]))))


@takes_tensors
def bits(key: Tensor, shape: Shapelike, *, dtype: DType = dt.uint32) -> Tensor:
    """Random bits as an unsigned integer dtype."""
    if as_dtype(dtype).kind != "u":
        raise TypeError(f"bits needs an unsigned dtype, not {dtype.name}")
    first, second = _words(key, as_shape(shape))
    if dtype is dt.uint64:
        return (astype(first, dt.uint64) << WORD_BITS) | astype(second, dt.uint64)
    return astype(first >> (WORD_BITS - dtype.bits), dtype)


_FRACTION_BITS = {dt.float16: 11, dt.bfloat16: 8, dt.float32: 24}


def _unit(word: Tensor, second: Tensor, dtype: DType) -> Tensor:
    """Multiples of 2**-p in [0, 1), where p is the precision of `dtype`."""
    if dtype is dt.float64:
        wide = (astype(word, dt.uint64) << WORD_BITS) | astype(second, dt.uint64)
        return astype(wide >> 11, dt.float64) * 2.0**-53
    if dtype not in _FRACTION_BITS:
        raise TypeError(f"random floats need a floating dtype, not {dtype.name}")
    precision = _FRACTION_BITS[dtype]
    whole = astype(word >> (WORD_BITS - precision), dt.float32)
    return astype(whole * 2.0**-precision, dtype)


@takes_tensors
def uniform(
    key: Tensor,
    shape: Shapelike,
    *,
    low: float = 0.0,
    high: float = 1.0,
    dtype: DType = DEFAULT_FLOAT,
) -> Tensor:
    """Evenly spread over [low, high)."""
    low, high = as_scalar(low), as_scalar(high)
    values = _unit(*_words(key, as_shape(shape)), as_dtype(dtype))
    if (low, high) == (0.0, 1.0):
        return values
    if not low < high:
        raise ValueError(f"uniform needs low < high, not {low} and {high}")
    ends = (full((), end, dtype=dtype, device=key.device) for end in (high, low))
    return minimum(values * (high - low) + low, nextafter(*ends))


@takes_tensors
def normal(
    key: Tensor,
    shape: Shapelike,
    *,
    mean: float = 0.0,
    std: float = 1.0,
    dtype: DType = DEFAULT_FLOAT,
) -> Tensor:
    """Normally distributed, by Box and Muller from the two words of each element."""
    first, second = _words(key, as_shape(shape))
    compute = dt.float64 if as_dtype(dtype) is dt.float64 else dt.float32
    if compute is dt.float64:
        radius, angle = (astype(x, compute) * 2.0**-WORD_BITS for x in (first, second))
        radius = 1.0 - radius
    else:
        radius = 1.0 - _unit(first, second, compute)
        angle = _unit(second, first, compute)
    values = sqrt(log(radius) * -2.0) * cos(angle * math.tau)
    return astype(values * std + mean, dtype)


@takes_tensors
def randint(
    key: Tensor, shape: Shapelike, low: int, high: int, *, dtype: DType = dt.int64
) -> Tensor:
    """Integers in [low, high), from 64 random bits: the bias is below (high - low) / 2**64."""
    low, high = as_int(low), as_int(high)
    low_limit, high_limit = dt.limits(as_dtype(dtype))
    if not low_limit <= low < high <= high_limit + 1:
        raise ValueError(f"randint needs {low_limit} <= low < high <= {high_limit + 1}")
    wide = bits(key, shape, dtype=dt.uint64)
    span = high - low
    picked = wide % span if span < 1 << 64 else wide
    offset = low % (1 << 64)
    return astype(bitcast(picked + offset, dt.int64) if dtype.kind == "i" else picked + low, dtype)


@takes_tensors
def permutation(key: Tensor, x: int | Tensor, /) -> Tensor:
    """0..x-1, or the slices of x along its first axis, in random order."""
    count = x.shape[0] if isinstance(x, Tensor) else as_int(x)
    order = argsort(bits(key, (count,), dtype=dt.uint64))
    return take(x, order, axis=0) if isinstance(x, Tensor) else order

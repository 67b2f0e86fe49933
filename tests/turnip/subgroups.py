"""What subgroup operations give in groups of 64: a wave of Adreno has 64 lanes or 128, so all."""

from __future__ import annotations

import numpy as np

from tests.turnip.kernel import Kernel, Words

_LANES = 64
SEED = 1


def _inputs(kernel: Kernel) -> tuple[Words, Words]:
    a, b = kernel.inputs(SEED)
    return a.reshape(-1, _LANES), b.reshape(-1, _LANES)


def _all(*results: Words) -> Words:
    return np.stack([one.reshape(-1) for one in results], axis=1).reshape(-1)


def expected_ballots(kernel: Kernel) -> Words:
    """Bits of lanes, the first lane's value, any and all."""
    a, b = _inputs(kernel)
    bits = (a & 1).astype(np.uint64) << np.arange(_LANES, dtype=np.uint64)
    words = np.bitwise_or.reduce(bits, axis=1)
    low = np.broadcast_to((words & 0xFFFFFFFF).astype(np.uint32)[:, None], a.shape)
    high = np.broadcast_to((words >> 32).astype(np.uint32)[:, None], a.shape)
    first = np.broadcast_to(b[:, :1], b.shape)
    either = np.broadcast_to((a == 0).any(axis=1)[:, None].astype(np.uint32) + 2, a.shape)
    return _all(low, high, first, either)


def expected_scans(kernel: Kernel) -> Words:
    """Sums and the largest."""
    a, b = _inputs(kernel)
    total = np.broadcast_to(a.sum(axis=1, dtype=np.uint32)[:, None], a.shape)
    before = np.cumsum(b, axis=1, dtype=np.uint32) - b
    largest = np.broadcast_to(a.max(axis=1)[:, None], a.shape)
    return _all(total, before, largest, np.cumsum(a ^ b, axis=1, dtype=np.uint32))


def expected_shuffles(kernel: Kernel) -> Words:
    """Values of other lanes."""
    a, b = _inputs(kernel)
    lane = np.arange(_LANES)
    third = np.broadcast_to(a[:, 3:4], a.shape)
    return _all(a[:, lane ^ 5], b[:, lane * 7 & 31], third, b[:, lane ^ 1])

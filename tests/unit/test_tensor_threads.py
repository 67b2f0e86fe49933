"""Threads that realise the same lazy tensors see the same, right values."""

from __future__ import annotations

import threading

import numpy as np

import tensor as xp
from tests.share import part
from tests.support import patience

THREADS, ROUNDS, SHARED = 6, part(10, 3), 12


def test_shared_lazy_tensors():
    base = np.arange(500, dtype=np.float32)
    x = xp.asarray(base)
    wrong: list[object] = []

    def work(shared: list[xp.Tensor], number: int) -> None:
        try:
            for k, total in enumerate(shared):
                if float(total) != float(np.sum(base * np.float32(k) + np.float32(number))):
                    wrong.append((number, k))
        except Exception as error:
            wrong.append(error)

    for number in range(ROUNDS):
        shared = [xp.sum(x * float(k) + float(number)) for k in range(SHARED)]
        workers = [threading.Thread(target=work, args=(shared, number)) for _ in range(THREADS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(timeout=patience(60))
    np.testing.assert_equal(wrong, [])

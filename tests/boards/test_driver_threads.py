"""Several threads share an AMD device: nothing is lost between them, and nothing is found."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.boards.driver_harness import QUEUES, add, device_on, get, put
from tests.share import part
from tests.support import check
from tests.switching import switching_often

N = 200
GROUPS = -(-N // 64)
THREADS = 4


@pytest.mark.parametrize(("chip", "queue"), QUEUES)
def test_threads_copy_and_launch(chip: str, queue: str) -> None:
    rounds = part(30, 15)
    with device_on(chip, queue) as (_, device):
        program = device.load(add(chip))

        def work(first: int) -> int:
            for number in range(rounds):
                values = np.arange(first, first + N, dtype=np.float32)
                a, b = put(device, values), put(device, values * number)
                c = device.alloc(values.nbytes)
                device.launch(program, [a, b, c, N], GROUPS)
                np.testing.assert_array_equal(get(device, c), values * (1 + number))
            return rounds

        with switching_often(), ThreadPoolExecutor(THREADS) as pool:
            check([*pool.map(work, range(THREADS))] == [rounds] * THREADS)

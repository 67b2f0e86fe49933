"""A device that somebody else opened, under a name of the tensor layer."""

from __future__ import annotations

import numpy as np
import pytest

import tensor as ub
from drivers.base.errors import BadArgument
from tensor import engine
from tests.cpu_harness import open_device
from tests.support import check


def test_a_name_stands_for_the_adopted_device() -> None:
    with open_device() as device, engine.adopted("cpu:1", device):
        check(engine.device("CPU:1") is device, "another device was opened")
        x = ub.asarray(np.arange(5, dtype=np.float32), device="CPU:1")
        np.testing.assert_array_equal((x + x).numpy(), [0, 2, 4, 6, 8])
        with pytest.raises(BadArgument, match="open already"), engine.adopted("CPU:1", device):
            pass
        del x


def test_the_name_is_free_afterwards() -> None:
    with open_device() as first, engine.adopted("CPU:1", first):
        pass
    with open_device() as second, engine.adopted("CPU:1", second):
        check(engine.device("CPU:1") is second, "the first device stayed behind its name")

"""Subgroups of OpenCL devices that let a kernel demand their size: Intel's runtime, with the shape
of a GPU's kernels. Elsewhere lanes meet in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

import tensor as xp
from drivers.cl import abi
from drivers.cl.device import ClDevice
from drivers.cl.facts import read_facts
from drivers.cl.platforms import find
from drivers.world.linux import LinuxWorld
from queues.cl.kernel_code import SUBGROUPS, WAVE_LANES
from tensor import engine
from tests.opencl import PLATFORMS, need, opencl
from tests.support import check
from tests.unit.test_opencl_floats import sources

NAME = "CL:9"
SHUFFLE = "sub_group_shuffle_xor("
RNG = np.random.default_rng(11)
ROWS = RNG.normal(size=(60, 700)).astype(np.float32)
NARROW = RNG.normal(size=(300, 5)).astype(np.float32)
WHOLE = RNG.integers(-1000, 1000, (33, 90))
Made = tuple[Callable[[], xp.Tensor], np.ndarray]


def on(array: np.ndarray) -> xp.Tensor:
    return xp.asarray(array, device=NAME)


def _softmax() -> np.ndarray:
    grown = np.exp(ROWS - ROWS.max(1, keepdims=True))
    return np.asarray(grown / grown.sum(1, keepdims=True))


KINDS: dict[str, Made] = {
    "rows": (lambda: xp.sum(on(ROWS), axis=1), ROWS.sum(1)),
    "columns": (lambda: xp.sum(on(NARROW), axis=0), NARROW.sum(0)),
    "all": (lambda: xp.max(on(ROWS)), ROWS.max()),
    "int64": (lambda: xp.sum(on(WHOLE), axis=1), WHOLE.sum(1)),
    "int8": (lambda: xp.max(on(WHOLE.astype(np.int8)), axis=1), WHOLE.astype(np.int8).max(1)),
    "bool": (lambda: xp.any(on(ROWS) > 3, axis=1), (ROWS > 3).any(1)),
    "softmax": (lambda: xp.nn.softmax(on(ROWS), axis=1), _softmax()),
    "vector": (lambda: on(ROWS) @ on(ROWS[0]), ROWS @ ROWS[0]),
    "scan": (lambda: xp.cumulative_sum(on(WHOLE), axis=1), WHOLE.cumsum(1)),
    "sort": (lambda: xp.sort(on(ROWS), axis=1), np.sort(ROWS, 1)),
    "halves": (lambda: xp.max(on(ROWS.astype(np.float16)), axis=1), ROWS.astype(np.float16).max(1)),
}


@contextmanager
def lanes(subgroups: bool = True) -> Iterator[ClDevice]:
    """Intel's device with the shape of a GPU's kernels, under NAME."""
    with opencl("intel", CL_LANES="1") as device:
        if not subgroups:
            features = device.limits.features - {SUBGROUPS}
            device.limits = replace(device.limits, wave_lanes=1, features=features)
        with engine.adopted(NAME, device):
            yield device


@pytest.mark.parametrize("kind", KINDS)
def test_lanes_exchange_values(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, wanted = KINDS[kind]
    with lanes() as device, sources(monkeypatch) as texts:
        check(device.limits.wave_lanes == WAVE_LANES, f"{device.limits}")
        np.testing.assert_allclose(make().numpy(), wanted, rtol=1e-5, atol=2e-5)
        first = make().numpy()
        np.testing.assert_array_equal(make().numpy(), first, err_msg="equal from run to run")
    check(any(SHUFFLE in text for text in texts), "values are exchanged")
    for text in texts:
        demands = f"intel_reqd_sub_group_size({WAVE_LANES})" in text
        check(demands == (" sub_group_" in text), "the size counts where lanes exchange values")


@pytest.mark.parametrize("kind", ["rows", "columns", "softmax", "vector"])
def test_exchanges_take_the_place_of_barriers(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    for subgroups in (True, False):
        with lanes(subgroups), sources(monkeypatch) as texts:
            np.testing.assert_allclose(KINDS[kind][0]().numpy(), KINDS[kind][1], 1e-5, 2e-5)
        check(any(SHUFFLE in text for text in texts) == subgroups, "as the device offers")
        counts.append(
            sum(line.startswith("barrier(") for text in texts for line in text.split("\n"))
        )
    check(counts[0] < counts[1], f"{counts} barriers with and without subgroups")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_subgroups_are_used_where_a_size_can_be_demanded(platform: str) -> None:
    name = need(platform)
    one = next(one for one in find(LinuxWorld())[0] if one.platform_name == name)
    names = one.api.text("clGetDeviceInfo", one.device, abi.DEVICE_EXTENSIONS)
    there = "cl_intel_required_subgroup_size" in names and "cl_khr_subgroup_shuffle" in names
    for shaped, wanted in ((False, False), (True, there)):
        limits = read_facts(one, lanes=shaped).limits
        check((SUBGROUPS in limits.features) == wanted, f"{limits.features}")
        check((limits.wave_lanes == WAVE_LANES) == wanted, f"{limits.wave_lanes} lanes")

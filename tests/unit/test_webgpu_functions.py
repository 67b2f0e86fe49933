"""float32 and float16 functions on WebGPU adapters, with and without float64, beside numpy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import tensor as xp
from compilers.wgsl.render import FLOAT64
from drivers.webgpu.device import WebGpuDevice
from tensor import engine
from tests.unit.test_math_single import CLOSE, SPECIAL, any_bits, close, theirs, two_sets
from tests.webgpu import LIBRARIES, webgpu

NAME = "WEBGPU:6"
NARROW = "wgpu-narrow"
"""An adapter with float64, as if it had none."""
ONE = ["sin", "cos", "tan", "asin", "acos", "atan"]
TWO = ["atan2", "pow"]
EXACT = ["remainder", "floor_divide"]


@pytest.fixture(scope="module", params=[*LIBRARIES, NARROW])
def device(request: pytest.FixtureRequest) -> Iterator[WebGpuDevice]:
    library, narrow = request.param.partition("-")[::2]
    with webgpu(library) as opened:
        if narrow:
            has = opened.limits
            opened.limits = replace(
                has, features=has.features - {FLOAT64}, dtypes=has.dtypes - {"float64"}
            )
        with engine.adopted(NAME, opened):
            yield opened


def on(array: np.ndarray) -> xp.Tensor:
    """An array on the adapter."""
    return xp.asarray(np.ascontiguousarray(array), device=NAME)


@pytest.mark.parametrize("name", ONE)
def test_one_argument(device: WebGpuDevice, name: str) -> None:
    random = np.random.default_rng(13)
    unit = random.uniform(-1, 1, 9999).astype(np.float32)
    x = np.concatenate([SPECIAL, CLOSE, any_bits(13), unit])
    close(getattr(xp, name)(on(x)).numpy(), theirs(name, x))


@pytest.mark.parametrize("name", TWO)
def test_two_arguments(device: WebGpuDevice, name: str) -> None:
    x, y = two_sets(17)
    close(getattr(xp, name)(on(x), on(y)).numpy(), theirs(name, x, y))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", EXACT)
def test_remainders_are_numpys(device: WebGpuDevice, name: str, dtype: str) -> None:
    if dtype not in device.limits.dtypes:
        return
    with np.errstate(all="ignore"):
        x, y = (one.astype(dtype) for one in two_sets(19))
        want = getattr(np, name)(x, y)
    got = getattr(xp, name)(on(x), on(y)).numpy()
    np.testing.assert_array_equal(got, want)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))


@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_16_bits(device: WebGpuDevice, name: str) -> None:
    words = np.random.default_rng(23).integers(0, 1 << 16, (2, 9999), dtype=np.uint16)
    given = list(words.view(np.float16))[: 1 + (name in TWO)]
    with np.errstate(all="ignore"):
        want = theirs(name, *given).astype(np.float16)
    got = getattr(xp, name)(*map(on, given)).numpy()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    finite = np.isfinite(want) & np.isfinite(got)
    np.testing.assert_array_max_ulp(got[finite], want[finite], maxulp=1)
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))

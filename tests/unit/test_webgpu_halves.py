"""float16 on WebGPU adapters beside numpy's: every value, and what is rounded to one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tensor as xp
from drivers.webgpu.device import WebGpuDevice
from queues.webgpu.kernel_code import HALF
from tensor import engine
from tests.support import check
from tests.unit.test_webgpu_subgroups import sources
from tests.webgpu import LIBRARIES, webgpu

NAME = "WEBGPU:6"
EVERY = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
RNG = np.random.default_rng(5)


@pytest.fixture(scope="module", params=LIBRARIES)
def device(request: pytest.FixtureRequest) -> Iterator[WebGpuDevice]:
    with webgpu(request.param) as opened, engine.adopted(NAME, opened):
        yield opened


def on(array: np.ndarray) -> xp.Tensor:
    return xp.asarray(array, device=NAME)


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    """Equal bits, and NaN where there is one."""
    bits = {2: np.uint16, 4: np.uint32}[wanted.itemsize]
    nan = np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(found), nan)
    np.testing.assert_array_equal(found.view(bits)[~nan], wanted.view(bits)[~nan])


def test_every_float16_is_widened(device: WebGpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    with sources(monkeypatch) as texts:
        same(xp.astype(on(EVERY), xp.float32).numpy(), EVERY.astype(np.float32))
    converts = "llvmpipe" in repr(device)
    check((HALF in device.limits.features) == converts, f"{device.limits.features}")
    check(any("unpack2x16float" in text for text in texts) == converts, "as it was measured")


def test_float32_is_rounded_to_float16_once(device: WebGpuDevice) -> None:
    finite = np.sort(EVERY[np.isfinite(EVERY)]).astype(np.float64)
    between = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
    edges = np.array([65504, 65519.99, 65520, 1e9, -1e9, np.inf, -np.inf, np.nan, 6e-8, 2.98e-8,
                      2.9802322e-08, 1e-40, 0.0, -0.0], np.float32)  # fmt: skip
    spread = RNG.normal(size=40_001) * np.exp2(RNG.integers(-30, 17, 40_001))
    x = np.concatenate([between, np.nextafter(between, np.float32(9e9)), edges,
                        spread.astype(np.float32)]).astype(np.float32)  # fmt: skip
    with np.errstate(over="ignore"):
        wanted = x.astype(np.float16)
    same(xp.astype(on(x), xp.float16).numpy(), wanted)


@pytest.mark.parametrize("op", ["add", "subtract", "multiply"])
def test_each_op_rounds_once(device: WebGpuDevice, op: str) -> None:
    a, b = (RNG.permutation(EVERY) for _ in "ab")
    with np.errstate(all="ignore"):
        wanted = getattr(np, op)(a, b)
    same(getattr(xp, op)(on(a), on(b)).numpy(), wanted)


def test_what_is_rounded_in_between_stays_so(device: WebGpuDevice) -> None:
    """No compiler takes the rounding of one op out of another's operand."""
    a, b = (RNG.permutation(EVERY) for _ in "ab")
    x, y = on(a), on(b)
    with np.errstate(all="ignore"):
        same(((x + y) - y).numpy(), (a + b) - b)
        same((x * y + x).numpy(), a * b + a)
        same(xp.astype(xp.astype(x, xp.float32) * np.float32(1.001), xp.float16).numpy(),
             (a.astype(np.float32) * np.float32(1.001)).astype(np.float16))  # fmt: skip
        total = xp.astype(x + y, xp.float32).numpy()
    same(total, (a + b).astype(np.float32))


def test_sums_and_products_of_float16(device: WebGpuDevice) -> None:
    a, b = (RNG.normal(size=(70, 70)).astype(np.float16) for _ in "ab")
    wide = a.astype(np.float64), b.astype(np.float64)
    np.testing.assert_allclose((on(a) @ on(b)).numpy(), wide[0] @ wide[1], rtol=2e-3, atol=2e-2)
    np.testing.assert_array_equal(xp.max(on(a), axis=1).numpy(), a.max(1))

"""Floats that an OpenCL device has or lacks: float64 is not named where it is lacking, float16 is
its own where it is offered. Beside numpy, on processors and with the shape of a GPU's kernels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

import tensor as xp
from drivers.base.errors import Unsupported
from drivers.cl import abi
from drivers.cl.building import Builder
from drivers.cl.device import ClDevice
from drivers.cl.facts import HALF_NEEDS, read_facts
from drivers.cl.platforms import find
from drivers.world.linux import LinuxWorld
from queues.cl.kernel_code import DOUBLE, HALF, HALF_OPS
from tensor import engine
from tests.opencl import PLATFORMS, need, opencl
from tests.support import check
from tests.unit.test_opencl_options import answering

NAME = "CL:8"
ULPS = {"exp": 3, "exp2": 3, "expm1": 3, "log": 3, "log2": 3, "log10": 3, "log1p": 3, "sin": 4,
        "cos": 4, "tan": 5, "asin": 4, "acos": 4, "atan": 5, "sinh": 4, "cosh": 4, "tanh": 5,
        "asinh": 4, "acosh": 4, "atanh": 5, "sqrt": 3}  # fmt: skip
"""# src: The OpenCL C Specification 3.0, 7.4 "Relative Error as ULPs": single precision"""
PAIRS = {"pow": ("power", 16), "atan2": ("arctan2", 6), "hypot": ("hypot", 4)}
SHAPES = pytest.mark.parametrize(
    ("platform", "lanes"), [(name, lanes) for name in PLATFORMS for lanes in ("0", "1")]
)


@contextmanager
def without(platform: str, lanes: str, lacking: str, **more: str) -> Iterator[ClDevice]:
    """A device whose kernels may not use a feature, under NAME."""
    with opencl(platform, CL_LANES=lanes, **more) as device:
        limits = device.limits
        dtypes = limits.dtypes - ({"float64"} if lacking == DOUBLE else set())
        device.limits = replace(limits, dtypes=dtypes, features=limits.features - {lacking})
        with engine.adopted(NAME, device):
            yield device


@contextmanager
def sources(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is compiled inside, by an empty cache."""
    texts: list[str] = []
    inner = Builder.build

    def build(self: Builder, source: str, block: int) -> object:
        texts.append(source)
        return inner(self, source, block)

    with monkeypatch.context() as patch:
        patch.setattr(Builder, "build", build)
        patch.setattr("compilers.cache.Cache.get", lambda *_: None)
        yield texts


def on(array: np.ndarray) -> xp.Tensor:
    return xp.asarray(array, device=NAME)


def ulps(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest error, in units in the last place of float32."""
    unit = np.spacing(np.abs(wanted).astype(np.float32)).astype(np.float64)
    return float(np.max(np.abs(found.astype(np.float64) - wanted) / unit))


@SHAPES
def test_functions_without_float64(
    platform: str, lanes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    x = rng.uniform(-0.999, 0.999, 1003).astype(np.float32)
    y = rng.uniform(0.1, 30.0, 1003).astype(np.float32)
    with without(platform, lanes, DOUBLE), sources(monkeypatch) as texts:
        for name, most in ULPS.items():
            at = 1 + y if name == "acosh" else y if name.startswith(("log", "sq")) else x
            error = ulps(getattr(xp, name)(on(at)).numpy(), numpys(name)(at.astype(np.float64)))
            check(error <= most, f"{name}: {error} ulp")
        for name, (theirs, most) in PAIRS.items():
            wanted = getattr(np, theirs)(y.astype(np.float64), x)
            error = ulps(getattr(xp, name)(on(y), on(x)).numpy(), wanted)
            check(error <= most, f"{name}: {error} ulp")
        np.testing.assert_array_equal(xp.remainder(on(y), on(x)).numpy(), np.remainder(y, x))
    for text in texts:
        check(not any(word in text for word in ("double", "f64", "fp64")), text)
    check(len(texts) > len(ULPS), f"{len(texts)} kernels were compiled")


def numpys(name: str) -> np.ufunc:
    """numpy's function of that name, or of its older one."""
    return getattr(np, name, None) or getattr(np, f"arc{name[1:]}")


@SHAPES
def test_the_tensor_layer_without_float64(
    platform: str, lanes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.linspace(-3, 3, 600, dtype=np.float32).reshape(20, 30)
    powers = np.exp(x - x.max(1, keepdims=True), dtype=np.float32)
    with without(platform, lanes, DOUBLE), sources(monkeypatch) as texts:
        for got, want in (
            (xp.mean(on(x), axis=1), x.mean(1)),
            (xp.var(on(x), axis=0), x.var(0)),
            (xp.nn.softmax(on(x), axis=1), powers / powers.sum(1, keepdims=True)),
            (on(x) @ on(x.T), x @ x.T),
            (xp.cumulative_sum(on(x), axis=1), x.cumsum(1)),
        ):
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=2e-5)
        half = (xp.astype(on(x), xp.float16) * 0.1 + 1.5).numpy()
        np.testing.assert_array_equal(
            half, x.astype(np.float16) * np.float16(0.1) + np.float16(1.5)
        )
        drawn = xp.random.uniform(xp.random.key(5, device=NAME), (1000,)).numpy()
        check(0 <= drawn.min() < drawn.max() < 1, "numbers from 0 to 1")
        np.testing.assert_array_equal(xp.sort(on(x), axis=1, descending=True).numpy(), x[:, ::-1])
    for text in texts:
        check(not any(word in text for word in ("double", "f64", "fp64")), text)
    check(bool(texts), "kernels were compiled")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_float64_is_refused_by_name_where_it_is_lacking(platform: str) -> None:
    with without(platform, "0", DOUBLE):
        for make in (
            lambda: on(np.zeros(3)) + 1,
            lambda: xp.mean(on(np.arange(4))),
            lambda: xp.astype(on(np.zeros(3, np.float32)), xp.float64),
        ):
            with pytest.raises(Unsupported, match=f"{NAME} has no float64"):
                make().numpy()


def every_half() -> tuple[np.ndarray, np.ndarray]:
    """All float16, and all of them in another order."""
    words = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    return words.view(np.float16), np.random.default_rng(1).permutation(words).view(np.float16)


def same(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    return (found == wanted) | (np.isnan(found) & np.isnan(wanted))


@SHAPES
@pytest.mark.parametrize("lacking", ["", HALF])
def test_every_float16_is_numpys(platform: str, lanes: str, lacking: str) -> None:
    a, b = every_half()
    rng = np.random.default_rng(2)
    single = (rng.normal(size=1 << 16) * 10.0 ** rng.uniform(-9, 6, 1 << 16)).astype(np.float32)
    with without(platform, lanes, lacking):
        for name in ("add", "subtract", "multiply", "divide", "less", "equal", "maximum"):
            with np.errstate(all="ignore"):
                wanted = getattr(np, name)(a, b)
            found = getattr(xp, name)(on(a), on(b)).numpy()
            wrong = np.flatnonzero(~same(found, wanted))
            check(not wrong.size, f"{name} of {a[wrong[:3]]}, {b[wrong[:3]]}: {found[wrong[:3]]}")
        check(same(xp.astype(on(a), xp.float32).numpy(), a.astype(np.float32)).all(), "widened")
        with np.errstate(all="ignore"):
            narrow = single.astype(np.float16)
        np.testing.assert_array_equal(xp.astype(on(single), xp.float16).numpy(), narrow)


@pytest.mark.parametrize("lanes", ["0", "1"])
def test_arithmetic_in_float16(lanes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a device whose float16 keeps subnormal numbers: where all are normal, it is numpy's."""
    a, b = (half[np.isfinite(half)][:50_000] for half in every_half())
    count = min(len(a), len(b))
    a, b = a[:count], b[:count]
    with opencl("intel", CL_LANES=lanes) as device:
        device.limits = replace(device.limits, features=device.limits.features | {HALF_OPS})
        with engine.adopted(NAME, device), sources(monkeypatch) as texts:
            with np.errstate(all="ignore"):
                wanted = a * b + a
                normal = (np.abs(a * b) >= 2**-14) & (np.abs(wanted) >= 2**-14)
                normal &= (np.abs(a) >= 2**-14) & (np.abs(b) >= 2**-14)
            found = (on(a) * on(b) + on(a)).numpy()
            check(same(found, wanted)[normal].all(), "each op is rounded once")
            check(normal.sum() > count // 4, "some are normal")
    (text,) = texts
    body = text.partition("k_")[2]
    check("half" in text and "f32" not in body and "float" not in body, text)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_what_a_device_says_of_float16(platform: str) -> None:
    name = need(platform)
    one = next(one for one in find(LinuxWorld())[0] if one.platform_name == name)
    offered = "cl_khr_fp16" in one.api.text("clGetDeviceInfo", one.device, abi.DEVICE_EXTENSIONS)
    about = one.api, "clGetDeviceInfo", abi.DEVICE_HALF_FP_CONFIG
    for config, wanted in (
        (0, set()),
        (abi.FP_DENORM, set()),
        (HALF_NEEDS, {HALF}),
        (HALF_NEEDS | abi.FP_DENORM, {HALF, HALF_OPS}),
    ):
        with answering(*about, lambda _, config=config: config):
            features = read_facts(one, lanes=False).limits.features
        check(
            features & {HALF, HALF_OPS} == (wanted if offered else set()), f"{config}: {features}"
        )

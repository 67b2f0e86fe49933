"""Tensor programs on the made-up vendor's device with narrow limits: right, or refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensor as xp
from compilers import cache, families
from compilers import dtype as dt
from compilers.expr import walk
from compilers.family import TargetFamily, Toolchain
from compilers.gpu_target import GpuTarget
from compilers.ir import Expr, Kernel, Stmt, Store
from drivers.base.contracts import Arg, Binary, Resources
from drivers.base.errors import Unsupported
from drivers.base.limits import VECTORS, Limits
from tensor import engine
from tests.contract.null_vendor.device import NullDevice
from tests.contract.null_vendor.machine import CODE, CODE_BYTES
from tests.contract.null_vendor.opening import open_null
from tests.support import check

NAME = "AMD:9"
"""A name that devices may have; nothing of AMD's is used."""
Array = np.ndarray[Any, Any]


class NullCompiler:
    """The source is the number of a kernel of the IR, which is the machine code, too."""

    def identity(self) -> bytes:
        return b"null"

    def compile_object(self, source: str, arch: str, features: frozenset[str]) -> bytes:
        return int(source).to_bytes(CODE_BYTES, "little")


def _render(kernel: Kernel, arch: str, features: frozenset[str]) -> str:
    CODE.append(kernel)
    return str(len(CODE) - 1)


def _load(blob: bytes, name: str, arch: str) -> Binary:
    kernel = CODE[int.from_bytes(blob, "little")]
    args = tuple(Arg(8 * number, 8, True) for number in range(len(kernel.params)))
    needs = Resources(max_block=kernel.block, shared_bytes=kernel.shared_bytes, args=args)
    return Binary(arch, name, blob, 0, resources=needs)


FAMILY = TargetFamily(
    name="NULL",
    toolchains={
        "NULL": Toolchain(compiler=NullCompiler(), render=_render, suffix=".null", modules=()),
    },
    load=_load,
    functions=lambda blob, arch: [],
    instructions=lambda binary: iter(()),
    gpu=lambda arch: GpuTarget(max_block=64, shared_bytes=1 << 10),
)
WEBGPU = replace(
    NullDevice.limits, dtypes=frozenset({"int32", "uint32", "uint8", "float32", "bool"}),
    wave_lanes=0, max_params=4, max_grid=(5, 1, 1), store_bytes=4,
)  # fmt: skip
"""The least of everything that WebGPU may lack."""


@pytest.fixture(autouse=True)
def family(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(families.FAMILIES, "null", lambda: FAMILY)
    store = cache.Cache(str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "default", lambda: store)


@contextmanager
def device_with(limits: Limits) -> Iterator[list[Kernel]]:
    """The device with those limits; the kernels that are made for it. Its driver checks the size
    of launches and workgroups, the GPU's memory every access."""
    first, made = len(CODE), []
    with open_null() as device:
        device.limits = limits
        with engine.adopted(NAME, device):
            yield made
            made += CODE[first:]
    for kernel in made:
        most = limits.max_params
        check(most is None or len(kernel.params) <= most, f"{kernel.name} names too many buffers")
        check(kernel.grid <= limits.max_grid[0], f"{kernel.name}: {kernel.grid} workgroups")
        lacking = {expr.dtype.name for expr in expressions(kernel)} - limits.dtypes
        check(not lacking, f"{kernel.name} computes with {lacking}")


def expressions(kernel: Kernel) -> Iterator[Expr]:
    def roots(stmt: Stmt) -> list[Expr]:
        if isinstance(stmt, Store):
            return [stmt.value]
        return [root for inner in getattr(stmt, "body", ()) for root in roots(inner)]

    return walk(roots(kernel.body))


def put(array: Array) -> Any:
    return xp.asarray(array, device=NAME)


RANDOM = np.random.default_rng(6)
X = RANDOM.integers(-9, 9, (6, 20)).astype(np.float32)
PLACES = np.array([3, -1, 0, 5])
PROGRAMS: dict[str, tuple[Callable[[Any], Any], Array]] = {
    "sum of twelve": (
        lambda x: sum((put(X + n) * x for n in range(12)), x),
        sum(((X + n) * X for n in range(12)), X),
    ),
    "many workgroups": (
        lambda x: xp.reshape(xp.stack([x] * 4) + 1, (-1,)), np.tile(X.ravel(), 4) + 1
    ),
    "a mask": (lambda x: x > 0, X > 0),
    "masks of rows": (lambda x: xp.any(x > 7, axis=1), (X > 7).any(1)),
    "sums of rows": (lambda x: xp.sum(x, axis=1), X.sum(1)),
    "sums of columns": (lambda x: xp.sum(x, axis=0), X.sum(0)),
    "product": (lambda x: x @ xp.permute_dims(x, (1, 0)), X @ X.T),
    "positions from the host": (lambda x: x[PLACES], X[PLACES]),
    "positions on the device": (lambda x: x[put(PLACES.astype(np.int32))], X[PLACES]),
    "largest": (lambda x: xp.astype(xp.argmax(x, axis=1), xp.int32), X.argmax(1).astype(np.int32)),
    "sorted": (lambda x: xp.sort(x[:2, :9], axis=1), np.sort(X[:2, :9], 1)),
    "numbers": (
        lambda x: x + xp.astype(xp.arange(20, device=NAME), xp.float32), X + np.arange(20)
    ),
    "running sums": (lambda x: xp.cumulative_sum(x, axis=1), X.cumsum(1)),
}  # fmt: skip


@pytest.mark.parametrize("schedule", ["lanes", VECTORS])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_on_a_device_that_lacks_much(name: str, schedule: str) -> None:
    make, want = PROGRAMS[name]
    with device_with(replace(WEBGPU, schedule=schedule)) as made:
        np.testing.assert_array_equal(make(put(X)).numpy(), want)
    check(made != [], "something was compiled")


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "uint64", "int8"])
def test_arrays_of_a_dtype_that_it_lacks(dtype: str) -> None:
    with device_with(WEBGPU), pytest.raises(Unsupported, match=f"{NAME} has no {dtype}"):
        put(np.ones(3, dtype))


def test_results_and_values_of_a_dtype_that_it_lacks() -> None:
    with device_with(WEBGPU):
        x = put(X)
        for lacking in (xp.argmax(x), xp.astype(x, xp.int64), xp.astype(x, xp.float64)):
            with pytest.raises(Unsupported, match=f"{NAME} has no (int64|float64)"):
                lacking.numpy()
        with pytest.raises(Unsupported, match=f"{NAME} has no float64"):
            xp.astype(xp.astype(x, xp.float64) * 2, xp.float32).numpy()
        with pytest.raises(Unsupported, match="which the result of cast may need"):
            xp.astype(xp.astype(x, xp.int64), xp.int32).numpy()


def test_a_position_beyond_int32_is_refused() -> None:
    with device_with(WEBGPU), pytest.raises(Unsupported, match="no int64 for position 3000000000"):
        engine.positions(np.array([3_000_000_000]), NAME)


def test_wide_devices_are_as_before() -> None:
    limits = replace(NullDevice.limits, dtypes=frozenset(dt.BY_NAME), wave_lanes=0)
    with device_with(limits):
        found = xp.argmax(put(X), axis=1).numpy()
        np.testing.assert_array_equal(found, X.argmax(1))
        check(found.dtype == np.int64, "positions are int64")

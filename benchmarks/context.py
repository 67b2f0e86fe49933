"""What the rows share: the opened device, the arrays they start from, how results are judged."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from functools import cached_property
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from benchmarks.measure import Case, WrongResult
from compilers import ir, toolchains

Array: TypeAlias = npt.NDArray[Any]
MIB = 1 << 20
SEED = 20261120


class Context:
    """The device that is measured, opened when the first row needs it."""

    def __init__(self, device_name: str | None = None, threads: int = 1) -> None:
        self.device_name, self.threads = device_name, threads
        self.rng = np.random.default_rng(SEED)
        self._kept: dict[str, Any] = {}
        self.rates: dict[str, float] = {}
        """FLOPs a second of the last product that was timed, by dtype."""

    @cached_property
    def xp(self) -> Any:
        """The tensor namespace."""
        return importlib.import_module("tensor")

    @cached_property
    def runtime(self) -> Any:
        """The opened device with the compiler chosen for it (tensor.executable.Runtime)."""
        engine = importlib.import_module("tensor.engine")
        return engine.runtime(engine.device_name(self.device_name))

    @property
    def default(self) -> Any:
        """The default device and why it is that one (drivers.default.Default)."""
        return importlib.import_module("tensor.engine").default()

    @property
    def device(self) -> Any:
        """The driver's device under the tensor layer (drivers.base.contracts.Device)."""
        return self.runtime.device

    def load(self, kernel: ir.Kernel) -> Any:
        """A hand-written kernel, compiled by the device's compiler and loaded."""
        device = self.device
        return device.load(
            toolchains.build(kernel, self.runtime.compiler, device.arch, device.limits.features)
        )

    @cached_property
    def torch(self) -> ModuleType | None:
        """torch where it is installed, on as many threads as everybody else."""
        if importlib.util.find_spec("torch") is None:
            return None
        torch: Any = importlib.import_module("torch")
        torch.set_num_threads(self.threads)
        module: ModuleType = torch
        return module

    def kept(self, key: str, make: Callable[[], Any]) -> Any:
        """`make()` the first time, the same object afterwards: big inputs are made once."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def floats(self, key: str, *shape: int) -> Array:
        """A float32 array of uniform numbers in 0..1, the same one for every row that asks."""
        array: Array = self.kept(f"{key}{shape}", lambda: self.rng.random(shape, dtype=np.float32))
        return array

    def tensor(self, array: Array) -> Any:
        """`array` as a realised tensor on the device that is measured."""
        return self.xp.asarray(array, device=self.device_name).realize()

    def has(self, dtype: str) -> bool:
        """Whether kernels of the device load and store `dtype`."""
        return dtype in self.device.limits.dtypes


Builder = Callable[[Context], Case | None]
"""Prepares a row and checks its result; None where the device does not have what it needs."""


def as_bytes(array: Array) -> memoryview:
    """The bytes of a contiguous array, as drivers take them."""
    return array.reshape(-1).view(np.uint8).data


def expect_close(got: Array, want: Array, tolerance: float) -> None:
    """Largest difference, relative to the largest magnitude of `want`, within `tolerance`.

    Raises: WrongResult.
    """
    if got.shape != want.shape:
        raise WrongResult(f"shape {got.shape}, expected {want.shape}")
    scale = float(np.max(np.abs(want))) or 1.0
    worst = float(np.max(np.abs(got - want))) / scale
    if not worst <= tolerance:
        raise WrongResult(f"off by {worst:.2e} of the largest value, {tolerance:.0e} allowed")

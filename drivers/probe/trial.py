"""A kernel that is built and run on a device, in a child of `python -m drivers.probe`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from drivers.base.answers import Begun, Fact, Request, Step
from drivers.base.contracts import World
from drivers.base.errors import DeviceError

PATIENCE_S: Final = 60.0
"""A vendor's compiler may be slow, and the machine busy."""
_COUNT: Final = 8
_CHOOSING: Final = ("DEV", "CL_DEVICE", "WEBGPU_DEVICE", "WEBGPU_LIBRARY", "CUDA_VISIBLE_DEVICES")
"""Variables that number devices in another way than the survey which listed them."""


def survey(world: World, request: Request) -> Iterator[Step]:
    """Try each of `names`: "CL:1"."""
    for variable in _CHOOSING:
        os.environ.pop(variable, None)
    for name in request["names"]:
        if name in request["skip"]:
            continue
        yield Begun(name, "computed on", PATIENCE_S)
        try:
            _compute(name)
        except DeviceError as error:
            yield Fact({"name": name, "why": error.message, "hint": error.hint})
        else:
            yield Fact({"name": name, "why": "", "hint": ""})


def _compute(name: str) -> None:
    """Raises: DeviceError, also for a wrong result."""
    import numpy as np

    import tensor as xp

    numbers = np.arange(_COUNT, dtype=np.float32)
    found = (xp.asarray(numbers, device=name) * 3 + 1).numpy()
    if not np.array_equal(found, numbers * 3 + 1):
        raise DeviceError(f"a kernel gives {found.tolist()}", hint="update its driver; report it")

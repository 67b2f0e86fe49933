"""A device that its library takes away, and a library with nothing that computes."""

from __future__ import annotations

import numpy as np
import pytest

from drivers.base.errors import DeviceGone
from drivers.webgpu import abi
from drivers.webgpu.adapters import listed
from drivers.webgpu.layout import Text
from drivers.webgpu.libraries import places
from drivers.world.linux import LinuxWorld
from tests.contract.arrays import get, put, ramp
from tests.support import check
from tests.unit.test_webgpu_faults import COUNT, life, program, wanted
from tests.webgpu import DRIVERS, LIBRARIES, need, webgpu
from tests.webgpu_watch import watched_world

UNKNOWN = 1
"""WGPUDeviceLostReason_Unknown. # src: webgpu.h"""
FORCE = "wgpuDeviceForceLoss"
"""Of Dawn before the standard: (device, reason, message by value, in two registers)."""


def path_of(library: str) -> str:
    need(library)
    return next(one for one in places(LinuxWorld()) if LIBRARIES[library].path in one)


def test_dawn_loses_a_device_and_says_why() -> None:
    """Everything of it is DeviceGone, it closes without a rest, and the next one computes."""
    path = path_of("dawn")
    world, watch = watched_world("dawn")
    force = world.library(path).function(FORCE, "void(*)(uint64_t, uint32_t, uint64_t, uint64_t)")
    with webgpu("dawn", world) as device:
        a, b, c = (put(device, ramp(COUNT, start)) for start in (0, 5, 9))
        kernel, why = program(device), Text("the lights went out")
        force(device.link.device, UNKNOWN, why.at, why.nbytes)
        for use in (
            lambda: get(device, a), lambda: device.alloc(1 << 20), lambda: put(device, ramp(COUNT)),
            lambda: device.launch(kernel, [a, b, c], 2),
        ):  # fmt: skip
            with pytest.raises(DeviceGone, match="the lights went out"):
                use()
    check(not watch.left, f"{watch.left}")
    with webgpu("dawn") as device:
        np.testing.assert_array_equal(life(device), wanted())


def test_an_adapter_that_computes_nothing_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a Vulkan driver today's Dawn offers its null backend."""
    path = path_of("standard")
    monkeypatch.setenv(DRIVERS, "/nothing/is/here.json")
    found, errors = listed(LinuxWorld(), path)
    check(not any("Null" in one.name for one in found), f"{found}")
    check(bool(found or "no adapter" in errors[0].message), f"{errors}")
    monkeypatch.setattr(abi, "BACKEND_NULL", -1)
    check(any("Null" in one.name for one in listed(LinuxWorld(), path)[0]), "it was there")

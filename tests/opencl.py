"""OpenCL devices for tests: two vendors' implementations on the processor, from wheels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Final, cast

import pytest

import drivers
from drivers.base.contracts import World
from drivers.cl.device import ClDevice
from drivers.world.linux import LinuxWorld

PLATFORMS: Final[Mapping[str, tuple[str, str]]] = {
    "pocl": ("pocl-binary-distribution", "Portable Computing Language"),
    "intel": ("intel-opencl-rt", "Intel(R) OpenCL"),
}
"""Name here -> the wheel that brings it, and the name of its platform."""


def need(platform: str) -> str:
    """CL_DEVICE of a platform; skips where its wheel is missing."""
    wheel, name = PLATFORMS[platform]
    try:
        version(wheel)
    except PackageNotFoundError:
        pytest.skip(f"{wheel} is not installed")
    return name


@contextmanager
def opencl(platform: str, world: World | None = None, **settings: str) -> Iterator[ClDevice]:
    """An open device of a platform, with these settings."""
    environ = {"CL_DEVICE": need(platform), **settings}
    with drivers.open("CL", world=world or LinuxWorld(), environ=environ) as device:
        yield cast(ClDevice, device)

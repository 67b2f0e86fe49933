"""OpenCL devices for tests: two vendors' implementations on the processor, from wheels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final, cast

import pytest

import drivers
from drivers.base.contracts import World
from drivers.base.errors import CompileError
from drivers.cl.building import OTHER_OPENCL, builder
from drivers.cl.device import ClDevice
from drivers.world.linux import LinuxWorld

PLATFORMS: Final[Mapping[str, tuple[str, str]]] = {
    "pocl": ("pocl-binary-distribution", "Portable Computing Language"),
    "intel": ("intel-opencl-rt", "Intel(R) OpenCL"),
}
"""Name here -> the wheel that brings it, and the name of its platform."""
NOTHING: Final = "kernel void nothing(global uint* a, ulong b) {}"
UNKNOWN_PROCESSOR: Final = "PoCL's LLVM does not know this processor (pocl issue 1049)"


def need(platform: str) -> str:
    """CL_DEVICE of a platform; skips where its wheel is missing."""
    wheel, name = PLATFORMS[platform]
    try:
        version(wheel)
    except PackageNotFoundError:
        pytest.skip(f"{wheel} is not installed")
    if platform == "pocl" and not builds(name):
        pytest.skip(UNKNOWN_PROCESSOR)
    return name


@cache
def builds(platform: str) -> bool:
    """Whether a platform builds one kernel; False where it does not know the processor."""
    with drivers.open("CL", world=LinuxWorld(), environ={"CL_DEVICE": platform}) as device:
        made = cast(ClDevice, device)
        try:
            builder(made.arch).build(NOTHING, 0)
        except CompileError as error:
            if error.hint != OTHER_OPENCL:
                raise
            return False
    return True


@contextmanager
def opencl(platform: str, world: World | None = None, **settings: str) -> Iterator[ClDevice]:
    """An open device of a platform, with these settings."""
    environ = {"CL_DEVICE": need(platform), **settings}
    with drivers.open("CL", world=world or LinuxWorld(), environ=environ) as device:
        yield cast(ClDevice, device)

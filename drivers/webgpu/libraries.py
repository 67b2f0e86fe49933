"""Where WebGPU comes from: libraries of the system, of wheels, or the one that the user names."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from typing import Final

from drivers.base import forks
from drivers.base.contracts import World
from drivers.base.errors import DeviceError, Unsupported
from drivers.webgpu.api import Api, bind
from drivers.world.libraries import tell
from unbound.extras import install

INSTALL: Final = install("webgpu")
SYSTEM: Final = ("libwgpu_native.so", "libwebgpu_dawn.so")
_WHEELS: Final = (
    "wgpu/resources/libwgpu_native-release.so",
    "wgpu/resources/libwgpu_native-release.dylib",
    "wgpudawn/_lib/_wgpu_dawn.abi3.so",
    "pydawn/lib/libwebgpu_dawn_{machine}.so",
    "pydawn/lib/libwebgpu_dawn.dylib",
)
"""Among an interpreter's packages: of the wheels wgpu, wgpudawn and dawn-python."""


class _Loaded:
    """Libraries of this process: their threads are not in a child."""

    def __init__(self) -> None:
        self.any = self.forked = False
        forks.inherit(self)

    def after_fork(self) -> None:
        self.forked = self.any


_loaded: Final = _Loaded()


def check_process() -> None:
    """Raises: Unsupported in a child of a process that had loaded a WebGPU library."""
    if _loaded.forked:
        raise Unsupported(
            "a WebGPU library was loaded before a fork: its threads are not in the child",
            hint="start the child with multiprocessing's `spawn`, or open it in the child alone",
        )


def places(world: World, named: str | None = None) -> Iterator[str]:
    """Names and absolute paths of libraries to try; `named`: of one, and no other."""
    if named:
        yield named
        return
    yield from SYSTEM
    packages = [path for path in sys.path if path.endswith("-packages")]
    for folder in dict.fromkeys(packages):
        for wheel in _WHEELS:
            path = os.path.join(folder, wheel.format(machine=platform.machine()))
            if world.exists(path):
                yield path


def load_all(world: World, named: str | None = None) -> Iterator[Api | DeviceError]:
    """Every library that there is, or why it cannot be used."""
    for name in places(world, named):
        try:
            yield load(world, name)
        except DeviceError as error:
            yield error


def load(world: World, name: str) -> Api:
    """One library by name or path. Raises: NotFound; Unsupported after a fork."""
    check_process()
    kept = world.kept.get(f"WebGPU {name}")
    if isinstance(kept, Api):
        return kept
    # Mesa's layer asks the desktop which GPU is its own, and complains on stderr where there is no
    # desktop. Adapters are chosen here by name. # src: mesa-vulkan-drivers 22.3.6,
    # share/vulkan/implicit_layer.d/VkLayer_MESA_device_select.json, "disable_environment"
    tell("NODEVICE_SELECT", "1")
    library = world.library(name)
    _loaded.any = True
    found = bind(world, library)
    world.kept[f"WebGPU {name}"] = found
    return found

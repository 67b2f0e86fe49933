"""WebGPU devices for tests: wgpu-native and two Dawns from wheels, on Mesa's Vulkan."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final, NamedTuple, cast

import pytest

import drivers
from drivers.base.contracts import World
from drivers.webgpu.adapters import listed
from drivers.webgpu.device import WebGpuDevice
from drivers.world.linux import LinuxWorld
from tests.references import LAVAPIPE, LAVAPIPE_MANIFEST, find


class Source(NamedTuple):
    """Where a library comes from."""

    wheel: str
    title: str
    """A part of the titles of its adapters."""
    path: str
    """A part of its path."""


LIBRARIES: Final[Mapping[str, Source]] = {
    "wgpu": Source("wgpu", "wgpu-native", "/wgpu/"),
    "dawn": Source("dawn-python", "Dawn of 2025", "/pydawn/"),
    "standard": Source("wgpudawn", "Dawn)", "/wgpudawn/"),
}
"""Name here -> a wheel's library."""
DRIVERS: Final = "VK_DRIVER_FILES"
"""Manifests of Vulkan drivers, of which the loader takes no others. # src: Vulkan-Loader,
docs/LoaderInterfaceArchitecture.md"""


@cache
def _titles(manifest: str) -> tuple[str, ...]:
    with _only(manifest):
        return tuple(one.title for one in listed(LinuxWorld())[0])


@contextmanager
def _only(manifest: str) -> Iterator[None]:
    """Vulkan with one driver; all of the machine's where `manifest` is empty."""
    before = os.environ.get(DRIVERS)
    if manifest:
        os.environ[DRIVERS] = manifest
    try:
        yield
    finally:
        if before is not None:
            os.environ[DRIVERS] = before
        elif manifest:
            del os.environ[DRIVERS]


def _newer() -> str:
    """The manifest of the Vulkan driver that `make references` fetched."""
    folder = find(LAVAPIPE)
    return str(folder / LAVAPIPE_MANIFEST) if folder else ""


def vulkan(library: str) -> str:
    """The manifest of the one Vulkan driver that a library needs; empty: any of the machine's.

    Skips where its wheel or a Vulkan driver is missing.
    """
    wheel, title, _ = LIBRARIES[library]
    try:
        version(wheel)
    except PackageNotFoundError:
        pytest.skip(f"{wheel} is not installed")
    for manifest in dict.fromkeys(("", _newer())):
        if any(title in one for one in _titles(manifest)):
            return manifest
    if any("Vulkan" in one for one in _titles("")):
        pytest.skip("no Vulkan driver here is new enough for Dawn: make references")
    pytest.skip("mesa-vulkan-drivers is not installed")


def need(library: str) -> str:
    """WEBGPU_DEVICE of a library; skips where its wheel or a Vulkan driver is missing."""
    vulkan(library)
    return LIBRARIES[library].title


@contextmanager
def webgpu(library: str, world: World | None = None, **settings: str) -> Iterator[WebGpuDevice]:
    """An open device of a library, with these settings."""
    environ = {"WEBGPU_DEVICE": need(library), **settings}
    with _only(vulkan(library)):
        opened = drivers.open("WEBGPU", world=world or LinuxWorld(), environ=environ)
    with opened as device:
        yield cast(WebGpuDevice, device)

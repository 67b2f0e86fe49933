"""What WebGPU needs of a machine, for `python -m drivers.probe`."""

from __future__ import annotations

from typing import Final

from drivers.machine.checks import Machine, Result
from drivers.machine.system import find_library
from drivers.webgpu.adapters import MISSING, NO_ADAPTER, listed
from drivers.webgpu.libraries import SYSTEM, places

_INSTALL: Final = "pip install 'unbound[webgpu]'"


def webgpu(machine: Machine) -> Result:
    """A library with an adapter; then every adapter of it, with its driver's version.

    Libraries are loaded and asked, and no device is opened. Where that fails the files remain.
    """
    paths = [find_library(machine.world, machine.environ, name) for name in SYSTEM]
    files = [path for path in paths if path]
    files += [path for path in places(machine.world) if path not in SYSTEM]
    wheel = machine.packages("wgpu")
    if wheel:
        files.append(f"wgpu-native in the Python package wgpu {wheel}")
    if not files:
        return Result("WEBGPU", "", False, "no wgpu-native or Dawn library", _INSTALL)
    found, errors = listed(machine.world)
    details: dict[str, object] = {
        "adapters": [f"{one.title}, driver {one.driver}" for one in found],
        "missing": [error.message for error in errors],
    }
    if not found and any(NO_ADAPTER in error.message for error in errors):
        return Result("WEBGPU", "", False, f"{files[0]} {NO_ADAPTER}", MISSING, details)
    shown = "; ".join(one.title for one in found)
    return Result("WEBGPU", "", True, shown or files[0], "", details)

"""What the ways to an Adreno require, for `python -m drivers.probe`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from drivers.base.contracts import World
from drivers.base.errors import MalformedInput
from drivers.machine.buses import render_nodes
from drivers.machine.checks import Machine, Result, device_node
from drivers.qcom.kgsl.iface import PATH
from drivers.qcom.msm.iface import DRIVERS
from drivers.qcom.system import memory_bytes

_GIB: Final = 1 << 30
COMMAND: Final = "python -m drivers.qcom.probe"


def kgsl(machine: Machine) -> Result:
    """Adreno through Qualcomm's kernel driver."""
    found = device_node(
        machine, "QCOM", "KGSL", PATH, "this is no Qualcomm machine, or its kernel has no msm_kgsl",
        "on a Qualcomm machine with a mainline kernel use QCOM_IFACE=MSM",
    )  # fmt: skip
    return _sized(machine.world, found)


def msm(machine: Machine) -> Result:
    """Adreno through the mainline kernel driver."""
    nodes = [path for path, driver in machine.nodes.items() if driver.startswith(DRIVERS)]
    if nodes:
        found = device_node(machine, "QCOM", "MSM", nodes[0], "it went away", "look again")
        return _sized(machine.world, found)
    others = ", ".join(f"{path} ({driver or '?'})" for path, driver in machine.nodes.items())
    return Result(
        "QCOM",
        "MSM",
        False,
        f"no /dev/dri/renderD* of the msm kernel driver; there is: {others or 'none at all'}",
        "on a Qualcomm machine: `modprobe msm`",
    )


def _sized(world: World, found: Result) -> Result:
    """With the machine's memory, which is the GPU's, where it can be opened and that is known."""
    if not found.ready:
        return found
    try:
        size = memory_bytes(world)
    except MalformedInput:
        return found
    reason = f"{found.reason}; {size / _GIB:.1f} GiB of the machine"
    return replace(found, reason=reason, details={**found.details, "memory_bytes": size})


def kgsl_numbers(world: World, _: Mapping[str, str]) -> list[int]:
    """The GPU of its machine, where this user may open it."""
    return [0] if world.exists(PATH) and world.access(PATH, os.R_OK | os.W_OK) else []


def msm_numbers(world: World, _: Mapping[str, str]) -> list[int]:
    """Numbers among msm's render nodes of those that this user may open."""
    nodes = [path for path, driver in render_nodes(world).items() if driver.startswith(DRIVERS)]
    return [n for n, path in enumerate(nodes) if world.access(path, os.R_OK | os.W_OK)]

"""What the interface to an NVIDIA GPU requires, for `python -m drivers.probe`."""

from __future__ import annotations

from drivers.machine.buses import NVIDIA
from drivers.machine.checks import Machine, Result, device_node, module_missing
from drivers.nv.tools.look import judged, versions

_UVM = "/dev/nvidia-uvm"


def nvk(machine: Machine) -> Result:
    """NVIDIA through its kernel driver: both nodes, and a release that is not too old."""
    missing, advice = module_missing(machine, NVIDIA, "NVIDIA", "nvidia")
    first = device_node(machine, "NV", "NVK", "/dev/nvidiactl", missing, advice)
    if not first.ready:
        return first
    uvm = device_node(
        machine, "NV", "NVK", _UVM, "the nvidia-uvm kernel module is not loaded",
        "`modprobe nvidia-uvm`",
    )  # fmt: skip
    version, title = versions(machine.world)
    if not uvm.ready or not version:
        return uvm
    problem, note = judged(version)
    details = {"version": version}
    if problem is not None:
        return Result("NV", "NVK", False, problem.message, problem.hint, details)
    reason = f"{title or version}; {note}" if note else title or version
    return Result("NV", "NVK", True, reason, "python -m drivers.nv.probe", details)

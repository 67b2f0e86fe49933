"""What a machine has where a kernel driver of a kind of GPU is at work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class KernelDriver:
    """One kernel driver."""

    name: str
    """As sysfs names the driver of a PCI function, and its module."""
    modules: tuple[str, ...] = ()
    """Further modules."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """Device nodes, each with what to do where it is missing."""
    shared: tuple[str, ...] = ()
    """Nodes in /dev through which any of its GPUs may be used: who holds one may use this GPU."""
    numbered: str = ""
    """What its nodes begin with, where they are not below the function in sysfs: "nvidia" says
    that any /dev/nvidia0, 1, ... may be this GPU."""
    firmware: str = ""
    """Its folder of linux-firmware."""
    vendor: int = 0
    """The PCI vendor of its GPUs; 0: they are not on PCI."""
    compatible: str = ""
    """A part of what the device tree of machines with its GPUs says they are compatible with."""

"""Whether anything of a vendor is in this machine: on PCI, as a node, a module or a platform."""

from __future__ import annotations

from typing import Final

from drivers.base.contracts import World
from drivers.base.kernel_driver import KernelDriver
from drivers.machine.buses import pci_listing, render_nodes
from drivers.machine.text import try_text

_COMPATIBLE: Final = "/proc/device-tree/compatible"
"""Names of the machine, from its firmware. # src: Devicetree Specification 0.4, 2.3.1"""


def present(world: World, driver: KernelDriver) -> bool:
    """Whether the kernel driver, or a GPU that it is for, is here."""
    names = (driver.name, *driver.modules)
    return (
        any(gpu.vendor == driver.vendor for gpu in pci_listing(world)[0])
        or any(world.exists(path) for path in driver.nodes)
        or any(world.exists(f"/sys/module/{name}") for name in names)
        or any(found.startswith(driver.name) for found in render_nodes(world).values())
        or bool(driver.compatible and driver.compatible in try_text(world, _COMPATIBLE))
    )

"""Active state power management (ASPM): whether a function lets its link sleep between accesses.

While a driver of ours has a GPU, its link stays awake. In L1, and behind retimers or in enclosures,
reads of registers return all ones now and then, which reads as a GPU that left the bus.
Source: PCI Express Base Specification 4.0, 7.5.3.7 Link Control Register, 5.4.1.
"""

from __future__ import annotations

import warnings

from drivers.base.contracts import World
from drivers.base.errors import Denied, DeviceError, DeviceGone, MalformedInput, NotFound
from drivers.pci.command import ConfigSpace
from drivers.pci.config import CAP_EXPRESS, OLD_SPACE_BYTES, Config
from drivers.pci.functions import ROOT

LINK_CONTROL = 0x10
"""From the capability on. # src: pci_regs.h PCI_EXP_LNKCTL"""
BITS = 0x3
"""# src: pci_regs.h PCI_EXP_LNKCTL_ASPMC: 1: L0s, 2: L1"""
_LIST, _FIRST = 0x34, 0x40
_MOST = (OLD_SPACE_BYTES - _FIRST) // 4
_NO_LINK = 0xFFFF


def place(world: World, address: str) -> tuple[int, int]:
    """(offset of Link Control, its value) of a function; (0, 0) where it cannot be read.

    A user other than root reads 64 bytes. # src: drivers/pci/pci-sysfs.c pci_read_config()
    """
    try:
        config = Config.read(world, address)
        found = config.find(CAP_EXPRESS) if config.complete else None
        if found is None:
            return 0, 0
        at = found.off + LINK_CONTROL
        return at, config.view.u16(at, "link control")
    except (Denied, DeviceGone, MalformedInput, NotFound):
        return 0, 0  # the claim's rules and the session judge what is wrong with it


def config_path(address: str) -> str:
    """The file of its config space."""
    return f"{ROOT}/{address}/config"


def keep_awake(space: ConfigSpace, *, vfio: bool = False) -> None:
    """Switch ASPM off in an open function. Warns where it stays on: VFIO writes no Link Control.

    # src: drivers/vfio/pci/vfio_pci_config.c init_pci_cap_exp_perm(), 5.15 to 7.3: Link Control is
    # src: read from the function, and not written
    """
    at = _capability(space)
    if not at:
        return
    now = space.config_read(at + LINK_CONTROL, 2)
    if now == _NO_LINK or not now & BITS:
        return
    if not vfio:
        space.config_write(at + LINK_CONTROL, 2, now & ~BITS)
    if space.config_read(at + LINK_CONTROL, 2) & BITS:
        warnings.warn(
            f"{space.address}: the link may sleep (ASPM), and reads may then fail. As root: "
            f"setpci -s {space.address} CAP_EXP+10.w=0:3",
            RuntimeWarning,
            stacklevel=2,
        )


def _capability(space: ConfigSpace) -> int:
    """Where the capability of PCI Express is; 0 without one, or where it cannot be read."""
    try:
        at = space.config_read(_LIST, 1) & ~3
        for _ in range(_MOST):
            if at < _FIRST:
                return 0
            if space.config_read(at, 1) == CAP_EXPRESS:
                return at
            at = space.config_read(at + 1, 1) & ~3
    except DeviceGone:
        raise
    except DeviceError:
        return 0
    return 0

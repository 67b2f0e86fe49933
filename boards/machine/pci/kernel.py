"""The part of Linux that binds drivers to PCI functions and gives IOMMU groups to users.

src: Linux 6.12 drivers/base/bus.c, dd.c, driver.c (driver_set_override), drivers/pci/pci-driver.c,
src: drivers/iommu/iommu.c (iommu_group_claim_dma_owner)
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field

from boards.machine.frames import Frames
from boards.machine.iommu import Domain
from boards.machine.pci.slot import Slot

VFIO = "vfio-pci"
_NO_DMA = frozenset({"", VFIO, "pci-stub", "pcieport"})
"""src: driver_managed_dma of vfio_pci.c, pci-stub.c, portdrv.c: they leave a group to its user"""
_LONGEST_OVERRIDE = 4094


def _nothing(slot: Slot) -> None:
    """A driver that does nothing to the function."""


@dataclass(frozen=True, slots=True)
class Driver:
    """A driver: what it does when it gets a function, and when it loses it."""

    name: str
    probe: Callable[[Slot], None] = _nothing
    remove: Callable[[Slot], None] = _nothing
    everything: bool = False
    """It has no list of ids: only an override makes it match."""
    renders: bool = False
    """It makes the nodes of a graphics driver: /dev/dri/cardN, renderDN."""


@dataclass(slots=True)
class Kernel:
    """Functions, drivers, IOMMU groups; `changed` is called when a binding changed."""

    frames: Frames
    find: Callable[[str, str, str], None]
    memlock_bytes: int | None = None
    slots: dict[str, Slot] = field(default_factory=dict)
    drivers: dict[str, Driver] = field(default_factory=dict)
    open_groups: set[str] = field(default_factory=set)
    owned_groups: set[str] = field(default_factory=set)
    changed: Callable[[Slot], None] = _nothing

    # Binding

    def _slot(self, address: str) -> Slot:
        found = self.slots.get(address)
        if found is None:
            raise OSError(errno.ENODEV, f"no function {address!r}")
        return found

    def _matches(self, driver: Driver, slot: Slot) -> bool:
        if slot.override is not None:
            return slot.override == driver.name
        return slot.native == driver.name and not driver.everything

    def _attach(self, driver: Driver, slot: Slot) -> None:
        if slot.group in self.owned_groups and driver.name not in _NO_DMA:
            raise OSError(errno.EBUSY, f"group {slot.group} belongs to a process")
        driver.probe(slot)
        slot.driver = driver.name
        self.changed(slot)

    def bind(self, name: str, address: str) -> None:
        """A write to `bind`. Raises: OSError ENODEV, EBUSY."""
        slot, driver = self._slot(address), self.drivers[name]
        if not self._matches(driver, slot):
            raise OSError(errno.ENODEV, f"{name} does not match {address}")
        if slot.driver:
            raise OSError(errno.EBUSY, f"{slot.driver} has {address}")
        self._attach(driver, slot)

    def unbind(self, name: str, address: str) -> None:
        """A write to `unbind`. Raises: OSError ENODEV; EDEADLK where the kernel would hang."""
        slot = self._slot(address)
        if slot.driver != name:
            raise OSError(errno.ENODEV, f"{name} has not {address}")
        if name == VFIO and slot.opened:
            self.find("unbind of an open VFIO device", address, "the kernel waits without end")
            raise OSError(errno.EDEADLK, f"{address} is open")
        self.drivers[name].remove(slot)
        slot.driver = ""
        self.changed(slot)

    def probe(self, address: str) -> None:
        """A write to `drivers_probe`: whatever matches is bound, and nothing is no error."""
        slot = self._slot(address)
        for driver in self.drivers.values():
            if not slot.driver and self._matches(driver, slot):
                self._attach(driver, slot)

    def override(self, slot: Slot, text: str) -> None:
        """A write to `driver_override`; an empty line takes it away."""
        if len(text) > _LONGEST_OVERRIDE:
            raise OSError(errno.EINVAL, "too long")
        word = text.partition("\n")[0]
        slot.override = word or None

    def enable(self, slot: Slot, text: str) -> None:
        """A write to `enable`. src: pci-sysfs.c enable_store()"""
        if text.strip() not in ("0", "1"):
            raise OSError(errno.EINVAL, f"{text!r} is neither 0 nor 1")
        if slot.driver:
            raise OSError(errno.EBUSY, f"{slot.driver} has {slot.address}")
        if text.strip() == "1":
            slot.enable()
        elif slot.enabled:
            slot.disable()
        else:
            raise OSError(errno.EIO, f"{slot.address} is not enabled")

    # IOMMU groups

    def members(self, group: str) -> list[Slot]:
        """The functions of a group."""
        return [slot for slot in self.slots.values() if slot.group == group]

    def group_users(self, group: str) -> list[str]:
        """Drivers that use DMA in a group."""
        return [slot.driver for slot in self.members(group) if slot.driver not in _NO_DMA]

    def claim_group(self, group: str) -> None:
        """iommu_group_claim_dma_owner(). Raises: OSError EBUSY."""
        if group in self.owned_groups or self.group_users(group):
            raise OSError(errno.EBUSY, f"group {group} is in use")
        self.owned_groups.add(group)

    def release_group(self, group: str) -> None:
        """iommu_group_release_dma_owner()."""
        self.owned_groups.discard(group)

    def new_domain(self) -> Domain:
        """An address space without mappings."""
        return Domain(self.find, self.memlock_bytes)

    def attach(self, group: str, domain: Domain) -> None:
        """The group's devices see this address space."""
        for slot in self.members(group):
            slot.domain = domain

    def detach(self, group: str) -> None:
        """They see none."""
        for slot in self.members(group):
            slot.domain = None

    def vfio_slot(self, address: str, group: str) -> Slot:
        """A function of a group that vfio-pci has. Raises: OSError ENODEV."""
        found = self.slots.get(address)
        if found is None or found.group != group or found.driver != VFIO:
            raise OSError(errno.ENODEV, f"VFIO has no {address} in group {group}")
        return found

"""Config space: identity, command register, and the two lists of capabilities.

Every byte comes from the device and is read through a bounded view; lists that loop, leave the
space or overlap the header are malformed.
Source: PCI Express Base Specification 4.0, 7.5 and 7.6; include/uapi/linux/pci_regs.h.
"""

from __future__ import annotations

from dataclasses import dataclass

from drivers.base.contracts import World
from drivers.base.errors import Denied, DeviceGone
from drivers.base.view import View
from drivers.pci.functions import ROOT, checked_address

SPACE_BYTES = 4096
OLD_SPACE_BYTES = 256
"""Conventional PCI's config space; capabilities of PCI Express alone lie behind it."""
HEADER_BYTES = 64
# src: pci_regs.h PCI_VENDOR_ID, _DEVICE_ID, _COMMAND, _STATUS, _HEADER_TYPE, _CAPABILITY_LIST
_VENDOR, _DEVICE, COMMAND, _STATUS, _HEADER_TYPE, _LIST = 0x00, 0x02, 0x04, 0x06, 0x0E, 0x34
# src: pci_regs.h PCI_COMMAND_IO, _MEMORY, _MASTER, _INTX_DISABLE
COMMAND_IO, COMMAND_MEMORY, COMMAND_MASTER, COMMAND_NO_INTX = 0x1, 0x2, 0x4, 0x400
# src: pci_regs.h PCI_STATUS_CAP_LIST, PCI_HEADER_TYPE_MASK
_HAS_LIST, _HEADER_TYPE_MASK = 0x10, 0x7F
_NOBODY = 0xFFFF
_ALL_ONES = 0xFFFF_FFFF
_MOST_OLD = (OLD_SPACE_BYTES - HEADER_BYTES) // 4
_MOST_NEW = (SPACE_BYTES - OLD_SPACE_BYTES) // 4

# src: pci_regs.h PCI_CAP_ID_PM, _MSI, _VNDR, _EXP, _MSIX
CAP_PM, CAP_MSI, CAP_VENDOR, CAP_EXPRESS, CAP_MSIX = 0x01, 0x05, 0x09, 0x10, 0x11
# src: pci_regs.h PCI_EXT_CAP_ID_DSN, _ACS, _ATS, _SRIOV, _REBAR
EXT_SERIAL, EXT_ACS, EXT_ATS, EXT_SRIOV, EXT_REBAR = 0x03, 0x0D, 0x0F, 0x10, 0x15


@dataclass(frozen=True, slots=True)
class Capability:
    """One capability: what it is, which version (0 in the old list), and where it starts."""

    id: int
    version: int
    off: int


class Config:
    """A snapshot of one function's config space."""

    def __init__(self, data: bytes, what: str) -> None:
        self.view = View(data, what)
        if self.vendor == _NOBODY:
            raise DeviceGone(
                f"{what} reads all ones",
                hint="the function left the bus or sleeps: check power, then try again",
            )

    @classmethod
    def read(cls, world: World, address: str) -> Config:
        """The config space of the function at `address`, as much as this user may read."""
        path = f"{ROOT}/{checked_address(address)}/config"
        data = world.read(path, SPACE_BYTES)
        return cls(data, f"config space of {address}")

    @property
    def vendor(self) -> int:
        """The vendor's id."""
        return self.view.u16(_VENDOR, "vendor")

    @property
    def device(self) -> int:
        """The device's id."""
        return self.view.u16(_DEVICE, "device")

    @property
    def command(self) -> int:
        """What the function answers to and may do: COMMAND_MEMORY, COMMAND_MASTER, ..."""
        return self.view.u16(COMMAND, "command")

    @property
    def header_type(self) -> int:
        """0 of a device, 1 of a bridge."""
        return self.view.u8(_HEADER_TYPE, "header type") & _HEADER_TYPE_MASK

    @property
    def complete(self) -> bool:
        """Whether more than the header could be read.

        # src: drivers/pci/pci-sysfs.c pci_read_config(): without CAP_SYS_ADMIN 64 bytes are given
        """
        return len(self.view) > HEADER_BYTES

    def capabilities(self) -> list[Capability]:
        """The list in the first 256 bytes. Raises: MalformedInput, Denied."""
        if not self.view.u16(_STATUS, "status") & _HAS_LIST:
            return []
        self._need_all()
        found: list[Capability] = []
        off = self.view.u8(_LIST, "capability pointer") & ~3
        for _ in range(_MOST_OLD + 1):
            if off == 0:
                return found
            if off < HEADER_BYTES:
                raise self.view.fail(f"a capability at {off:#x}, in the header", off)
            kind, after = self.view.unpack("BB", off, "capability")
            found.append(Capability(kind, 0, off))
            off = after & ~3
        raise self.view.fail("the list of capabilities loops", off)

    def extended(self) -> list[Capability]:
        """The list behind the first 256 bytes, [] where there is none. Raises: MalformedInput."""
        self._need_all()
        if len(self.view) <= OLD_SPACE_BYTES:
            return []
        found: list[Capability] = []
        off = OLD_SPACE_BYTES
        for _ in range(_MOST_NEW + 1):
            header = self.view.u32(off, "extended capability")
            if not found and header in (0, _ALL_ONES):
                return found
            found.append(Capability(header & 0xFFFF, header >> 16 & 0xF, off))
            off = header >> 20 & ~3
            if off == 0:
                return found
            if off < OLD_SPACE_BYTES:
                raise self.view.fail(f"an extended capability at {off:#x}", off)
        raise self.view.fail("the list of extended capabilities loops", off)

    def find(self, kind: int) -> Capability | None:
        """The first capability of a kind in the old list."""
        return next((cap for cap in self.capabilities() if cap.id == kind), None)

    def find_extended(self, kind: int) -> Capability | None:
        """The first capability of a kind in the extended list."""
        return next((cap for cap in self.extended() if cap.id == kind), None)

    def _need_all(self) -> None:
        if not self.complete:
            raise Denied(
                f"only {len(self.view)} bytes of the {self.view.what} may be read",
                hint="capabilities are shown to root alone, or to the owner of a VFIO device",
            )

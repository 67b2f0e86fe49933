"""PCI functions, enumerated through sysfs. Inspecting one neither wakes nor claims it.

Source: Linux Documentation/ABI/testing/sysfs-bus-pci, Documentation/PCI/sysfs-pci.rst.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from drivers.base.contracts import World
from drivers.base.errors import BadArgument, DeviceError, DeviceGone, MalformedInput, NotFound
from drivers.machine.buses import Unread
from drivers.machine.text import hex_number, read_text
from drivers.pci.strict import linked_name, names_in, number_or, text_or_none

ROOT = "/sys/bus/pci/devices"
GROUPS = "/sys/kernel/iommu_groups"
# src: include/linux/ioport.h IORESOURCE_IO, _MEM, _PREFETCH, _MEM_64
_IO, _MEMORY, _PREFETCH, _WIDE = 0x100, 0x200, 0x2000, 0x0010_0000
BARS = 6
"""Base address registers of a function; the ROM and bridge windows follow them in `resource`.

# src: include/linux/pci.h PCI_STD_NUM_BARS
"""
_NO_IOMMU = "vfio-noiommu"
"""Name of a group that isolates nothing.

# src: drivers/vfio/group.c vfio_noiommu_group_alloc()
"""
_MAX_RESOURCES = 32
_CLASS_BITS, _ID_BITS = 24, 16
_BASE_CLASS_SHIFT = 16
# src: PCI Code and ID Assignment Specification 1.16: base classes 03h, 06h and 12h
DISPLAY, BRIDGE, ACCELERATOR = 0x03, 0x06, 0x12
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]").fullmatch
_RESOURCE = re.compile(r"(0x[0-9a-f]{16}) (0x[0-9a-f]{16}) (0x[0-9a-f]{16})").fullmatch


@dataclass(frozen=True, slots=True)
class Resource:
    """One line of `resource`: a BAR, the ROM, or nothing (`nbytes` is 0)."""

    start: int
    nbytes: int
    flags: int

    @property
    def is_memory(self) -> bool:
        """Whether it is memory that may be mapped, and not I/O ports."""
        return bool(self.flags & _MEMORY) and self.nbytes > 0

    @property
    def is_ports(self) -> bool:
        """Whether it is I/O ports."""
        return bool(self.flags & _IO) and self.nbytes > 0

    @property
    def prefetchable(self) -> bool:
        """Whether reads have no side effect, as of VRAM."""
        return bool(self.flags & _PREFETCH)

    @property
    def is_64_bit(self) -> bool:
        """Whether it takes two base address registers."""
        return bool(self.flags & _WIDE)


@dataclass(frozen=True, slots=True)
class PciFunction:
    """One function as sysfs shows it."""

    address: str
    """Domain, bus, device and function: "0000:03:00.0"."""
    vendor: int
    device: int
    class_code: int
    driver: str
    """The kernel driver that holds it, "" when none does."""
    override: str
    """The only driver that may bind to it, "" when any may."""
    iommu_group: str
    """Number of its IOMMU group, "" when no IOMMU isolates it."""
    boot_vga: bool
    virtual_functions: int
    """Virtual functions that are switched on now."""
    physical_function: str
    """The function that this one is a virtual function of, "" when it is none."""
    resources: tuple[Resource, ...]

    @property
    def folder(self) -> str:
        """Its directory in sysfs."""
        return f"{ROOT}/{self.address}"

    @property
    def base_class(self) -> int:
        """The class without subclass and interface: DISPLAY, BRIDGE, ..."""
        return self.class_code >> _BASE_CLASS_SHIFT

    @property
    def is_gpu(self) -> bool:
        """Whether it is a display controller or an accelerator."""
        return self.base_class in (DISPLAY, ACCELERATOR)

    def __str__(self) -> str:
        held = f"bound to {self.driver}" if self.driver else "no driver holds it"
        return f"{self.vendor:04x}:{self.device:04x} at {self.address}, {held}"


def checked_address(text: str) -> str:
    """`text` as a full PCI address; a missing domain is 0000. Raises: BadArgument."""
    lower = text.lower()
    full = lower if lower.count(":") == 2 else f"0000:{lower}"
    if not _ADDRESS(full):
        raise BadArgument(
            f"{text[:40]!r} is no PCI address", hint="write it as lspci -D does: 0000:03:00.0"
        )
    return full


def look_at(world: World, address: str) -> PciFunction:
    """One function. Raises: NotFound, MalformedInput, BadArgument."""
    address = checked_address(address)
    folder = f"{ROOT}/{address}"
    try:
        class_code = hex_number(world, f"{folder}/class", _CLASS_BITS)
    except NotFound as error:
        raise NotFound(f"no PCI function {address}", hint="see `lspci -D`") from error
    return PciFunction(
        address=address,
        vendor=hex_number(world, f"{folder}/vendor", _ID_BITS),
        device=hex_number(world, f"{folder}/device", _ID_BITS),
        class_code=class_code,
        driver=linked_name(world, f"{folder}/driver"),
        override=override_of(world, address),
        iommu_group=_group_of(world, folder),
        boot_vga=number_or(world, f"{folder}/boot_vga", 0) != 0,
        virtual_functions=number_or(world, f"{folder}/sriov_numvfs", 0),
        physical_function=linked_name(world, f"{folder}/physfn"),
        resources=_resources(world, f"{folder}/resource"),
    )


def override_of(world: World, address: str) -> str:
    """The function's driver_override, "" when it has none.

    # src: drivers/pci/pci-sysfs.c driver_override_show(): "(null)" stands for none
    """
    text = text_or_none(world, f"{ROOT}/{address}/driver_override")
    return "" if text in (None, "", "(null)") else str(text)


def _group_of(world: World, folder: str) -> str:
    """Its IOMMU group. One that VFIO made up where there is no IOMMU counts as none."""
    group = linked_name(world, f"{folder}/iommu_group")
    if group and text_or_none(world, f"{GROUPS}/{group}/name") == _NO_IOMMU:
        return ""
    return group


def _resources(world: World, path: str) -> tuple[Resource, ...]:
    """The table of BARs, ROM and windows."""
    lines = read_text(world, path).splitlines()
    if len(lines) > _MAX_RESOURCES:
        raise MalformedInput(f"{path} has {len(lines)} lines; at most {_MAX_RESOURCES} are known")
    found = []
    for number, line in enumerate(lines):
        match = _RESOURCE(line.strip())
        if match is None:
            raise MalformedInput(f"{path}, line {number}: not three 64-bit hex numbers")
        start, end, flags = (int(part, 16) for part in match.groups())
        if end < start:
            raise MalformedInput(f"{path}, line {number}: ends before it starts")
        found.append(Resource(start, end - start + 1 if flags else 0, flags))
    return tuple(found)


def gpus(world: World) -> list[PciFunction]:
    """Every display controller and accelerator that can be read, by address.

    Raises: what listing the bus gives.
    """
    return listing(world)[0]


def listing(world: World) -> tuple[list[PciFunction], list[Unread]]:
    """Every display controller and accelerator, and functions that cannot be read, by address.

    One that cannot be read hides no other. Raises: what listing the bus gives.
    """
    found: list[PciFunction] = []
    unread: list[Unread] = []
    for address in names_in(world, ROOT):
        try:
            if not _ADDRESS(address):
                raise MalformedInput(f"{ROOT}: {address[:40]!r} is no PCI address")
            kind = hex_number(world, f"{ROOT}/{address}/class", _CLASS_BITS)
            if kind >> _BASE_CLASS_SHIFT in (DISPLAY, ACCELERATOR):
                found.append(look_at(world, address))
        except (NotFound, DeviceGone):  # unplugged between listing and reading, or while read
            continue
        except DeviceError as error:
            unread.append(Unread(address, error))
    return found, unread


def group_members(world: World, group: str) -> list[str]:
    """Addresses of all functions of an IOMMU group, whatever bus they are on."""
    return names_in(world, f"{GROUPS}/{group}/devices") if group else []

"""GPUs on PCI and USB, found by their sysfs ids. Inspecting one neither wakes nor claims it."""

from __future__ import annotations

from dataclasses import dataclass

from drivers.base.contracts import World
from drivers.base.errors import DeviceError, NotFound, escaped
from drivers.machine.text import entries, hex_number, link_name, try_text

PCI_ROOT = "/sys/bus/pci/devices"
USB_ROOT = "/sys/bus/usb/devices"
# src: pci-ids.ucw.cz, vendor list
AMD, NVIDIA, INTEL, QUALCOMM = 0x1002, 0x10DE, 0x8086, 0x17CB
VENDOR_NAMES = {AMD: "AMD", NVIDIA: "NVIDIA", INTEL: "Intel", QUALCOMM: "Qualcomm"}
# src: PCI Code and ID Assignment Specification 1.16, base classes 03h and 12h
_GPU_CLASSES = frozenset({0x03, 0x12})
_BASE_CLASS_SHIFT = 16
USB_BRIDGES = frozenset({(0xADD1, 0x0001), (0x3801, 0x0001)})
"""PCIe-over-USB bridges whose firmware gives access to the GPU behind them (ASM2464PD).

# src: tinygrad/asm2464pd-firmware, USB descriptors
"""


@dataclass(frozen=True, slots=True)
class PciGpu:
    """A display controller or accelerator on PCI."""

    address: str
    vendor: int
    device: int
    driver: str
    """The kernel driver that holds it, "" when none does."""
    iommu_group: str
    boot_vga: bool
    removable: bool = False
    """Behind a port: in an enclosure on USB4 or Thunderbolt, where it is on PCI, too.
    # src: Linux Documentation/ABI/testing/sysfs-devices-removable"""

    def __str__(self) -> str:
        held = f"bound to {self.driver}" if self.driver else "no driver holds it"
        vendor = VENDOR_NAMES.get(self.vendor, "unknown vendor")
        return f"{vendor} {self.vendor:04x}:{self.device:04x} at {self.address}, {held}"


@dataclass(frozen=True, slots=True)
class UsbDevice:
    """A device on USB."""

    address: str
    vendor: int
    product: int

    def __str__(self) -> str:
        return f"{self.vendor:04x}:{self.product:04x} at {self.address}"


@dataclass(frozen=True, slots=True)
class Unread:
    """A device that is listed, and of which the kernel answers too little to say what it is."""

    address: str
    """As its bus names it."""
    error: DeviceError

    @property
    def reason(self) -> str:
        """What is not known, as a diagnostic prints it."""
        return f"{escaped(self.address)} is passed over: {self.error.message}"

    @property
    def advice(self) -> str:
        """The next step."""
        return self.error.hint or "see `dmesg` for what its driver reports"


def pci_gpus(world: World) -> list[PciGpu]:
    """Every GPU on PCI that can be read. Raises: what listing the bus gives."""
    return pci_listing(world)[0]


def pci_listing(world: World) -> tuple[list[PciGpu], list[Unread]]:
    """Every GPU on PCI, and functions that cannot be read: one hides no other.

    Raises: what listing the bus gives.
    """
    gpus: list[PciGpu] = []
    unread: list[Unread] = []
    for address in entries(world, PCI_ROOT):
        try:
            gpu = _pci_gpu(world, address)
        except NotFound:  # unplugged between listing and reading
            continue
        except DeviceError as error:
            unread.append(Unread(address, error))
            continue
        gpus += [] if gpu is None else [gpu]
    return gpus, unread


def _pci_gpu(world: World, address: str) -> PciGpu | None:
    """One function, None when it is something else than a GPU."""
    folder = f"{PCI_ROOT}/{address}"
    kind = hex_number(world, f"{folder}/class", 24)
    if kind >> _BASE_CLASS_SHIFT not in _GPU_CLASSES:
        return None
    return PciGpu(
        address=address,
        vendor=hex_number(world, f"{folder}/vendor", 16),
        device=hex_number(world, f"{folder}/device", 16),
        driver=link_name(world, f"{folder}/driver"),
        iommu_group=link_name(world, f"{folder}/iommu_group"),
        boot_vga=try_text(world, f"{folder}/boot_vga").strip() == "1",
        removable=try_text(world, f"{folder}/removable").strip() == "removable",
    )


def usb_devices(world: World) -> list[UsbDevice]:
    """Every device on USB that can be read; interfaces, which have no vendor, are left out."""
    return usb_listing(world)[0]


def usb_listing(world: World) -> tuple[list[UsbDevice], list[Unread]]:
    """Every device on USB, and those that cannot be read: one hides no other."""
    found: list[UsbDevice] = []
    unread: list[Unread] = []
    for address in entries(world, USB_ROOT):
        folder = f"{USB_ROOT}/{address}"
        try:
            vendor = hex_number(world, f"{folder}/idVendor", 16)
            product = hex_number(world, f"{folder}/idProduct", 16)
        except NotFound:
            continue
        except DeviceError as error:
            unread.append(Unread(address, error))
            continue
        found.append(UsbDevice(address, vendor, product))
    return found, unread


def render_nodes(world: World) -> dict[str, str]:
    """/dev/dri/renderD* and the kernel driver behind each."""
    return {
        f"/dev/dri/{name}": link_name(world, f"/sys/class/drm/{name}/device/driver")
        for name in entries(world, "/dev/dri")
        if name.startswith("renderD")
    }

"""Config space: the header, capabilities, BARs that are sized by writing ones, the command bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

SIZE = 4096
# src: include/uapi/linux/pci_regs.h
_COMMAND, _STATUS, _BAR0, _ROM, _CAPABILITIES = 0x04, 0x06, 0x10, 0x30, 0x34
_ROM_ENABLE, _ROM_SMALLEST_BYTES = 1, 1 << 11
"""# src: PCI Local Bus Specification 3.0 6.2.5.2: bits 31 to 11 are the address, bit 0 decodes"""
MEMORY, MASTER, INTX_OFF = 1 << 1, 1 << 2, 1 << 10
_STATUS_CAPABILITIES = 1 << 4
_MEM_64, _MEM_PREFETCH = 0x4, 0x8
_PM, _EXPRESS, _MSI, _VENDOR, _REBAR = 0x50, 0x64, 0xA0, 0x100, 0x200
"""Where the functions here have them, as lspci shows them of a discrete GPU."""
_EXPRESS_BYTES, _FLR_CAPABLE, _FLR = 60, 1 << 28, 1 << 15
MSI_ENABLE = 1
ASPM_L1, _COMMON_CLOCK = 0x2, 0x40
"""As firmware leaves LNKCTL on a desktop. # src: pci_regs.h PCI_EXP_LNKCTL_*"""
_REBAR_SIZE = 0x3F << 8
_SMALLEST_LOG2 = 28
"""256 MiB. src: what lspci shows of BAR 0 of Navi 31 before it is resized."""
_MIB_LOG2 = 20


@dataclass(frozen=True, slots=True)
class Identity:
    """What the header of a function's config space says of it."""

    vendor_id: int
    device_id: int
    subsystem_id: int
    class_code: int
    """Base class, subclass, interface: 0x030000 is a VGA controller."""
    revision: int
    many_functions: bool
    resets: bool
    """Whether it has a function-level reset."""


class ConfigSpace:
    """4096 bytes, each bit of which may be written or not."""

    def __init__(
        self, identity: Identity, bar_log2: dict[int, int], largest_log2: int, rom_bytes: int = 0
    ) -> None:
        self._identity, self._reset_log2 = identity, dict(bar_log2)
        self._rom_bytes = rom_bytes and max(rom_bytes, _ROM_SMALLEST_BYTES)
        self._largest_log2 = largest_log2
        self.bar_log2 = dict(bar_log2)
        self._bytes, self._writable = bytearray(SIZE), bytearray(SIZE)
        self.changed: Callable[[], None] = lambda: None
        """Called after a write that moved or resized a BAR or changed COMMAND."""
        self.due: Callable[[], object] = lambda: None
        """Called before an access from the bus: what should have happened by now happens."""
        self.flr: Callable[[], None] = lambda: None
        """Called when a function-level reset is asked for."""
        self.reset()

    # What the bus does

    def read(self, off: int, nbytes: int) -> bytes:
        """Bytes at an offset; past the end, all-ones."""
        self.due()
        piece = bytes(self._bytes[max(0, off) : off + nbytes]) if off >= 0 else b""
        return piece + b"\xff" * (nbytes - len(piece))

    def write(self, off: int, data: bytes) -> None:
        """Bits that cannot be written stay as they are."""
        self.due()
        before = self._watched()
        for at, value in enumerate(data, off):
            if 0 <= at < SIZE:
                mask = self._writable[at]
                self._bytes[at] = self._bytes[at] & ~mask | value & mask
        self._resize()
        if self._get(_EXPRESS + 8, 2) & _FLR:
            self._set(_EXPRESS + 8, self._get(_EXPRESS + 8, 2) & ~_FLR, 2)
            if self._identity.resets:
                self.flr()
                return
        if self._watched() != before:
            self.changed()

    # What the function wants to know

    @property
    def memory_on(self) -> bool:
        """Whether BARs answer."""
        return bool(self._bytes[_COMMAND] & MEMORY)

    @property
    def master_on(self) -> bool:
        """Whether the function may read and write memory of the machine."""
        return bool(self._get(_COMMAND, 2) & MASTER)

    def stop_mastering(self) -> None:
        """What a mode-1 reset does to COMMAND."""
        self._set(_COMMAND, self._get(_COMMAND, 2) & ~MASTER, 2)

    @property
    def msi_on(self) -> bool:
        """Whether interrupts are messages, and go out."""
        return bool(self._get(_MSI + 2, 2) & MSI_ENABLE) and self.master_on

    def msi_masked(self, vector: int) -> bool:
        """Whether a vector is held back; it is then pending."""
        return bool(self._get(_MSI + 16, 4) >> vector & 1)

    def set_pending(self, vector: int, *, on: bool) -> None:
        """The pending bit of a vector."""
        old = self._get(_MSI + 20, 4)
        self._set(_MSI + 20, old | 1 << vector if on else old & ~(1 << vector), 4)

    def pending(self, vector: int) -> bool:
        """Whether a vector waits to be unmasked."""
        return bool(self._get(_MSI + 20, 4) >> vector & 1)

    @property
    def aspm(self) -> int:
        """ASPM Control of LNKCTL: 0 while the link stays awake."""
        return self._get(_EXPRESS + 0x10, 2) & 3

    # How it is built

    def reset(self) -> None:
        """Power-on values."""
        self._bytes[:], self._writable[:] = bytes(SIZE), bytes(SIZE)
        self.bar_log2 = dict(self._reset_log2)
        who = self._identity
        self._set(0x00, who.vendor_id | who.device_id << 16, 4)
        self._set(_STATUS, _STATUS_CAPABILITIES, 2)
        self._set(0x08, who.class_code << 8 | who.revision, 4)
        self._set(0x0E, 0x80 if who.many_functions else 0x00, 1)
        self._set(0x2C, who.vendor_id | who.subsystem_id << 16, 4)
        self._set(0x3D, 1, 1)
        self._allow(_COMMAND, MEMORY | MASTER | INTX_OFF | 1 << 6 | 1 << 8, 2)
        self._allow(0x0C, 0xFF, 1)
        self._allow(0x3C, 0xFF, 1)
        self._capabilities()
        self._rebar()
        self._bars()
        if self._rom_bytes:
            self._allow(_ROM, 0xFFFF_FFFF - (self._rom_bytes - 1) | _ROM_ENABLE, 4)

    def _capabilities(self) -> None:
        self._set(_CAPABILITIES, _PM, 1)
        self._set(_PM, 0x01 | _EXPRESS << 8 | 0x0003 << 16, 4)
        self._set(_PM + 4, 1 << 3, 2)  # NoSoftRst: D3hot keeps everything
        self._allow(_PM + 4, 0x3, 2)
        self._set(_EXPRESS, 0x10 | _MSI << 8 | 0x0012 << 16, 4)
        flr = _FLR_CAPABLE if self._identity.resets else 0
        self._set(_EXPRESS + 4, 0x8FA1 | flr, 4)
        self._set(_EXPRESS + 8, 0x2930, 2)
        self._allow(_EXPRESS + 8, 0x7FFF | _FLR, 2)
        self._set(_EXPRESS + 0xC, 0x0040_0D04, 4)  # 16 lanes at 16 GT/s
        self._set(_EXPRESS + 0x12, 0x1104, 2)
        self._set(_EXPRESS + 0x10, ASPM_L1 | _COMMON_CLOCK, 2)
        self._allow(_EXPRESS + 0x10, 0x1F3, 2)
        self._set(_MSI, 0x05 | 0x0180 << 16, 4)  # 64-bit, one vector that can be masked
        self._allow(_MSI + 2, MSI_ENABLE, 2)
        self._allow(_MSI + 4, 0xFFFF_FFFF_FFFF_FFFC, 8)
        self._allow(_MSI + 12, 0xFFFF, 2)
        self._allow(_MSI + 16, 1, 4)
        self._set(_VENDOR, 0x000B | 1 << 16 | _REBAR << 20, 4)
        self._set(_VENDOR + 4, 0x0001 | 1 << 16 | 0x10 << 20, 4)

    def _rebar(self) -> None:
        """Resizable BAR, BAR 0 alone. src: pci_regs.h PCI_REBAR_*."""
        sizes = range(min(_SMALLEST_LOG2, self._reset_log2[0]), self._largest_log2 + 1)
        supported = sum(1 << size - _MIB_LOG2 + 4 for size in sizes if size - _MIB_LOG2 < 28)
        self._set(_REBAR, 0x0015 | 1 << 16, 4)
        self._set(_REBAR + 4, supported, 4)
        self._set(_REBAR + 8, 1 << 5 | (self.bar_log2[0] - _MIB_LOG2) << 8, 4)
        self._allow(_REBAR + 8, _REBAR_SIZE, 4)

    def _bars(self) -> None:
        """BAR registers: flags, and as many address bits as the size leaves."""
        for bar, log2 in self.bar_log2.items():
            at, wide = _BAR0 + 4 * bar, bar < 4
            nbytes = 8 if wide else 4
            mask = (1 << 8 * nbytes) - (1 << log2)
            address = self._get(at, nbytes) & mask
            self._writable[at : at + nbytes] = mask.to_bytes(nbytes, "little")
            self._set(at, address | (_MEM_64 | _MEM_PREFETCH if wide else 0), nbytes)

    def _resize(self) -> None:
        wanted = (self._get(_REBAR + 8, 4) >> 8 & 0x3F) + _MIB_LOG2
        if wanted == self.bar_log2[0]:
            return
        if self._get(_REBAR + 4, 4) >> wanted - _MIB_LOG2 + 4 & 1:
            self.bar_log2[0] = wanted
            self._bars()
        else:
            self._set(_REBAR + 8, 1 << 5 | (self.bar_log2[0] - _MIB_LOG2) << 8, 4)

    def _watched(self) -> bytes:
        return bytes(self._bytes[_COMMAND:_STATUS] + self._bytes[_BAR0 : _BAR0 + 24]) + bytes(
            self._bytes[_REBAR + 8 : _REBAR + 12] + self._bytes[_MSI : _MSI + 24]
        )

    def _get(self, off: int, nbytes: int) -> int:
        return int.from_bytes(self._bytes[off : off + nbytes], "little")

    def _set(self, off: int, value: int, nbytes: int) -> None:
        self._bytes[off : off + nbytes] = value.to_bytes(nbytes, "little")

    def _allow(self, off: int, mask: int, nbytes: int) -> None:
        self._writable[off : off + nbytes] = mask.to_bytes(nbytes, "little")

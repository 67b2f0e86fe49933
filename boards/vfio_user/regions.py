"""BARs and config space of a function as VFIO regions: some are memory, others are asked about."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from boards.machine.pci.function import ConfigBytes, PciFunction
from boards.machine.pool import Pool
from boards.vfio_user import wire
from boards.vfio_user.wire import refusal

CONFIG_BYTES = 4096
_CAPABILITIES, PIN, _CAP_MSI = 0x34, 0x3D, 5
"""# src: linux/pci_regs.h PCI_CAPABILITY_LIST, PCI_INTERRUPT_PIN, PCI_CAP_ID_MSI"""
_COMMAND, _MASTER, _MSI_ENABLE = 0x04, 1 << 2, 1
"""# src: linux/pci_regs.h PCI_COMMAND, PCI_COMMAND_MASTER, PCI_MSI_FLAGS_ENABLE"""
_MOST_CAPABILITIES = 48
"""# src: linux drivers/pci/pci.c PCI_FIND_CAP_TTL"""
_WIDTHS = (1, 2, 4, 8)
_READ_WRITE = wire.REGION_READABLE | wire.REGION_WRITABLE


def _msi_control(config: ConfigBytes) -> int | None:
    """The low byte of MSI's message control; None without the capability."""
    at = config.read(_CAPABILITIES, 1)[0] & 0xFC
    for _ in range(_MOST_CAPABILITIES):
        if not at:
            return None
        kind, following, control = config.read(at, 4)[:3]
        if kind == _CAP_MSI:
            return int(control)
        at = following & 0xFC
    raise ValueError("the list of capabilities has no end")


def msi_vectors(config: ConfigBytes) -> int:
    """How many vectors the MSI capability offers; 0 without one."""
    control = _msi_control(config)
    return 0 if control is None else 1 << (control >> 1 & 7)  # src: pci_regs.h PCI_MSI_FLAGS_QMASK


def msi_on(config: ConfigBytes) -> bool:
    """Whether interrupts are messages, and go out: MSI is enabled, and bus mastering."""
    return bool((_msi_control(config) or 0) & _MSI_ENABLE and config.read(_COMMAND, 1)[0] & _MASTER)


@runtime_checkable
class WithRom(Protocol):
    """A function with an expansion ROM, of a size that its config space decodes."""

    @property
    def rom(self) -> bytes: ...


class Regions:
    """What a client may read, write and map."""

    def __init__(self, function: PciFunction) -> None:
        self._function = function
        self._rom = function.rom if isinstance(function, WithRom) else b""

    def pools(self) -> list[Pool]:
        """Memory that clients map: they map it back for DMA between functions."""
        return [bar.pool for bar in self._function.bars.values() if bar.pool is not None]

    def info(self, argsz: int, index: int) -> tuple[bytes, list[int]]:
        """DEVICE_GET_REGION_INFO, with the descriptor to map. Raises: OSError EINVAL."""
        if not 0 <= index < wire.REGIONS:
            raise refusal(f"no region {index}")
        nbytes, flags, caps = 0, 0, b""
        descriptors: list[int] = []
        bar = self._function.bars.get(index)
        if index == wire.CONFIG_REGION:
            nbytes, flags = CONFIG_BYTES, _READ_WRITE
        elif index == wire.ROM_REGION and self._rom:
            nbytes, flags = len(self._rom), wire.REGION_READABLE
        elif bar is not None:
            nbytes, flags = bar.nbytes, _READ_WRITE
            if bar.pool is not None and bar.pool.fd >= 0:
                flags |= wire.REGION_MAPPABLE
                descriptors = [bar.pool.fd]
                caps = _sparse(bar.pool.nbytes, bar.nbytes)
        size = wire.REGION_INFO.size
        needed, cap_offset = size + len(caps), 0
        if caps:
            flags |= wire.REGION_HAS_CAPS
            cap_offset = size
        if argsz < needed:
            cap_offset, caps = 0, b""
        head = wire.REGION_INFO.pack(needed, flags, index, cap_offset, nbytes, 0)
        return head + caps, descriptors

    def read(self, index: int, off: int, nbytes: int) -> bytes:
        """REGION_READ. Raises: OSError EINVAL.

        The ROM is read whether its enable bit is set or not: kernel VFIO sets it for the read.
        # src: drivers/vfio/pci/vfio_pci_rdwr.c vfio_pci_bar_rw(), pci_map_rom()
        """
        if index == wire.ROM_REGION and 0 < nbytes <= len(self._rom) - off and off >= 0:
            return self._rom[off : off + nbytes]
        pool = self._check(index, off, nbytes)
        if index == wire.CONFIG_REGION:
            return bytes(self._function.config.read(off, nbytes))
        if pool is None:
            value = self._function.read(index, off, nbytes)
            return value.to_bytes(nbytes, "little")
        return pool.bytes[off : off + nbytes].tobytes().ljust(nbytes, b"\xff")

    def write(self, index: int, off: int, data: bytes) -> None:
        """REGION_WRITE. Raises: OSError EINVAL."""
        pool = self._check(index, off, len(data))
        if index == wire.CONFIG_REGION:
            self._function.config.write(off, data)
        elif pool is None:
            self._function.write(index, off, len(data), int.from_bytes(data, "little"))
        else:
            view = pool.bytes[off : off + len(data)]
            view[:] = memoryview(data)[: len(view)]

    def _check(self, index: int, off: int, nbytes: int) -> Pool | None:
        """The memory of a region, or None for what is asked about."""
        bar = self._function.bars.get(index)
        limit = CONFIG_BYTES if index == wire.CONFIG_REGION else bar.nbytes if bar else 0
        if not 0 < nbytes <= wire.MAX_DATA_BYTES or off + nbytes > limit:
            raise refusal(f"{nbytes} bytes at {off:#x} of region {index}, which has {limit:#x}")
        pool = bar.pool if bar else None
        if pool is None and index != wire.CONFIG_REGION and nbytes not in _WIDTHS:
            raise refusal(f"an access of {nbytes} bytes to registers")
        return pool


def _sparse(mapped_bytes: int, nbytes: int) -> bytes:
    """The capability that says which part can be mapped; none where all of it can."""
    if mapped_bytes >= nbytes:
        return b""
    return wire.SPARSE_MMAP.pack(wire.CAP_SPARSE_MMAP, 1, 0, 1, 0, 0, mapped_bytes)

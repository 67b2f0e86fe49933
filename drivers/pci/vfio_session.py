"""One function through vfio-pci: BARs, config space, reset and interrupts of an open device."""

from __future__ import annotations

import re
from functools import partial

from drivers.base.contracts import Region, World
from drivers.base.errors import BadArgument, Busy, MalformedInput, Unsupported, during
from drivers.base.undo import Undo, run_all
from drivers.pci import vfio_abi as abi
from drivers.pci.command import set_command
from drivers.pci.functions import BARS, PciFunction
from drivers.pci.info_caps import sparse_areas, whole_answer
from drivers.pci.sparse import SparseRegion
from drivers.pci.vfio_cdev import character_device, open_through_iommufd
from drivers.pci.vfio_group import open_through_group
from drivers.pci.vfio_handle import VfioHandle, plain

_PAGE_BYTES = 4096
_START = re.compile(r"([0-9a-f]{1,16})-").match
_MAPS, _MAPS_BYTES = "/proc/self/maps", 1 << 26


class _Slow:
    """A region of the device's file, a few bytes at a time."""

    def __init__(self, world: World, fd: int, offset: int) -> None:
        self._world, self._fd, self._offset = world, fd, offset

    def read(self, off: int, nbytes: int) -> bytes:
        return self._world.pread(self._fd, nbytes, self._offset + off)

    def write(self, off: int, data: bytes) -> None:
        self._world.pwrite(self._fd, data, self._offset + off)


class VfioFunction:
    """A function that vfio-pci has opened for us. `open_vfio` makes it."""

    def __init__(self, world: World, address: str, handle: VfioHandle) -> None:
        self._world, self.address, self._handle = world, address, handle
        self.iommu = handle.iommu
        self._config: _Slow | None = None
        self._event = -1
        self._irq = abi.IrqIndex.MSI
        self._mapped_at: set[int] = set()
        self._open = True

    def _region(self, index: int) -> tuple[abi.RegionInfo, list[tuple[int, int]]]:
        """A region, and what of it may be mapped."""
        args = abi.RegionInfo(argsz=abi.RegionInfo.SIZE, index=index)
        info = abi.DEVICE_GET_REGION_INFO(self._world, self._handle.device, args)
        areas: list[tuple[int, int]] | None = None
        if info.flags & abi.RegionFlag.CAPS and info.argsz > info.SIZE:
            request, fd = abi.DEVICE_GET_REGION_INFO, self._handle.device
            view = whole_answer(self._world, fd, request, info)
            info = abi.RegionInfo.of(view.bytes(0, info.SIZE, "the answer"))
            areas = sparse_areas(view, info.cap_offset)
        if not info.flags & abi.RegionFlag.MMAP:
            areas = []
        elif areas is None:
            areas = [(0, info.region_bytes)]
        for off, nbytes in areas:
            aligned = off % _PAGE_BYTES == 0 and nbytes > 0 and off + nbytes <= info.region_bytes
            if not aligned:
                raise MalformedInput(f"VFIO region {index}: no area {off:#x}+{nbytes:#x} can be")
        return info, areas

    def map_bar(self, number: int, *, combine: bool) -> Region:
        """A whole BAR. The kernel chooses caching: `combine` changes nothing through VFIO.

        # src: drivers/vfio/pci/vfio_pci_core.c vfio_pci_core_mmap(): pgprot_noncached
        """
        if not 0 <= number < BARS:
            raise BadArgument(f"{self.address} has no BAR {number}", hint=f"0 to {BARS - 1}")
        info, areas = self._region(number)
        if not info.region_bytes:
            raise Unsupported(f"BAR {number} of {self.address} is not there", hint="see `lspci -v`")
        fd = self._handle.device
        parts: list[tuple[int, Region]] = []
        with Undo() as undo:
            for off, nbytes in areas:
                part = self._world.mmap(fd, nbytes, info.offset + off)
                undo.add(part.close)
                parts.append((off, part))
                self._mapped_at.add(part.cpu_va)
        if areas == [(0, info.region_bytes)]:
            return parts[0][1]
        name = f"BAR {number} of {self.address}"
        slow = _Slow(self._world, fd, info.offset)
        return SparseRegion(name, info.region_bytes, parts, slow)

    def config_read(self, off: int, nbytes: int) -> int:
        """A number in config space."""
        with during(f"config space {off:#x}"):
            return int.from_bytes(self._config_space().read(off, nbytes), "little")

    def config_write(self, off: int, nbytes: int, value: int) -> None:
        """A number into config space; the kernel may hold parts of it back."""
        with during(f"config space {off:#x}"):
            self._config_space().write(off, value.to_bytes(nbytes, "little"))

    def _config_space(self) -> _Slow:
        if self._config is None:
            info, _ = self._region(abi.RegionIndex.CONFIG)
            if not info.region_bytes:
                raise Unsupported(f"VFIO shows no config space of {self.address}")
            self._config = _Slow(self._world, self._handle.device, info.offset)
        return self._config

    def reset(self) -> None:
        """Reset the function. Raises: Unsupported where it cannot be reset alone."""
        size, fd = abi.DeviceInfo.SIZE, self._handle.device
        info = abi.DEVICE_GET_INFO(self._world, fd, abi.DeviceInfo(argsz=size))
        if not info.flags & abi.DeviceFlag.RESET:
            raise Unsupported(
                f"{self.address} offers no reset of its own", hint="let its firmware reset it"
            )
        plain(self._world, fd, "VFIO_DEVICE_RESET", abi.DEVICE_RESET)

    def after_reset(self) -> None:
        """COMMAND is written, so that the kernel puts BARs back; then interrupts are armed again.

        In this order: an MSI-X table lies behind a BAR.
        # src: drivers/vfio/pci/vfio_pci_config.c vfio_basic_config_write(): vfio_need_bar_restore
        """
        set_command(self, master=False, anyway=True)
        if self._event >= 0:
            self._disarm()
            self._arm(self._irq)

    def arm(self) -> bool:
        """Let MSI, or MSI-X, signal an eventfd. False where there is neither."""
        for index in (abi.IrqIndex.MSI, abi.IrqIndex.MSIX):
            args = abi.IrqInfo(argsz=abi.IrqInfo.SIZE, index=index)
            info = abi.DEVICE_GET_IRQ_INFO(self._world, self._handle.device, args)
            if info.count and info.flags & abi.IrqFlag.EVENTFD:
                self._arm(index)
                return True
        return False

    def _arm(self, index: abi.IrqIndex) -> None:
        world = self._world
        with Undo() as undo:
            event = world.eventfd()
            undo.add(partial(world.close, event))
            args = abi.OneIrqArgs(
                argsz=abi.OneIrqArgs.SIZE,
                flags=abi.IrqSet.DATA_EVENTFD | abi.IrqSet.ACTION_TRIGGER,
                index=index,
                count=1,
                eventfd=event,
            )
            abi.DEVICE_SET_IRQS(world, self._handle.device, args)
        self._event, self._irq = event, index

    def _disarm(self) -> None:
        """Interrupts off, and the eventfd closed whatever happens."""
        event, self._event = self._event, -1
        if event >= 0:
            args = abi.IrqSetHeader(
                argsz=abi.IrqSetHeader.SIZE,
                flags=abi.IrqSet.DATA_NONE | abi.IrqSet.ACTION_TRIGGER,
                index=self._irq,
            )
            off = partial(abi.DEVICE_CLEAR_IRQS, self._world, self._handle.device, args)
            run_all([off, partial(self._world.close, event)])

    def wait_interrupt(self, timeout_s: float) -> bool:
        """Whether an interrupt came within the time."""
        return self._world.wait_event(self._event, timeout_s)

    def check_unviewed(self) -> None:
        """Every BAR has to be unmapped. Raises: Busy while somebody views one.

        The device stays open then, so that the claim sees it and does not unbind: the kernel
        would wait without end for the mapping to go.
        # src: drivers/vfio/vfio_main.c vfio_unregister_group_dev(); fs/proc/task_mmu.c show_map()
        """
        if not self._mapped_at or not self._world.exists(_MAPS):
            return
        for line in self._world.read(_MAPS, _MAPS_BYTES).decode("ascii", "replace").splitlines():
            found = _START(line)
            if found is None:
                raise MalformedInput(f"{_MAPS} has a line without an address: {line[:40]!a}")
            start = int(found[1], 16)
            if start not in self._mapped_at or "vfio" not in line:
                continue
            raise Busy(
                f"a BAR of {self.address} is still viewed, and stays mapped at {start:#x}",
                hint="let go of every view of it, then close again",
            )

    def close(self) -> None:
        """Close the device, then its group or address space. A second close does nothing."""
        if not self._open:
            return
        self._open = False
        fds = (self._handle.device, *self._handle.others)
        run_all([self._disarm, *(partial(self._world.close, fd) for fd in fds)])


def open_vfio(world: World, function: PciFunction) -> VfioFunction:
    """Open a function that vfio-pci has; character devices are preferred to groups.

    Raises: Unsupported without an IOMMU: VFIO's no-IOMMU mode is never used.
    """
    if function.driver != "vfio-pci" or not function.iommu_group:
        why = (
            f"bound to {function.driver or 'nothing'}, in IOMMU group {function.iommu_group or '-'}"
        )
        raise Unsupported(f"{function.address} is {why}", hint="claim it for vfio-pci first")
    path = character_device(world, function)
    handle = open_through_iommufd(world, path) if path else open_through_group(world, function)
    opened = VfioFunction(world, function.address, handle)
    with Undo() as undo:
        undo.add(opened.close)
        size = abi.DeviceInfo.SIZE
        info = abi.DEVICE_GET_INFO(world, handle.device, abi.DeviceInfo(argsz=size))
        if not info.flags & abi.DeviceFlag.PCI:
            raise Unsupported(f"{function.address}: VFIO says it is no PCI function")
    return opened

"""The vendors that boards exist of: one record each, which every command of `boards` asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from boards.amd import registration as amd
from boards.machine.chassis import Chassis, Facts, NameOf, Violation
from boards.machine.pci.function import Named, PciFunction
from boards.nv import registration as nv
from boards.qcom import registration as qcom
from boards.setup import Setup
from boards.usb.port import Enclosed


class Gpu(Protocol):
    """One GPU of a board."""

    @property
    def chip(self) -> Named: ...


class Board(Protocol):
    """A process in front of a machine with GPUs, whatever the vendor and the interface."""

    @property
    def hardware(self) -> Chassis: ...
    @property
    def gpus(self) -> Sequence[Gpu]: ...
    @property
    def violations(self) -> list[Violation]:
        """What silicon would have let pass."""
        ...


class Watch(Protocol):
    """Keeps a report of every fault, hang and violation in code on a board's timeline."""

    reports: list[str]

    @property
    def notes(self) -> Mapping[tuple[str, int, int], str]:
        """Violations in a kernel's code, one for each kind and instruction, with code around."""
        ...

    def __call__(self, name: str, facts: Facts) -> None:
        """One event of the timeline."""
        ...


class Log(Protocol):
    """Where accesses of a function are reported: boards/access_log.py, boards/vfio_user."""

    def access(self, op: str, register: str, value: int) -> None:
        """A "read" or "write"."""
        ...

    def unset_read(self, register: str) -> None:
        """A read of a register that nothing has given a value."""
        ...

    def lacking(self, op: str, place: str, value: int) -> None:
        """An access to an address that has no register."""
        ...

    def phase(self, name: str) -> None:
        """A driver has got somewhere."""
        ...


class Powered(Protocol):
    """One function without a machine around it, for accesses that were recorded."""

    def read(self, bar: int, off: int, nbytes: int) -> int:
        """A read of 4 bytes."""
        ...

    def write(self, bar: int, off: int, nbytes: int, value: int) -> None:
        """A write of 4 bytes."""
        ...

    def place(self, bar: int, off: int, data: bytes) -> None:
        """Bytes written to a memory BAR."""
        ...


@dataclass(frozen=True, slots=True)
class Vendor:
    """What boards of one vendor are called, and how they are made."""

    device: str
    """The kind of device that the product opens on one."""
    names: Sequence[str]
    """Chips."""
    pci_names: Sequence[str]
    """Those that there are over PCI, too."""
    ifaces: Sequence[str]
    """The interfaces that its boards have, the one that is used by default first."""
    compilers: Sequence[str]
    """Those that make code for its boards, the default first."""
    kernel: str
    """How its kernel driver's interface is called in timelines."""
    kernels: Mapping[str, Sequence[str]]
    """By interface: releases of its kernel driver whose rules a board can follow, the default
    first. Over others a board has one set of rules."""
    aql: str
    """The environment variable that chooses AQL packets; "": there is no choice."""
    note: str
    """What the list of boards says below its boards."""
    describe: Callable[[str], str]
    """A chip's row of `python -m boards`."""
    function: Callable[[str, int, int], tuple[Chassis, PciFunction]]
    """(chip, bytes of its memory, instructions of a wave after which it counts as endless; 0: the
    board's own number) -> the GPU as a PCI function, for a virtual machine."""
    enclosure: Callable[[str, int], Enclosed] | None
    """(chip, bytes of its memory) -> the GPU behind a bridge on USB, for a virtual machine."""
    observe: Callable[[PciFunction, Log], None]
    """Lets a log hear of every register access of one of these functions, by name."""
    take_firmware: Callable[[PciFunction, Path], None]
    """Have it take the vendor's own files of a folder alone. Raises: ValueError, OSError."""
    powered_on: Callable[[str, int, bool], Powered]
    """(chip, bytes of its memory, whether it judges firmware) -> the function alone."""
    power_on: Callable[[Setup], Board]
    """A machine with GPUs, and a process in front of it. Raises: ValueError."""
    watch: Callable[[Board, NameOf], Watch]
    """What reports the faults of one of these boards."""


VENDORS = (
    Vendor(
        device="AMD",
        names=amd.NAMES,
        pci_names=amd.PCI_NAMES,
        ifaces=("KFD", "PCI", "USB"),
        compilers=("LLVM", "HIP"),
        kernel="KFD",
        kernels=amd.KERNELS,
        aql="AMD_AQL",
        note="Over KFD, and over PCI but for gfx10; never compared with silicon.",
        describe=amd.describe,
        function=amd.function,
        enclosure=amd.enclosure,
        observe=amd.observe,
        take_firmware=amd.take_firmware,
        powered_on=amd.alone,
        power_on=amd.power_on,
        watch=amd.watch,
    ),
    Vendor(
        device="NV",
        names=nv.NAMES,
        pci_names=(),
        ifaces=("NVK",),
        compilers=("NVRTC", "PTX"),
        kernel="RM and UVM",
        kernels={"NVK": nv.KERNELS},
        aql="",
        note="Over NVK; all execute SASS; never compared with silicon.",
        describe=nv.describe,
        function=nv.function,
        enclosure=None,
        observe=nv.observe,
        take_firmware=nv.take_firmware,
        powered_on=nv.alone,
        power_on=nv.power_on,
        watch=nv.watch,
    ),
    Vendor(
        device="QCOM",
        names=qcom.NAMES,
        pci_names=(),
        ifaces=("KGSL", "MSM"),
        compilers=("IR3",),
        kernel="KGSL or msm",
        kernels=qcom.KERNELS,
        aql="",
        note="Over KGSL and msm; never compared with silicon.",
        describe=qcom.describe,
        function=qcom.function,
        enclosure=None,
        observe=qcom.observe,
        take_firmware=qcom.take_firmware,
        powered_on=qcom.alone,
        power_on=qcom.power_on,
        watch=qcom.watch,
    ),
)


def names() -> list[str]:
    """Every chip that there is a board of."""
    return [name for vendor in VENDORS for name in vendor.names]


def vendor_of(chip: str) -> Vendor:
    """Whose a chip is. Raises: ValueError with the boards there are."""
    for vendor in VENDORS:
        if chip in vendor.names:
            return vendor
    raise ValueError(f"no board {chip!r}: there are {', '.join(names())}")


def iface_of(setup: Setup) -> str:
    """The interface that a setup means. Raises: ValueError for an unknown chip."""
    return setup.iface or vendor_of(setup.chip).ifaces[0]


def compiler_of(setup: Setup) -> str:
    """The compiler that a setup means. Raises: ValueError for an unknown chip."""
    known = vendor_of(setup.chip).compilers
    return setup.compiler if setup.compiler in known else known[0]


def over(setup: Setup) -> str:
    """How headings name an interface that is not the default."""
    iface = iface_of(setup)
    return "" if iface == vendor_of(setup.chip).ifaces[0] else f" over {iface}"

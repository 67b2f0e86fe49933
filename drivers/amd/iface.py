"""The interface of a device to its AMD GPU, over KFD (amdgpu) or over PCI (an unbound GPU).

Devices and queues use only this: no ioctls, no registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

from drivers.amd.chips import Chip
from drivers.amd.kfd.nodes import GpuNode
from drivers.gpu import iface as gpu
from drivers.gpu.iface import Memory
from drivers.gpu.staging import Stager

QueueKind: TypeAlias = Literal["PM4", "AQL", "SDMA"]
"""What a queue reads."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What kind of queue, and how large."""

    name: str
    kind: QueueKind
    ring_bytes: int
    engine: int | None = None
    """The copy engine; None: any. Those for XGMI are numbered after the others."""


Prepare: TypeAlias = Callable[[memoryview, Memory], None]
"""Fills the page of a queue's pointers, and its ring, before the hardware reads them."""


class HardwareQueue(gpu.HardwareQueue, Protocol):
    """A ring that the hardware reads, and the page with its pointers, both seen by the host."""

    plan: Plan
    queue_id: int
    page_view: memoryview
    read_pointer: memoryview
    settle: Callable[[], object]
    """Does what an interrupted doorbell has left. Raises: Busy in the middle of it."""


@dataclass(frozen=True, slots=True)
class Apertures:
    """Where flat addresses of local and private memory begin."""

    lds_base: int
    scratch_base: int


class Remote(Protocol):
    """Memory that the host only has copies of: what the GPU stores has to be fetched."""

    def fetch(self, memory: Memory, off: int, nbytes: int) -> None:
        """Read a part of memory that was allocated for the host."""

    def watch(self, memory: Memory, off: int, nbytes: int) -> None:
        """Read this part whenever the interface waits."""

    @property
    def stager(self) -> Callable[[], Stager]:
        """What makes that which host copies go through.

        It raises Busy in a signal handler in the middle of one.
        """

    @property
    def trips(self) -> int:
        """How often the host has waited for the cable, since the device was opened."""


class Iface(gpu.GpuIface, Protocol):
    """One AMD GPU of this process, with what its queues and kernels need."""

    name: str
    """"KFD", "PCI" or "USB"."""
    node: GpuNode
    chip: Chip
    mailbox_va: int
    """Where a queue writes `event_id` before it interrupts."""
    event_id: int
    calibrated: bool
    """Whether `clock` is right without a measurement."""
    loses_doorbells: bool
    """Whether a kernel driver may unmap doorbells when it resets the GPU."""
    queues_per_engine: int
    """How many queues a copy engine has for this process."""
    opened: str
    """Boot path, steps, reads and writes in words; "" where there was no boot."""

    @property
    def remote(self) -> Remote | None:
        """None where the host sees what the GPU stores."""

    @property
    def handles(self) -> int:
        """Memory objects that are not freed; what a leak test compares."""

    @property
    def bytes_held(self) -> int:
        """Their bytes."""

    def zero_with(self, fill: Callable[[int, int], bool]) -> None:
        """Register how a copy engine zeroes (address, bytes); it returns False while busy."""

    def open_queue(self, plan: Plan, prepare: Prepare | None = None) -> HardwareQueue:
        """A running queue. A failure frees everything."""

    def apertures(self) -> Apertures:
        """Of the address space that queues run in."""


class Mailbox(NamedTuple):
    """How a queue signals the device's event."""

    va: int
    """Where it writes `event_id` before it interrupts."""
    event_id: int

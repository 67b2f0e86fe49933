"""The interface of a device to its GPU, over KFD (amdgpu) or over PCI (an unbound GPU).

Devices, queues, memory and signals use only this: no ioctls, no registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Literal, Protocol, TypeAlias

from drivers.amd.chips import Chip
from drivers.amd.kfd.nodes import GpuNode
from drivers.base.contracts import World
from drivers.base.errors import DeviceError

QueueKind: TypeAlias = Literal["PM4", "AQL", "SDMA"]
"""What a queue reads."""


class Use(Enum):
    """What memory is for; an interface gives it the least rights that this needs."""

    DEVICE = "data that kernels work on"
    CONSTANT = "data that the GPU only reads"
    CODE = "machine code"
    HOST_CODE = "machine code that the host writes, in its own memory"
    PACKETS = "rings and other packets that a queue reads, which the host writes"
    SHARED = "what both sides write while the other reads: signals, arguments, staging"


class Memory(Protocol):
    """Allocated, mapped to its GPU at `gpu_va`, with unmapped pages on both sides."""

    name: str
    nbytes: int
    gpu_va: int

    def view(self) -> memoryview:
        """The bytes, for the host. Raises: Unsupported when the host has no mapping."""

    def map_to(self, other: Iface) -> None:
        """Also into the page tables of another GPU, at the same address. Raises: Unsupported."""

    def free(self) -> None:
        """Unmap everywhere, give memory and addresses back. Raises: UseAfterFree."""


@dataclass(frozen=True, slots=True)
class PageFault:
    """An access that the page tables do not allow."""

    gpu_va: int
    """Of the access, or of its page."""
    kind: str
    """"unmapped", "read-only", "no-execute", "memory" (where it is not known)."""
    access: str
    """"read" (also of code) or "write"."""
    imprecise: bool = False
    client: str = ""
    """The unit that did it ("TCP", "SDMA0"), where the hardware reports it."""


@dataclass(frozen=True, slots=True)
class Reset:
    """What a fault caused to be reset."""

    whole: bool
    """The whole GPU, not one engine."""
    memory_lost: bool


ECC, GPU_HANG = "ECC", "GPU hang"


@dataclass(frozen=True, slots=True)
class Trouble:
    """What the GPU, or its driver, reports of a fault: a page fault, or another `cause`."""

    page: PageFault | None = None
    cause: str = ""
    """ECC, GPU_HANG, or why a queue stopped: "bad packet", "illegal instruction"..."""
    reset: Reset | None = None
    """None: nothing was reset."""
    pc: int = 0
    """Program counter of the faulting wave, or 0 (not known). The instruction may be earlier."""

    @property
    def stopped(self) -> bool:
        """Whether a compute queue reports why it stopped."""
        return self.page is None and self.reset is None and self.cause not in (ECC, GPU_HANG)


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


class HardwareQueue(Protocol):
    """A ring that the hardware reads, and the page with its pointers, both seen by the host."""

    plan: Plan
    queue_id: int
    ring: Memory
    ring_view: memoryview
    page_view: memoryview
    write_pointer: memoryview
    read_pointer: memoryview
    doorbell: Callable[[int], None]
    """Stores a write pointer, ordered after all earlier stores. Reads nothing."""

    def close(self) -> None:
        """Stop the queue and its work, and free its memory."""


class GpuClock(Protocol):
    """The GPU's clock, as the time of the host."""

    def nanoseconds(self, ticks: int) -> int:
        """The host's time when the counter stood at `ticks`; 0 for a time never written.

        CLOCK_BOOTTIME, or CLOCK_MONOTONIC, which is the same on a machine that did not sleep.
        """

    def now_ticks(self) -> int:
        """The counter now."""

    def calibrate(self, ticks: int, host_s: float) -> None:
        """Match `ticks` that a queue wrote to a moment of the host's monotonic clock."""


@dataclass(frozen=True, slots=True)
class Apertures:
    """Where flat addresses of local and private memory begin."""

    lds_base: int
    scratch_base: int


class Iface(Protocol):
    """One GPU of this process. Everything raises UseAfterFree in a child after fork()."""

    name: str
    """"KFD" or "PCI"."""
    world: World
    node: GpuNode
    chip: Chip
    clock: GpuClock
    mailbox_va: int
    """Where a queue writes `event_id` before it interrupts."""
    event_id: int
    peeks: list[Callable[[int], int | None]]
    """Look-ups of the signal at an address, one of each device that may signal here."""
    calibrated: bool
    """Whether `clock` is right without a measurement."""
    queues_per_engine: int
    """How many queues a copy engine has for this process."""
    opened: str
    """Boot path, steps, reads and writes in words; "" where there was no boot."""
    evicts: bool
    """Whether the kernel driver may evict all queues of this process for good."""
    gone: DeviceError | None
    """Why no queue can run here any more; None while they can."""

    @property
    def handles(self) -> int:
        """Memory objects that are not freed; what a leak test compares."""

    @property
    def bytes_held(self) -> int:
        """Their bytes."""

    def allocate(self, nbytes: int, use: Use, name: str, *, host: bool = False) -> Memory:
        """Memory for one use, seen by the host where `host` says so. Raises: OutOfMemory."""

    def wrap(self, cpu_va: int, nbytes: int, name: str) -> Memory:
        """Whole pages of this process's own memory. Raises: Unsupported, BadArgument."""

    def write_code(self, memory: Memory, data: bytes) -> bool:
        """Fill memory for CODE from the host; False where a copy engine has to do it."""

    def publish(self) -> None:
        """Make the host's stores to SHARED memory visible to running queues. Reads nothing."""

    def zero_with(self, fill: Callable[[int, int], bool]) -> None:
        """Register how a copy engine zeroes (address, bytes); it returns False while busy."""

    def open_queue(self, plan: Plan, prepare: Prepare | None = None) -> HardwareQueue:
        """A running queue. A failure frees everything."""

    def wait(self, timeout_ms: int) -> Trouble | None:
        """Sleep until a queue interrupts or the timeout; the fault, when there is one."""

    def apertures(self) -> Apertures:
        """Of the address space that queues run in."""

    def shares(self, other: Iface) -> bool:
        """Whether memory of this one can be mapped to the other."""

    def lost(self, trouble: Trouble) -> DeviceError:
        """No queue runs any more after this fault: the error that all work raises from now on."""

    def close(self) -> None:
        """Leave the GPU; its queues are closed and its memory is freed.

        A second close repeats only what the first one could not do.
        """


def signal_at(iface: Iface, va: int) -> int | None:
    """The value of the signal at an address; None without one."""
    found = (peek(va) for peek in iface.peeks)
    return next((value for value in found if value is not None), None)

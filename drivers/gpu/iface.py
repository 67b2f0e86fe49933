"""What a device asks of the way to its GPU: a kernel driver, or the bus of an unbound one.

Heaps, rings, signals and copies use only this: no ioctls, no registers. A vendor's own interface
adds what its queues and kernels need.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.gpu.incident import Incident


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

    def map_to(self, other: GpuIface) -> None:
        """Also into the page tables of another GPU, at the same address. Raises: Unsupported."""

    def free(self) -> None:
        """Unmap everywhere, give memory and addresses back. Raises: UseAfterFree."""


class HardwareQueue(Protocol):
    """A ring that the hardware reads, and its write pointer, both seen by the host."""

    ring: Memory
    ring_view: memoryview
    write_pointer: memoryview
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


class GpuIface(Protocol):
    """One GPU of this process. Everything raises UseAfterFree in a child after fork()."""

    world: World
    clock: GpuClock
    peeks: list[Callable[[int], int | None]]
    """Look-ups of the signal at an address, one of each device that may signal here."""
    evicts: bool
    """Whether the kernel driver may evict all queues of this process for good."""
    gone: DeviceError | None
    """Why no queue can run here any more; None while they can."""

    def allocate(self, nbytes: int, use: Use, name: str, *, host: bool = False) -> Memory:
        """Memory for one use, seen by the host where `host` says so. Raises: OutOfMemory."""

    def wrap(self, cpu_va: int, nbytes: int, name: str) -> Memory:
        """Whole pages of this process's own memory. Raises: Unsupported, BadArgument."""

    def import_dmabuf(self, fd: int, first: int, nbytes: int) -> Memory:
        """All of a dma-buf, of which `nbytes` from `first` on are used. `fd` stays the caller's.

        Raises: BadArgument for no descriptor, no dma-buf, or bytes outside; Unsupported.
        """

    def export_dmabuf(self, memory: Memory) -> int:
        """A new descriptor of a dma-buf of the memory, the caller's. Raises: Unsupported."""

    def write_code(self, memory: Memory, data: bytes) -> bool:
        """Fill memory for CODE from the host; False where a copy engine has to do it."""

    def publish(self) -> None:
        """Make the host's stores to SHARED memory visible to running queues. Reads nothing."""

    def wait(self, timeout_ms: int) -> Incident | None:
        """Sleep until a queue interrupts or the timeout; the fault, when there is one."""

    def shares(self, other: GpuIface) -> bool:
        """Whether memory of this one can be mapped to the other."""

    def lost(self, incident: Incident) -> DeviceError:
        """No queue runs any more after this fault: the error that all work raises from now on."""

    def close(self) -> None:
        """Leave the GPU; its queues are closed and its memory is freed.

        A second close repeats only what the first one could not do.
        """


def signal_at(iface: GpuIface, va: int) -> int | None:
    """The value of the signal at an address; None without one."""
    found = (peek(va) for peek in iface.peeks)
    return next((value for value in found if value is not None), None)

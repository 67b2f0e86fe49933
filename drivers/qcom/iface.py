"""What the device asks of the way to its GPU: KGSL, or msm of mainline Linux."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from drivers.gpu.iface import GpuIface, HardwareQueue, Memory
from queues.qcom.chips import Chip


class Plan(NamedTuple):
    """Which queue, and how large."""

    name: str
    ring_bytes: int
    setup: bytes
    """Packets before those of each submission."""


class QcomQueue(HardwareQueue, Protocol):
    """A context of the kernel driver: what it is given runs in order, later."""

    dead: bool
    """Whether the kernel driver has reported that it runs nothing any more."""

    def submit(self, va: int, nbytes: int) -> None:
        """Run packets in the ring. Raises: what the kernel refuses."""

    def submit_with(self, memory: Memory, va: int, nbytes: int, tail_va: int, tail: int) -> None:
        """Run packets in other memory, then `tail` bytes in the ring."""


class QcomIface(GpuIface, Protocol):
    """One Adreno of this process."""

    name: str
    """"KGSL" or "MSM"."""
    chip: Chip
    memory_bytes: int
    bytes_held: int
    """Of memory that is allocated now."""
    published: list[Callable[[], object]]
    """What `publish` calls."""

    def open_queue(self, plan: Plan) -> QcomQueue:
        """A context that runs."""

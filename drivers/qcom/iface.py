"""What the device asks of the way to its GPU: KGSL, or msm of mainline Linux."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from drivers.base.errors import BadArgument, Unsupported
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

    def taken(self) -> bool:
        """Whether the kernel driver has a submission that an exception of a handler ended."""


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

    budget_s: float
    """How long one submission may take: a quarter of what its kernel driver allows."""

    def sleeps(self) -> int | None:
        """How often the GPU was suspended since the machine started; None: not known."""

    def open_queue(self, plan: Plan) -> QcomQueue:
        """A context that runs."""

    def lent(self, gpu_va: int, nbytes: int) -> Memory:
        """Memory of another library of this process. Raises: BadArgument, Unsupported."""


class NoGpuAddress(BadArgument):
    """An address at which this process's GPU has nothing; the host may."""


class LentMemory:
    """Memory that another library allocated, at an address of this process's GPU."""

    def __init__(self, gpu_va: int, nbytes: int) -> None:
        self.name, self.gpu_va, self.nbytes = "lent memory", gpu_va, nbytes

    def view(self) -> memoryview:
        """Its owner has the host's mapping. Raises: Unsupported."""
        raise Unsupported(f"{self.nbytes} bytes at {self.gpu_va:#x} are another library's")

    def map_to(self, other: GpuIface) -> None:
        """Only its own GPU has it. Raises: Unsupported."""
        raise Unsupported("lent memory is of one GPU alone", hint="copy it")

    def free(self) -> None:
        """Nothing: its owner frees it."""

"""Recordings in memory that host and GPU see: PM4 as one indirect buffer, AQL as ready packets."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from drivers.amd.aql_ring import AqlRing
from drivers.amd.iface import Memory, Use
from drivers.amd.pm4_ring import Pm4Ring
from drivers.amd.program import AmdProgram
from drivers.amd.ring import Ring
from drivers.base.errors import BadArgument, Unsupported, UseAfterFree
from queues import pm4
from queues.amd_aql import PACKET_BYTES, PACKET_FORMAT, AqlLauncher, jump
from queues.amd_contracts import Item
from queues.amd_launch import WORD_BYTES, Launcher

if TYPE_CHECKING:
    from drivers.amd.device import AmdDevice

MAX_IB_WORDS: Final = (1 << 20) - 1
"""INDIRECT_BUFFER's size has 20 bits."""
ALIGN_BYTES: Final = 64
_WORD64_BYTES: Final = 8


class GraphMemory(ABC):
    """What both kinds share: memory, where each step's arguments are, the last replay."""

    def __init__(self, device: AmdDevice, items: Sequence[Item]) -> None:
        self._device, self._items = device, items
        self.lock = device.compute.lock
        nbytes = sum(self.size(item) for item in items)
        bo = device.iface.allocate(max(nbytes, ALIGN_BYTES), Use.PACKETS, "graph", host=True)
        self._bo: Memory | None = bo
        self.gpu_va, self.nbytes = bo.gpu_va, nbytes
        self.view = bo.view()
        self.words = self.view.cast("Q")
        self._arguments: list[int] = []
        """Byte of the arguments of every step."""
        self._ring: Ring | None = None
        self._mark = 0
        self.names = [item.program.name for item in items if item.program is not None]
        self.scratch = any(
            isinstance(item.program, AmdProgram) and item.program.kernel.private_bytes
            for item in items
        )

    @abstractmethod
    def size(self, item: Item) -> int:
        """Bytes of memory that a step takes, in whole lines."""

    @abstractmethod
    def play(self) -> None:
        """With the lock held: run it."""

    def place(self, item: int, number: int) -> int:
        """The 64-bit word of argument `number` of a step. Raises: BadArgument, Unsupported."""
        program = self._items[item].program
        if not isinstance(program, AmdProgram) or number >= len(program.masks):
            raise BadArgument(f"step {item} has no argument {number}")
        offset, nbytes = program.kernel.args[number]
        if nbytes != _WORD64_BYTES or offset % _WORD64_BYTES:
            raise Unsupported(
                f"argument {number} of {program!r} has {nbytes} bytes and cannot be a Param",
                hint="leave arguments of 64 bits open",
            )
        return (self._arguments[item] + offset) // _WORD64_BYTES

    def played(self, ring: Ring) -> None:
        """Remember what `settle` waits for."""
        self._ring, self._mark = ring, ring.put

    def settle(self) -> None:
        """Return once the last replay is done, so that its words may change."""
        ring = self._ring
        if ring is None or ring.gone or ring.done >= self._mark:
            return
        self._device.wait_ring(ring, ring.settled())

    def close(self) -> None:
        """Give the memory back once it is done."""
        bo, self._bo = self._bo, None
        self.view = self.words = memoryview(b"")
        if bo is not None:
            self._device.give_back(bo)

    def __del__(self) -> None:
        if getattr(self, "_bo", None) is not None:
            self.close()


def _lines(nbytes: int) -> int:
    return -(-nbytes // ALIGN_BYTES) * ALIGN_BYTES


class Pm4Graph(GraphMemory):
    """One indirect buffer; a replay is a jump to it and the ring's progress behind that.

    Each launch in it writes its number to the ring's `step_va` when it is done.
    """

    def __init__(self, device: AmdDevice, items: Sequence[Item], ring: Pm4Ring) -> None:
        super().__init__(device, items)
        nwords = self.nbytes // WORD_BYTES
        if nwords > MAX_IB_WORDS:
            raise Unsupported(
                f"a graph of {nwords} words; one has at most {MAX_IB_WORDS}",
                hint="record two graphs",
            )
        at = 0
        for item in items:
            self._arguments.append(self._put(item, at, len(self._arguments) + 1))
            at += self.size(item)
        self._jump = ring.packed((), pm4.indirect_buffer(ib_base=self.gpu_va, ib_size=nwords))

    def _launcher(self, item: Item) -> Launcher:
        program = item.program
        if not isinstance(program, AmdProgram):
            raise BadArgument(f"{program!r} is no program")
        made = program.for_block(item.block, tells=False)
        if not isinstance(made, Launcher):
            raise Unsupported("a launch of another queue format")
        return made

    def size(self, item: Item) -> int:
        if item.program is None:
            return _lines(WORD_BYTES * len(item.words))
        return _lines(self._launcher(item).nbytes)

    def _put(self, item: Item, at: int, number: int) -> int:
        """Write step `number`, from 1 on; the byte of its arguments."""
        if item.program is None:
            words = [*item.words]
            pad = (self.size(item) - WORD_BYTES * len(words)) // WORD_BYTES
            words += pm4.nop(words=pad) if pad else []
            struct.pack_into(f"={len(words)}I", self.view, at, *words)
            return 0
        launcher = self._launcher(item)
        arguments = at + launcher.arguments_off
        values = launcher.values(item.values, self.gpu_va + arguments, item.grid, number)
        launcher.pack_into(self.view, at, *values)
        return arguments

    def play(self) -> None:
        ring = self._device.compute
        if self._bo is None or not isinstance(ring, Pm4Ring):
            raise UseAfterFree("a closed graph was replayed", hint="record it again")
        if not self.nbytes:
            return
        if self._device.stale:
            self._device.refresh()
        ring.write(self._jump)
        self.played(ring)


class AqlGraph(GraphMemory):
    """Packets kept ready; arguments, and PM4 words, in the memory they point at."""

    def __init__(self, device: AmdDevice, items: Sequence[Item]) -> None:
        super().__init__(device, items)
        self._packets = memoryview(bytearray(PACKET_BYTES * len(items)))
        at = 0
        for number, item in enumerate(items):
            self._put(item, at, number * PACKET_BYTES)
            self._arguments.append(at)
            at += self.size(item)

    def _launcher(self, item: Item) -> AqlLauncher:
        program = item.program
        if not isinstance(program, AmdProgram):
            raise BadArgument(f"{program!r} is no program")
        made = program.for_block(item.block, tells=False)
        if not isinstance(made, AqlLauncher):
            raise Unsupported("a launch of another queue format")
        return made

    def size(self, item: Item) -> int:
        if item.program is None:
            return _lines(WORD_BYTES * len(item.words))
        return _lines(self._launcher(item).arguments_bytes)

    def _put(self, item: Item, at: int, packet_at: int) -> None:
        if item.program is None:
            struct.pack_into(f"={len(item.words)}I", self.view, at, *item.words)
            packet = jump(self.gpu_va + at, item.words)
            struct.pack_into(PACKET_FORMAT, self._packets, packet_at, *packet)
            return
        launcher = self._launcher(item)
        launcher.put(self.view, at, item.values, item.grid)
        values = launcher.values(self.gpu_va + at, item.grid)
        launcher.pack_into(self._packets, packet_at, *values)

    def play(self) -> None:
        ring = self._device.compute
        if self._bo is None or not isinstance(ring, AqlRing):
            raise UseAfterFree("a closed graph was replayed", hint="record it again")
        if self._device.stale:
            self._device.refresh()
        ring.play(self._packets)
        self.played(ring)

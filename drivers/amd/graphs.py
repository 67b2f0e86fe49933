"""Recordings in memory that host and GPU see: PM4 as one indirect buffer, AQL as ready packets."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, Protocol

from drivers.amd.aql_ring import PART, AqlRing
from drivers.amd.compute_ring import AnyLauncher
from drivers.amd.pair import AmdPair
from drivers.amd.pm4_ring import Pm4Ring
from drivers.amd.program import AmdProgram
from drivers.base.errors import BadArgument, Unsupported
from drivers.gpu import graph_memory
from drivers.gpu.graph_memory import Copy, GraphMemory, lines
from queues.amd import pm4
from queues.amd.aql_launch import PACKET_BYTES, AqlLauncher, jump, jump_slots
from queues.amd.contracts import Item
from queues.amd.pm4_launch import WORD_BYTES, Launcher, Target
from queues.bound_graph import WORD64_BYTES

MAX_IB_WORDS: Final = (1 << 20) - 1
"""INDIRECT_BUFFER's size has 20 bits."""


def _prepared(item: Item) -> AnyLauncher:
    """The launch of a step. Raises: BadArgument for what is no program."""
    program = item.program
    if not isinstance(program, AmdProgram):
        raise BadArgument(f"{program!r} is not a program")
    return program.for_block(item.block, reports=False, shared_bytes=item.shared_bytes)


class Owner(graph_memory.Owner, Protocol):
    """The device of a recording."""

    pair: AmdPair


class AmdGraphMemory(GraphMemory[Item]):
    """What PM4 and AQL recordings share."""

    def __init__(self, device: Owner, items: Sequence[Item]) -> None:
        self._pair = device.pair
        super().__init__(device, items)

    def uses_scratch(self, item: Item) -> bool:
        program = item.program
        return isinstance(program, AmdProgram) and bool(program.kernel.private_bytes)

    def place(self, item: int, number: int) -> tuple[int, int]:
        program = self._items[item].program
        if not isinstance(program, AmdProgram) or number >= len(program.masks):
            raise BadArgument(f"step {item} has no argument {number}")
        offset, nbytes = program.kernel.args[number]
        if nbytes != WORD64_BYTES or offset % WORD64_BYTES:
            raise Unsupported(
                f"argument {number} of {program!r} has {nbytes} bytes and cannot be a Param",
                hint="leave arguments of 64 bits open",
            )
        return nbytes, (self.arguments_at(item) + offset) // nbytes


class Pm4Graph(AmdGraphMemory):
    """One indirect buffer; a replay is a jump to it, then the ring's progress.

    Each launch in it writes its number to the ring's `step_va` when it is done.
    """

    def __init__(self, device: Owner, items: Sequence[Item], ring: Pm4Ring) -> None:
        self._packer = ring
        self._launchers = {id(item): _pm4(item) for item in items if item.program is not None}
        super().__init__(device, items)

    def size(self, item: Item) -> int:
        if item.program is None:
            return lines(WORD_BYTES * len(item.words))
        return lines(self._launchers[id(item)].nbytes)

    def arguments_off(self, item: Item) -> int:
        return 0 if item.program is None else self._launchers[id(item)].arguments_off

    def write(self, copy: Copy) -> None:
        """Raises: Unsupported for more than one indirect buffer holds."""
        nwords, at = self.nbytes // WORD_BYTES, 0
        if nwords > MAX_IB_WORDS:
            raise Unsupported(
                f"a graph of {nwords} words; one has at most {MAX_IB_WORDS}",
                hint="record two graphs",
            )
        for number, item in enumerate(self._items, 1):
            self._put(copy, item, at, number)
            at += self.size(item)
        base = pm4.indirect_buffer(ib_base=copy.gpu_va, ib_size=nwords)
        if nwords:
            copy.packets = [self._packer.packed(base, reports=reports) for reports in (False, True)]

    def _put(self, copy: Copy, item: Item, at: int, number: int) -> None:
        """Write step `number`, from 1 on."""
        if item.program is None:
            words = [*item.words]
            pad = (self.size(item) - WORD_BYTES * len(words)) // WORD_BYTES
            words += pm4.nop(words=pad) if pad else []
            struct.pack_into(f"={len(words)}I", copy.view, at, *words)
            return
        launcher = self._launchers[id(item)]
        kernarg_va = copy.gpu_va + at + launcher.arguments_off
        values = launcher.values(item.values, kernarg_va, item.grid, number)
        launcher.pack_into(copy.view, at, *values)

    def play(self, copy: Copy) -> None:
        packets = copy.packets
        if packets is None:
            self.check_open()
            return
        ring: Any = self._pair.compute  # of the kind that it was recorded for
        if ring.stale:
            ring.refresh()
        try:
            ring.write(packets[self.reports])
        finally:
            copy.last = ring, ring.put


def _pm4(item: Item) -> Launcher:
    made = _prepared(item)
    if not isinstance(made, Launcher):
        raise Unsupported("a launch of another queue format")
    return made


class AqlGraph(AmdGraphMemory):
    """Packets kept ready; arguments, and PM4 words, in the memory they point at."""

    def __init__(self, device: Owner, items: Sequence[Item], target: Target) -> None:
        self._launchers = {id(item): _aql(item) for item in items if item.program is not None}
        self._parts = 0
        self._partway = False
        """Whether the ring has only a part of it: it cannot be replayed now."""
        self._target = target
        self._jumps = jump_slots(target)
        super().__init__(device, items)

    def size(self, item: Item) -> int:
        if item.program is None:
            return lines(WORD_BYTES * len(item.words))
        return lines(self._launchers[id(item)].arguments_bytes)

    def arguments_off(self, item: Item) -> int:
        return 0

    def write(self, copy: Copy) -> None:
        slots = [self._jumps if item.program is None else 1 for item in self._items]
        packets, at, slot = memoryview(bytearray(PACKET_BYTES * sum(slots))), 0, 0
        for item, count in zip(self._items, slots, strict=True):
            self._put(copy, item, at, packets[slot * PACKET_BYTES :])
            at, slot = at + self.size(item), slot + count
        if packets.nbytes:
            copy.packets, self._parts = packets, -(-packets.nbytes // (PART * PACKET_BYTES))

    def _put(self, copy: Copy, item: Item, at: int, packet: memoryview) -> None:
        if item.program is None:
            struct.pack_into(f"={len(item.words)}I", copy.view, at, *item.words)
            jumps = jump(self._target, copy.gpu_va + at, len(item.words))
            packet[: len(jumps)] = jumps
            return
        launcher = self._launchers[id(item)]
        made = launcher.arguments(item.values, item.grid)
        copy.view[at : at + len(made)] = made
        launcher.pack_into(packet, 0, *launcher.values(copy.gpu_va + at, item.grid))

    def play(self, copy: Copy) -> None:
        """Raises: Unsupported in a signal handler that came between the parts of a long one."""
        packets = copy.packets
        if packets is None:
            self.check_open()
            return
        ring: Any = self._pair.compute  # of the kind that it was recorded for
        if ring.stale:
            ring.refresh()
        try:
            if self._parts == 1:
                ring.play(packets)
            else:
                self._play_parts(ring, packets)
            if self.reports:
                ring.flush()
        finally:
            copy.last = ring, ring.put

    def _play_parts(self, ring: AqlRing, packets: memoryview) -> None:
        """One doorbell for each part."""
        if self._partway:
            raise Unsupported(
                "a graph was replayed in a signal handler that interrupted a replay of it",
                hint="replay it when the handler has returned",
            )
        self._partway = True
        step = PART * PACKET_BYTES
        try:
            for first in range(0, packets.nbytes, step):
                ring.play(packets[first : first + step])
        finally:
            self._partway = False


def _aql(item: Item) -> AqlLauncher:
    made = _prepared(item)
    if not isinstance(made, AqlLauncher):
        raise Unsupported("a launch of another queue format")
    return made

"""AMD's copy queue: its steps are SDMA packets.

A replay of a graph writes the packets to the ring. KFD's SDMA queues take indirect buffers, but a
copy is a few words, so there is nothing to gain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TypeAlias

from drivers.base.contracts import Signal
from drivers.base.errors import MalformedInput
from queues.amd import sdma
from queues.amd.contracts import CopyOwner
from queues.amd.pm4_launch import WORD_BYTES, Packer, Words
from queues.amd.sdma import Engine
from queues.builder import Builder, Built
from queues.graph import StepGraph

TIME_OFF = 8
"""Offset of a signal's time from its value."""


def copy_packets(engine: Engine, *, dst: int, src: int, nbytes: int) -> Iterator[list[int]]:
    """As many packets as the engine needs for `nbytes`."""
    for at in range(0, nbytes, engine.copy_max_bytes):
        count = min(nbytes - at, engine.copy_max_bytes)
        yield sdma.copy_linear(engine, dst_addr=dst + at, src_addr=src + at, count=count)


def zero_packets(engine: Engine, *, dst: int, nbytes: int) -> Iterator[list[int]]:
    """The same for zeroing whole words."""
    most = engine.fill_max_bytes & -WORD_BYTES
    for at in range(0, nbytes, most):
        count = min(nbytes - at, most)
        yield sdma.const_fill(engine, dst_addr=dst + at, src_data=0, count=count)


class ReadyCopy:
    """One copy, then the progress and an interrupt, built once: only numbers are patched.

    `packer.pack_into(memory, at, *values(...))` writes it.
    """

    __slots__ = ("_slots", "_template", "nbytes", "packer")

    def __init__(self, engine: Engine, progress_va: int, interrupt: Sequence[int]) -> None:
        made = Words()
        form = engine.layout("COPY_LINEAR")
        places = [("count", 1), ("src_addr", 2), ("dst_addr", 2)]
        copy = sdma.copy_linear(engine, dst_addr=0, src_addr=0, count=1)
        made.add(copy, [(name, form.word(name), words) for name, words in places])
        fence = sdma.fence(engine, addr=progress_va, data=0)
        made.add(fence, [("progress", engine.layout("FENCE").word("data"), 1)])
        made.add(interrupt)
        self.packer = Packer(made)
        self.nbytes, self._template = self.packer.nbytes, self.packer.template
        self._slots = [self.packer.slots[name] for name, _ in (*places, ("progress", 1))]

    def values(self, *, dst: int, src: int, nbytes: int, progress: int) -> list[bytes | int]:
        """What is packed for a copy of at most the engine's `copy_max_bytes`."""
        values = self._template.copy()
        count_at, src_at, dst_at, progress_at = self._slots
        values[count_at] = nbytes - 1  # as the field stores it
        values[src_at], values[dst_at], values[progress_at] = src, dst, progress
        return values


class Copy:
    """One copy. While a side is open its address is 0, and nobody asks for its packets."""

    def __init__(self, engine: Engine, sides: Sequence[int], nbytes: int) -> None:
        self.engine, self.nbytes = engine, nbytes
        self.sides = sides
        """Destination and source."""

    @cached_property
    def packets(self) -> list[list[int]]:
        """As the engine takes them."""
        dst, src = self.sides
        return [*copy_packets(self.engine, dst=dst, src=src, nbytes=self.nbytes)]


CopyStep: TypeAlias = "Copy | list[list[int]]"
"""A copy, or packets."""


class CopyCommands:
    """Its packets. Copy engines run no kernels."""

    def __init__(self, owner: CopyOwner) -> None:
        self.owner, self.copy_word = owner, owner.copy_word

    @property
    def name(self) -> str:
        return f"{self.owner.name}'s copy queue"

    def wait(self, signal: Signal, value: int) -> CopyStep:
        va, owner = self.owner.signal_word(signal), self.owner
        return [sdma.poll_mem(owner.engine, addr=va, value=owner.signal_value(value))]

    def signal(self, signal: Signal, value: int) -> CopyStep:
        va, owner = self.owner.signal_word(signal), self.owner
        data = owner.signal_value(value)
        return [
            sdma.timestamp(owner.engine, addr=va + TIME_OFF),
            sdma.fence(owner.engine, addr=va, data=data),
            sdma.fence(owner.engine, addr=owner.mailbox_va, data=owner.event_id),
            sdma.trap(int_context=owner.event_id),
        ]

    def timestamp(self, signal: Signal) -> CopyStep:
        va = self.owner.signal_word(signal)
        return [sdma.timestamp(self.owner.engine, addr=va + TIME_OFF)]

    def barrier(self) -> CopyStep:
        """A NOP: an SDMA ring runs its packets in order."""
        return [sdma.nop()]

    def copy(self, dst: int, src: int, nbytes: int) -> CopyStep:
        return Copy(self.owner.engine, (dst, src), nbytes)

    def fill(self, step: CopyStep, number: int, word: int) -> CopyStep:
        if not isinstance(step, Copy):
            raise MalformedInput(f"{step!r:.80} has no argument {number}")
        sides = [*step.sides]
        sides[number] = word
        return Copy(step.engine, sides, step.nbytes)

    def run(self, built: Built[CopyStep]) -> None:
        packets: list[list[int]] = []
        for step in built.steps:
            packets += step.packets if isinstance(step, Copy) else step
        self.owner.run_copies(packets, built.check)

    def bind(self, built: Built[CopyStep]) -> StepGraph[CopyStep]:
        return StepGraph(self, built)


class AmdCopyQueue(Builder[CopyStep]):
    """A builder for the copy queue."""

    def __init__(self, owner: CopyOwner) -> None:
        commands = CopyCommands(owner)
        super().__init__(commands, copies=commands)

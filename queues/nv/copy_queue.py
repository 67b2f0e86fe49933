"""NVIDIA's copy queue: its steps are words of the copy engine's channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from drivers.base.contracts import Signal
from drivers.base.errors import MalformedInput
from queues.builder import Builder, Built
from queues.graph import StepGraph
from queues.nv import words as nv_words
from queues.nv.classes import Subchannel
from queues.nv.contracts import CopyOwner


class Copy:
    """One copy. While a side is open its address is 0, and nobody asks for its words."""

    def __init__(self, sides: Sequence[int], nbytes: int) -> None:
        self.sides, self.nbytes = sides, nbytes


CopyStep: TypeAlias = "Copy | list[int]"
"""A copy, or words."""


class CopyCommands:
    """Its words. Copy engines run no kernels."""

    def __init__(self, owner: CopyOwner) -> None:
        self.owner, self.copy_word = owner, owner.copy_word

    @property
    def name(self) -> str:
        return f"{self.owner.name}'s copy queue"

    def wait(self, signal: Signal, value: int) -> CopyStep:
        owner = self.owner
        va, value = owner.signal_word(signal), owner.signal_value(value)
        return nv_words.acquire(owner.target, Subchannel.COPY, va=va, value=value)

    def signal(self, signal: Signal, value: int) -> CopyStep:
        owner = self.owner
        va, value = owner.signal_word(signal), owner.signal_value(value)
        return nv_words.release(owner.target, Subchannel.COPY, va=va, value=value, timestamp=True)

    def timestamp(self, signal: Signal) -> CopyStep:
        va = self.owner.time_word(signal)
        return nv_words.release(self.owner.target, Subchannel.COPY, va=va, value=1, timestamp=True)

    def barrier(self) -> CopyStep:
        return nv_words.wait_idle(self.owner.target, Subchannel.COPY)

    def copy(self, dst: int, src: int, nbytes: int) -> CopyStep:
        return Copy((dst, src), nbytes)

    def fill(self, step: CopyStep, number: int, word: int) -> CopyStep:
        """A copy with one side filled in. Raises: MalformedInput."""
        if not isinstance(step, Copy):
            raise MalformedInput(f"{step!r:.80} has no argument {number}")
        sides = [*step.sides]
        sides[number] = word
        return Copy(sides, step.nbytes)

    def run(self, built: Built[CopyStep]) -> None:
        parts = []
        for step in built.steps:
            if isinstance(step, Copy):
                dst, src = step.sides
                step = nv_words.copies(self.owner.target, dst=dst, src=src, nbytes=step.nbytes)
            parts.append(step)
        self.owner.run_copies(parts, built.check)

    def bind(self, built: Built[CopyStep]) -> StepGraph[CopyStep]:
        return StepGraph(self, built)


class NvCopyQueue(Builder[CopyStep]):
    """A builder for the copy queue."""

    def __init__(self, owner: CopyOwner) -> None:
        commands = CopyCommands(owner)
        super().__init__(commands, copies=commands)

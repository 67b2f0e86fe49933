"""Adreno's copy queue. There is no copy engine: the command processor copies, word by word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from drivers.base.contracts import Signal
from drivers.base.errors import MalformedInput, Unsupported
from queues.builder import Builder, Built
from queues.graph import StepGraph
from queues.qcom import words as qcom_words
from queues.qcom.compute_queue import signal_words, time_words, wait_words
from queues.qcom.contracts import CopyOwner
from queues.qcom.pm4 import WORD_BYTES


class Copy:
    """One copy. While a side is open its address is 0, and nobody asks for its words."""

    def __init__(self, sides: Sequence[int], nbytes: int) -> None:
        self.sides, self.nbytes = sides, nbytes


CopyStep: TypeAlias = "Copy | list[int]"
"""A copy, or words."""


class CopyCommands:
    """Its words."""

    def __init__(self, owner: CopyOwner) -> None:
        self.owner, self.copy_word = owner, owner.copy_word

    @property
    def name(self) -> str:
        return f"{self.owner.name}'s copy queue"

    def wait(self, signal: Signal, value: int) -> CopyStep:
        return wait_words(self.owner, signal, value)

    def signal(self, signal: Signal, value: int) -> CopyStep:
        return signal_words(self.owner, signal, value)

    def timestamp(self, signal: Signal) -> CopyStep:
        return time_words(self.owner, signal)

    def barrier(self) -> CopyStep:
        return [*qcom_words.copied(), *qcom_words.barrier(self.owner.chip)]

    def copy(self, dst: int, src: int, nbytes: int) -> CopyStep:
        if (dst | src | nbytes) % WORD_BYTES:
            raise Unsupported(
                f"{nbytes} bytes from {src:#x} to {dst:#x}: the command processor copies words",
                hint="copy a multiple of 4 bytes, or with copy_in and copy_out",
            )
        return Copy((dst, src), nbytes)

    def fill(self, step: CopyStep, number: int, word: int) -> CopyStep:
        """A copy with one side filled in. Raises: MalformedInput."""
        if not isinstance(step, Copy):
            raise MalformedInput(f"{step!r:.80} has no argument {number}")
        sides = [*step.sides]
        sides[number] = word
        return Copy(sides, step.nbytes)

    def run(self, built: Built[CopyStep]) -> None:
        parts: list[list[int]] = []
        for step in built.steps:
            if isinstance(step, Copy):
                dst, src = step.sides
                parts += self.owner.copier.parts(dst, src, step.nbytes)
                parts.append(qcom_words.copied())
            else:
                parts.append(step)
        self.owner.run_copies(parts, built.check)

    def bind(self, built: Built[CopyStep]) -> StepGraph[CopyStep]:
        return StepGraph(self, built)


class QcomCopyQueue(Builder[CopyStep]):
    """A builder for the copy queue."""

    def __init__(self, owner: CopyOwner) -> None:
        commands = CopyCommands(owner)
        super().__init__(commands, copies=commands)

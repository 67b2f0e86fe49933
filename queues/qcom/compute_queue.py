"""Adreno's compute queue: its steps are launches and packets."""

from __future__ import annotations

from collections.abc import Sequence

from drivers.base.contracts import Grid, Program, Signal
from queues.bound_graph import BoundGraph
from queues.builder import Builder, Built
from queues.graph import StepGraph
from queues.qcom import words as qcom_words
from queues.qcom.contracts import ComputeOwner, Item, QcomOwner
from queues.qcom.words import Packets, Sync


def signal_words(owner: QcomOwner, signal: Signal, value: int) -> Packets:
    """Set a signal and its time when everything before is done and visible."""
    va, value = owner.signal_word(signal), owner.signal_value(value)
    time = qcom_words.timestamp(owner.chip, va=owner.time_word(signal))
    words = [*time, *qcom_words.release(owner.chip, va=va, value=value)]
    return Packets(words, (Sync(va, value, signals=True),), timed=True)


def time_words(owner: QcomOwner, signal: Signal) -> Packets:
    """Write the counter when everything before is done."""
    return Packets(qcom_words.timestamp(owner.chip, va=owner.time_word(signal)), timed=True)


def wait_words(owner: QcomOwner, signal: Signal, value: int) -> Packets:
    """Wait for a signal; later steps see what was written before."""
    va, value = owner.signal_word(signal), owner.signal_value(value)
    words = qcom_words.wait(owner.chip, va=va, value=value)
    return Packets(words, (Sync(va, value, signals=False),))


class ComputeCommands:
    """Its steps. Copies have a queue of their own."""

    name = "a compute queue"

    def __init__(self, owner: ComputeOwner) -> None:
        self.owner, self.argument_word = owner, owner.argument_word

    def wait(self, signal: Signal, value: int) -> Item:
        return Item(wait_words(self.owner, signal, value))

    def signal(self, signal: Signal, value: int) -> Item:
        return Item(signal_words(self.owner, signal, value))

    def timestamp(self, signal: Signal) -> Item:
        return Item(time_words(self.owner, signal))

    def barrier(self) -> Item:
        return Item(qcom_words.barrier(self.owner.chip))

    def launch(
        self, program: Program, words: Sequence[int], grid: Grid, block: Grid | None
    ) -> Item:
        return self.owner.launch_item(program, words, grid, block)

    def run(self, built: Built[Item]) -> None:
        self.owner.run(built.steps, built.check)

    def fill(self, step: Item, number: int, word: int) -> Item:
        """A launch with one argument filled in."""
        values = [*step.values]
        values[number] = word
        return Item(step.words, step.program, values, step.grid, step.block)

    def bind(self, built: Built[Item]) -> BoundGraph[Item] | StepGraph[Item]:
        """In memory; launches in pieces are submissions of their own, and so are their graphs'."""
        if self.owner.in_pieces(built.steps):
            return StepGraph(self, built)
        return BoundGraph(self.owner, built)


class QcomComputeQueue(Builder[Item]):
    """A builder for the compute queue."""

    def __init__(self, owner: ComputeOwner) -> None:
        commands = ComputeCommands(owner)
        super().__init__(commands, kernels=commands)

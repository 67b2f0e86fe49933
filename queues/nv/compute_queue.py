"""NVIDIA's compute queue: its steps are launches and words of its channel."""

from __future__ import annotations

from collections.abc import Sequence

from drivers.base.contracts import Grid, Program, Signal
from queues.bound_graph import BoundGraph
from queues.builder import Builder, Built
from queues.nv import words as nv_words
from queues.nv.classes import Subchannel
from queues.nv.contracts import ComputeOwner, Item


class ComputeCommands:
    """Its steps. Copies have a channel of their own."""

    name = "a compute queue"

    def __init__(self, owner: ComputeOwner) -> None:
        self.owner, self.argument_word = owner, owner.argument_word

    def wait(self, signal: Signal, value: int) -> Item:
        owner = self.owner
        va, value = owner.signal_word(signal), owner.signal_value(value)
        waits = nv_words.acquire(owner.target, Subchannel.COMPUTE, va=va, value=value)
        return Item([*waits, *nv_words.invalidate(owner.target)])

    def signal(self, signal: Signal, value: int) -> Item:
        owner = self.owner
        va, value = owner.signal_word(signal), owner.signal_value(value)
        return Item(
            nv_words.release(owner.target, Subchannel.COMPUTE, va=va, value=value, timestamp=True)
        )

    def timestamp(self, signal: Signal) -> Item:
        owner = self.owner
        va = owner.time_word(signal)
        return Item(
            nv_words.release(owner.target, Subchannel.COMPUTE, va=va, value=1, timestamp=True)
        )

    def barrier(self) -> Item:
        return Item(nv_words.wait_idle(self.owner.target, Subchannel.COMPUTE))

    def launch(
        self, program: Program, words: Sequence[int], grid: Grid, block: Grid | None
    ) -> Item:
        return self.owner.launch_item(program, words, grid, block)

    def launch_shared(
        self,
        program: Program,
        words: Sequence[int],
        grid: Grid,
        block: Grid | None,
        shared_bytes: int,
    ) -> Item:
        return self.owner.launch_item(program, words, grid, block, shared_bytes)

    def run(self, built: Built[Item]) -> None:
        self.owner.run(built.steps, built.check)

    def bind(self, built: Built[Item]) -> BoundGraph[Item]:
        return BoundGraph(self.owner, built)


class NvComputeQueue(Builder[Item]):
    """A builder for the compute queue."""

    def __init__(self, owner: ComputeOwner) -> None:
        commands = ComputeCommands(owner)
        super().__init__(commands, kernels=commands)

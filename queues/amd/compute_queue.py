"""AMD's compute queue: its steps are launches and PM4 words, for a ring of either format."""

from __future__ import annotations

from collections.abc import Sequence

from drivers.base.contracts import Buffer, Grid, Program, Signal
from queues.amd import words as amd_words
from queues.amd.contracts import ComputeOwner, Item
from queues.bound_graph import BoundGraph
from queues.builder import Builder, Built


class ComputeCommands:
    """Its steps. Copies have engines of their own."""

    name = "a compute queue"

    def __init__(self, owner: ComputeOwner) -> None:
        self.owner, self.argument_word = owner, owner.argument_word

    def wait(self, signal: Signal, value: int) -> Item:
        owner = self.owner
        va = owner.signal_word(signal)
        return Item(amd_words.wait(owner.target, va=va, value=owner.signal_value(value)))

    def signal(self, signal: Signal, value: int) -> Item:
        owner = self.owner
        va = owner.signal_word(signal)
        return Item(
            amd_words.signal(
                owner.target,
                va=va,
                value=owner.signal_value(value),
                mailbox_va=owner.mailbox_va,
                event_id=owner.event_id,
            )
        )

    def timestamp(self, signal: Signal) -> Item:
        va = self.owner.signal_word(signal)
        return Item(amd_words.timestamp(self.owner.target, va=va))

    def barrier(self) -> Item:
        return Item(amd_words.barrier(self.owner.target))

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
        kind = _LookingGraph if self.owner.look.on else BoundGraph
        return kind(self.owner, built)


class _LookingGraph(BoundGraph[Item]):
    """A graph on a kernel that may unmap doorbells: it looks before each replay."""

    def __init__(self, owner: ComputeOwner, built: Built[Item]) -> None:
        super().__init__(owner, built)
        self._look = owner.look

    def replay(self, values: Sequence[Buffer | int] = ()) -> None:
        self._look()
        super().replay(values)


class AmdComputeQueue(Builder[Item]):
    """A builder for the compute queue."""

    def __init__(self, owner: ComputeOwner) -> None:
        commands = ComputeCommands(owner)
        super().__init__(commands, kernels=commands)

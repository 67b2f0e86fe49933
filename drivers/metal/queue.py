"""The command queues of a Metal device, on the builder that all devices share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from drivers.base import launches
from drivers.base.contracts import Buffer, Graph, Grid, Program, Signal
from drivers.hosted.owned import own_buffer, own_program, own_signal, own_value
from drivers.metal import commands
from drivers.metal.commands import Fence, Flag, Gate, Launch, Transfer
from drivers.metal.graph import MetalGraph
from drivers.metal.memory import Block, MetalBuffer
from drivers.metal.owner import MetalOwner
from drivers.metal.program import MetalProgram
from drivers.metal.ring import Ring
from queues.builder import Builder, Built

Step: TypeAlias = Launch | Transfer | Gate | Flag | Fence


class MetalCommands:
    """Commands of one ring."""

    def __init__(self, device: MetalOwner, ring: Ring) -> None:
        self.owner, self.ring, self.name = device, ring, ring.name

    def wait(self, signal: Signal, value: int) -> Step:
        return Gate(self.ring, own_value(self.owner, signal, value).markers, value)

    def signal(self, signal: Signal, value: int) -> Step:
        return Flag(self.ring, own_value(self.owner, signal, value).markers, value)

    def timestamp(self, signal: Signal) -> Step:
        return Flag(self.ring, own_signal(self.owner, signal).markers, None)

    def barrier(self) -> Step:
        return Fence()

    def argument_word(self, value: Buffer | int) -> Block:
        found: MetalBuffer = own_buffer(self.owner, value)
        return found.block

    def launch(
        self, program: Program, words: Sequence[Any], grid: Grid, block: Grid | None
    ) -> Step:
        made = own_program(self.owner, MetalProgram, program, len(words))
        launches.check_grid(grid, self.owner.limits)
        if block is None:
            block = (made.block, 1, 1)
        else:
            launches.check_block(block, made.max_block, made.name)
        return Launch(self.ring, made.gpu_va, tuple(words), grid, block)

    def copy_word(self, value: Buffer, nbytes: int, *, write: bool) -> Block:
        buffer: MetalBuffer = own_buffer(self.owner, value)
        launches.check_copy(buffer, nbytes, write=write)
        return buffer.block

    def copy(self, dst: Any, src: Any, nbytes: int) -> Step:
        return Transfer(self.owner, self.ring, (dst, src), nbytes)

    def fill(self, step: Step, number: int, word: Any) -> Any:
        """The step with another buffer as one of its arguments."""
        return commands.filled(step, number, word)

    def run(self, built: Built[Step]) -> None:
        self.owner.run(self.ring, built)

    def bind(self, built: Built[Step]) -> Graph:
        return MetalGraph(self.owner, self.ring, built)


class MetalQueue(Builder[Step]):
    """A builder for one ring."""

    def __init__(self, device: MetalOwner, ring: Ring, *, can_exec: bool) -> None:
        made = MetalCommands(device, ring)
        super().__init__(made, kernels=made if can_exec else None, copies=made)

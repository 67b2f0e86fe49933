"""The command queues of a CUDA device, on the builder that all devices share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from drivers.base import launches
from drivers.base.contracts import Buffer, Graph, Grid, Program, Signal
from drivers.cuda.commands import OPEN, Fence, Flag, Gate, Launch, Place, Step, Transfer
from drivers.cuda.graph import CudaGraph
from drivers.cuda.owner import CudaOwner
from drivers.cuda.program import CudaProgram
from drivers.cuda.ring import Ring
from drivers.hosted.owned import own_program, own_signal, own_value
from queues.builder import Builder, Built


class CudaCommands:
    """Commands of one ring."""

    def __init__(self, device: CudaOwner, ring: Ring) -> None:
        self.owner, self.ring, self.name = device, ring, ring.name

    def wait(self, signal: Signal, value: int) -> Step:
        return Gate(self.ring, own_value(self.owner, signal, value).markers, value)

    def signal(self, signal: Signal, value: int) -> Step:
        markers = own_value(self.owner, signal, value).markers
        return Flag(self.ring, self.owner.events, markers, value)

    def timestamp(self, signal: Signal) -> Step:
        markers = own_signal(self.owner, signal).markers
        return Flag(self.ring, self.owner.events, markers, None)

    def barrier(self) -> Step:
        return Fence()

    def argument_word(self, value: Buffer | int) -> int:
        return self.owner.word(value)

    def launch(
        self, program: Program, words: Sequence[int], grid: Grid, block: Grid | None
    ) -> Launch:
        made = own_program(self.owner, CudaProgram, program, len(words))
        launches.check_grid(grid, self.owner.limits)
        if block is None:
            block = (made.block, 1, 1)
        else:
            launches.check_block(block, made.max_block, made.name)
        return Launch(self.ring, made.kernel, made.kernel.cut(words), grid, block)

    def launch_shared(
        self,
        program: Program,
        words: Sequence[int],
        grid: Grid,
        block: Grid | None,
        shared_bytes: int,
    ) -> Launch:
        step = self.launch(program, words, grid, block)
        made = own_program(self.owner, CudaProgram, program, len(words))
        launches.check_shared(shared_bytes, made.declared_bytes, self.owner.limits, made.name)
        with self.owner.working():
            made.kernel.allow(self.ring.api, shared_bytes)
        return replace(step, shared_bytes=shared_bytes)

    def copy_word(self, value: Buffer, nbytes: int, *, write: bool) -> Place:
        return self.owner.place(value, nbytes, write=write)

    def copy(self, dst: Place | int, src: Place | int, nbytes: int) -> Step:
        sides = [one if isinstance(one, Place) else OPEN for one in (dst, src)]
        return Transfer(self.ring, sides[0], sides[1], nbytes)

    def run(self, built: Built[Step]) -> None:
        self.owner.run(self.ring, built)

    def bind(self, built: Built[Step]) -> Graph:
        return CudaGraph(self.owner, self.ring, built)


class CudaQueue(Builder[Step]):
    """A builder for one ring."""

    def __init__(self, device: CudaOwner, ring: Ring, *, can_exec: bool) -> None:
        made = CudaCommands(device, ring)
        super().__init__(made, kernels=made if can_exec else None, copies=made)

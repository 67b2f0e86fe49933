"""Command queues: steps of a ring, which run in order in the device's one stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from drivers.base import launches
from drivers.base.contracts import Buffer, Graph, Grid, Program, Signal
from drivers.base.errors import BadArgument
from drivers.hosted.owned import own_buffer, own_program, own_signal, own_value
from drivers.webgpu.memory import Block, WebGpuBuffer
from drivers.webgpu.owner import WebGpuOwner
from drivers.webgpu.program import WebGpuProgram
from drivers.webgpu.ring import Ring
from drivers.webgpu.signal import WebGpuMarkers
from queues.builder import Builder, Built
from queues.graph import StepGraph


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel with its memory."""

    program: WebGpuProgram
    blocks: tuple[Any, ...]
    grid: Grid
    block: Grid

    def run(self, device: WebGpuOwner) -> bool:
        """Encode it."""
        program, blocks = self.program, self.blocks
        copies: tuple[Block, ...] = ()
        if len(set(blocks)) != len(blocks):
            blocks, copies = device.apart(program, blocks)
        try:
            device.stream.dispatch(program.pipeline(self.block), program.group(blocks), self.grid)
        finally:
            device.heap.give_back(*copies)
        return True

    def filled(self, number: int, word: Any) -> Launch:
        """With another buffer in a place."""
        return replace(self, blocks=(*self.blocks[:number], word, *self.blocks[number + 1 :]))


@dataclass(frozen=True, slots=True)
class Transfer:
    """A copy between two buffers: (block, its bytes that a buffer has)."""

    sides: tuple[Any, ...]
    nbytes: int

    def run(self, device: WebGpuOwner) -> bool:
        """Encode it."""
        (dst, room), (src, _) = self.sides
        if self.nbytes and dst is not src:
            device.copies.copy(dst, src, self.nbytes, room)
        return True

    def filled(self, number: int, word: Any) -> Transfer:
        """With another buffer on a side."""
        return replace(self, sides=(*self.sides[:number], word, *self.sides[number + 1 :]))


@dataclass(frozen=True, slots=True)
class Gate:
    """Nothing later of the ring is encoded before the signal will have the value."""

    signal: WebGpuMarkers
    value: int

    def run(self, device: WebGpuOwner) -> bool:
        """Whether it does."""
        return self.signal.promised(self.value) or self.signal.reached() >= self.value


@dataclass(frozen=True, slots=True)
class Flag:
    """Sets a signal, and its time."""

    signal: WebGpuMarkers
    value: int | None

    def run(self, device: WebGpuOwner) -> bool:
        """Encode it."""
        self.signal.coming(device.clock.mark(self.value))
        return True


@dataclass(frozen=True, slots=True)
class Fence:
    """A barrier: WebGPU orders everything by itself."""

    def run(self, device: WebGpuOwner) -> bool:
        """Nothing to do."""
        return True


Step: TypeAlias = Launch | Transfer | Gate | Flag | Fence


class WebGpuCommands:
    """Steps for one ring."""

    def __init__(self, device: WebGpuOwner, ring: Ring[WebGpuOwner]) -> None:
        self.owner, self.ring, self.name = device, ring, ring.name

    def wait(self, signal: Signal, value: int) -> Step:
        return Gate(own_value(self.owner, signal, value).markers, value)

    def signal(self, signal: Signal, value: int) -> Step:
        return Flag(own_value(self.owner, signal, value).markers, value)

    def timestamp(self, signal: Signal) -> Step:
        return Flag(own_signal(self.owner, signal).markers, None)

    def barrier(self) -> Step:
        return Fence()

    def argument_word(self, value: Buffer | int) -> Block:
        found: WebGpuBuffer = own_buffer(self.owner, value)
        return found.block

    def launch(
        self, program: Program, words: Sequence[Any], grid: Grid, block: Grid | None
    ) -> Step:
        own = own_program(self.owner, WebGpuProgram, program, len(words))
        launches.check_grid(grid, self.owner.limits)
        if block is not None:
            launches.check_block(block, own.block[0], own.name)
        return Launch(own, tuple(words), grid, block or own.block)

    def copy_word(self, value: Buffer, nbytes: int, *, write: bool) -> tuple[Block, int]:
        found: WebGpuBuffer = own_buffer(self.owner, value)
        launches.check_copy(found, nbytes, write=write)
        return found.block, found.nbytes

    def copy(self, dst: Any, src: Any, nbytes: int) -> Step:
        return Transfer((dst, src), nbytes)

    def fill(self, step: Step, number: int, word: Any) -> Step:
        if not isinstance(step, Launch | Transfer):
            raise BadArgument(f"{step} has no arguments", hint="record it again")
        return step.filled(number, word)

    def run(self, built: Built[Step]) -> None:
        self.owner.run(self.ring, built)

    def bind(self, built: Built[Step]) -> Graph:
        return StepGraph(self, built)


class WebGpuQueue(Builder[Step]):
    """A builder for one ring."""

    def __init__(self, device: WebGpuOwner, ring: Ring[WebGpuOwner], *, can_exec: bool) -> None:
        commands = WebGpuCommands(device, ring)
        super().__init__(commands, kernels=commands if can_exec else None, copies=commands)

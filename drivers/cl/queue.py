"""The command queue of an OpenCL device: its steps are commands that a ring enqueues."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from drivers.base import launches
from drivers.base.contracts import Buffer, Grid, Program, Signal
from drivers.base.errors import Unsupported
from drivers.cl.commands import (
    Fence,
    Flag,
    Gate,
    Launch,
    Step,
    Transfer,
    buffer_block,
)
from drivers.cl.derived import plain
from drivers.cl.graph import ClGraph
from drivers.cl.memory import Block, ClBuffer
from drivers.cl.owner import ClOwner
from drivers.cl.program import ClProgram
from drivers.cl.ring import Ring
from drivers.hosted.owned import own_buffer, own_program, own_signal, own_value
from queues.builder import Builder, Built


class ClCommands:
    """Its commands for one ring; they serve all queues of that ring."""

    def __init__(self, device: ClOwner, ring: Ring) -> None:
        self.owner, self._ring, self.name = device, ring, ring.name
        self.argument_word = partial(buffer_block, device)

    def wait(self, signal: Signal, value: int) -> Gate:
        return Gate(self._ring, own_value(self.owner, signal, value).markers, value)

    def signal(self, signal: Signal, value: int) -> Flag:
        return Flag(self._ring, own_value(self.owner, signal, value).markers, value)

    def timestamp(self, signal: Signal) -> Flag:
        return Flag(self._ring, own_signal(self.owner, signal).markers, None)

    def barrier(self) -> Fence:
        return Fence()

    def launch(
        self, program: Program, words: Sequence[Block], grid: Grid, block: Grid | None
    ) -> Launch:
        return self._launch(program, words, grid, block, 0)

    def launch_shared(
        self,
        program: Program,
        words: Sequence[Block],
        grid: Grid,
        block: Grid | None,
        shared_bytes: int,
    ) -> Launch:
        """The kernel's last parameter is the pointer to local memory."""
        if self.owner.hidden_args:
            raise Unsupported(
                f"kernels of {program!r} have a processor's shape, without local memory",
                hint="set CL_LANES=1",
            )
        return self._launch(program, words, grid, block, shared_bytes)

    def _launch(
        self,
        program: Program,
        words: Sequence[Block],
        grid: Grid,
        block: Grid | None,
        shared_bytes: int,
    ) -> Launch:
        taken = len(words) + bool(shared_bytes)
        one = own_program(self.owner, ClProgram, program, taken)
        launches.check_shared(shared_bytes, one.shared_bytes, self.owner.limits, one.name)
        launches.check_grid(grid, self.owner.limits)
        if block is not None:
            launches.check_block(block, one.max_block, one.name)
        lanes = block or (max(one.block, 1), 1, 1)
        return Launch(self.owner, self._ring, one, one.kernel, [*words], grid, lanes, shared_bytes)

    def copy_word(self, value: Buffer, nbytes: int, *, write: bool) -> Block:
        found: ClBuffer = own_buffer(self.owner, value)
        launches.check_copy(found, nbytes, write=write)
        return plain(found.block)

    def copy(self, dst: Block, src: Block, nbytes: int) -> Transfer:
        return Transfer(self.owner, self._ring, dst, src, nbytes).checked()

    def run(self, built: Built[Step]) -> None:
        """Now; from the first unmet wait on, once its signal is there, in order."""
        device, ring = self.owner, self._ring
        device.enter()
        with device.lock:
            device.check_open()
            built.check()
            device.begin(ring)
            device.push(ring, built.steps)

    def bind(self, built: Built[Step]) -> ClGraph:
        device = self.owner
        device.enter()
        with device.lock:
            device.check_open()
            graph = ClGraph(device, self._ring, built)
            device.register(graph)
            return graph


class ClQueue(Builder[Step]):
    """A builder for one ring of an OpenCL device."""

    def __init__(self, commands: ClCommands, *, can_exec: bool) -> None:
        super().__init__(commands, kernels=commands if can_exec else None, copies=commands)

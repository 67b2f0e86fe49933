"""The CPU's command queue: its steps are packets, which a ring runs or a graph records."""

from __future__ import annotations

from collections.abc import Sequence

from drivers.base.contracts import Grid, Program, Signal
from drivers.base.errors import BadArgument
from queues.builder import Builder, Built
from queues.cpu import packets
from queues.cpu.contracts import CpuOwner, Ring
from queues.cpu.graph import CpuGraph
from queues.cpu.packets import Words


class CpuCommands:
    """Its packets for one ring; they serve all queues of that ring."""

    def __init__(self, owner: CpuOwner, ring: Ring) -> None:
        self.owner, self._ring, self.name = owner, ring, ring.name
        self.can_exec = ring.can_exec
        self.argument_word, self.copy_word = owner.argument_word, owner.copy_word

    def wait(self, signal: Signal, value: int) -> Words:
        va = self.owner.signal_word(signal)
        return packets.wait_packet(signal=va, value=_uint64(value))

    def signal(self, signal: Signal, value: int) -> Words:
        va = self.owner.signal_word(signal)
        return packets.signal_packet(signal=va, value=_uint64(value))

    def timestamp(self, signal: Signal) -> Words:
        return packets.timestamp_packet(signal=self.owner.signal_word(signal))

    def barrier(self) -> Words:
        return packets.barrier_packet()

    def launch(
        self, program: Program, words: Sequence[int], grid: Grid, block: Grid | None
    ) -> Words:
        """Work items are workgroups along x; the CPU has no second dimension and no lanes."""
        entry, chunk = self.owner.program_words(program, len(words), grid, block)
        return packets.exec_packet(entry=entry, grid=grid[0], chunk=chunk, args=words)

    def copy(self, dst: int, src: int, nbytes: int) -> Words:
        return packets.copy_packet(dst=dst, src=src, nbytes=nbytes)

    def run(self, built: Built[Words]) -> None:
        """Now; from the first unsatisfied WAIT on, in the background, in order."""
        ring, words = self._ring, packets.joined(built.steps)
        with ring.lock:
            outer, ring.depth = ring.depth, ring.depth + 1
            try:
                ring.turn += not outer
                built.check()
                follow = ring.submit(words, built.keep)
            finally:
                ring.depth = outer
        if follow is not None:
            follow()

    def bind(self, built: Built[Words]) -> CpuGraph:
        return CpuGraph(self.owner, self._ring, built)


class CpuQueue(Builder[Words]):
    """A builder for one ring of the CPU."""

    def __init__(self, commands: CpuCommands) -> None:
        kernels = commands if commands.can_exec else None
        super().__init__(commands, kernels=kernels, copies=commands)


def _uint64(value: object) -> int:
    if type(value) is not int or not 0 <= value <= packets.MAX_WORD:
        raise BadArgument(f"{value!r} is no 64-bit signal value", hint="pass 0 ... 2**64 - 1")
    return value

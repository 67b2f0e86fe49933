"""The made-up vendor's queues: a step is a packet, and each ring runs its packets in order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from drivers.base.contracts import Grid, Program, Signal
from drivers.base.launches import check_signal_value
from drivers.gpu import arguments
from queues.builder import Builder, Built
from queues.graph import StepGraph
from tests.contract.null_vendor.machine import Packet

if TYPE_CHECKING:
    from tests.contract.null_vendor.device import NullDevice


class NullCommands:
    """Its packets for one ring."""

    def __init__(self, device: NullDevice, ring: int, name: str) -> None:
        self.owner, self.ring, self.name = device, ring, name
        self.argument_word = partial(arguments.word, device)
        self.copy_word = partial(arguments.copy_va, device)

    def wait(self, signal: Signal, value: int) -> Packet:
        check_signal_value(value, self.owner.limits)
        return "wait", arguments.signal_va(self.owner, signal), value

    def signal(self, signal: Signal, value: int) -> Packet:
        check_signal_value(value, self.owner.limits)
        return "signal", arguments.signal_va(self.owner, signal), value

    def timestamp(self, signal: Signal) -> Packet:
        return "time", arguments.signal_va(self.owner, signal)

    def barrier(self) -> Packet:
        return ("barrier",)

    def launch(
        self, program: Program, words: Sequence[int], grid: Grid, block: Grid | None
    ) -> Packet:
        lanes = self.owner.check_launch(program, len(words), grid, block)
        return "exec", program.gpu_va, grid, lanes, [*words]

    def copy(self, dst: int, src: int, nbytes: int) -> Packet:
        return "copy", [dst, src], nbytes

    def fill(self, step: Packet, number: int, word: int) -> Packet:
        return tuple(
            [*part[:number], word, *part[number + 1 :]] if isinstance(part, list) else part
            for part in step
        )

    def run(self, built: Built[Packet]) -> None:
        self.owner.push(self.ring, built.steps, built.check)

    def bind(self, built: Built[Packet]) -> StepGraph[Packet]:
        return StepGraph(self, built)


class NullQueue(Builder[Packet]):
    """A builder for one ring."""

    def __init__(self, device: NullDevice, ring: int, name: str, *, can_exec: bool) -> None:
        commands = NullCommands(device, ring, name)
        super().__init__(commands, kernels=commands if can_exec else None, copies=commands)

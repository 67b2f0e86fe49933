"""An AMD function that an access log listens to."""

from __future__ import annotations

from typing import Protocol

from boards.amd.pci.gpu import PciGpu

_EVENTS = frozenset({"firmware"})
"""Of the board's timeline, those that belong to a boot."""


class Log(Protocol):
    """What is told of a function's accesses."""

    def access(self, op: str, register: str, value: int) -> None: ...
    def unmodelled(self, op: str, place: str, value: int) -> None: ...
    def event(self, name: str, facts: dict[str, int | str]) -> None: ...


def watch(gpu: PciGpu, log: Log) -> None:
    """From now on `log` hears of every register access, and of firmware that arrives."""
    registers = gpu.board.registers
    registers.watch, registers.unmodelled = log.access, log.unmodelled

    def event(name: str, facts: dict[str, int | str]) -> None:
        if name in _EVENTS:
            log.event(name, facts)

    gpu.hardware.trace = event

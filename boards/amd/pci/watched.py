"""An AMD function that an access log listens to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from boards.amd.pci.gpu import PciGpu
from boards.amd.pci.landmarks import event_phase, passed
from boards.machine.chassis import Facts


class Log(Protocol):
    """Where accesses of a function are reported."""

    def access(self, op: str, register: str, value: int) -> None: ...
    def unset_read(self, register: str) -> None: ...
    def lacking(self, op: str, place: str, value: int) -> None: ...
    def phase(self, name: str) -> None: ...


class _Events:
    """Phases of a boot among a board's events, for one log."""

    def __init__(self, log: Log, before: Callable[[str, Facts], None] | None) -> None:
        self._log, self.before = log, before

    def __call__(self, name: str, facts: Facts) -> None:
        if self.before is not None:
            self.before(name, facts)
        phase = event_phase(name, facts)
        if phase:
            self._log.phase(phase)


def watch(gpu: PciGpu, log: Log) -> None:
    """From now on `log` hears of every register access by name, and of the phases of a boot.

    Of a register with copies the name has the selector: "GC[0].SH_MEM_BASES (8)" is VMID 8's.
    It also hears of an access to an address without a register, which stays a violation, and of a
    read of a register that nobody has given a value: the answer is zero. Whoever heard of the
    board's events before hears of them as before, but for an earlier log: it hears no more.
    """
    board, registers, before = gpu.board, gpu.board.registers, gpu.hardware.trace
    if isinstance(before, _Events):
        before = before.before
    blocks = {str(block): block for block in registers.blocks}

    def access(op: str, register: str, value: int) -> None:
        place, name = register.split(".", 1)
        block = blocks[place]
        key = block.key(name)
        if key != ():
            copy = key if isinstance(key, tuple) else (key,)
            register += f" ({'.'.join(str(part) for part in copy)})"
        log.access(op, register, value)
        if op == "read" and not block.gives(name):
            log.unset_read(register)
        phase = passed(block.name, name, value) if op == "write" else ""
        if phase:
            log.phase(phase)

    def lacking(op: str, place: str, value: int) -> None:
        log.lacking(op, place, value)
        board.find("unknown register", f"{op} of {place}", f"{value:#x}")

    registers.watch, registers.lacking = access, lacking
    gpu.hardware.trace = _Events(log, before)

"""An AMD function that an access log listens to."""

from __future__ import annotations

from typing import Protocol

from boards.amd.pci.gpu import PciGpu
from boards.amd.pci.landmarks import event_phase, passed


class Log(Protocol):
    """Where accesses of a function are reported."""

    def access(self, op: str, register: str, value: int) -> None: ...
    def unmodelled(self, op: str, place: str, value: int) -> None: ...
    def phase(self, name: str) -> None: ...


def watch(gpu: PciGpu, log: Log) -> None:
    """From now on `log` hears of every register access by name, and of the phases of a boot.

    Of a register with copies the name has the selector: "GC[0].SH_MEM_BASES (8)" is VMID 8's.
    Not modelled is an address without a register, which stays a violation, and a read of a register
    that nobody has given a value: the answer is zero.
    """
    board, registers = gpu.board, gpu.board.registers
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
            log.unmodelled(op, register, value)
        phase = passed(block.name, name, value) if op == "write" else ""
        if phase:
            log.phase(phase)

    def lacking(op: str, place: str, value: int) -> None:
        log.unmodelled(op, place, value)
        board.find("unknown register", f"{op} of {place}", f"{value:#x}")

    def event(name: str, facts: dict[str, int | str]) -> None:
        phase = event_phase(name, facts)
        if phase:
            log.phase(phase)

    registers.watch, registers.lacking, gpu.hardware.trace = access, lacking, event

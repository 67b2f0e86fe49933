"""The report of a fault on a board: kernel, wave, the code around it, the page walk."""

from __future__ import annotations

from collections.abc import Iterator

from boards.amd.isa.decode import UnknownInstruction, decode
from boards.amd.isa.families import FAMILIES
from boards.amd.isa.text import disassemble
from boards.amd.kfd.device import Device
from boards.amd.kfd.world import BoardWorld
from boards.amd.memory.pages import SYSTEM
from boards.machine.chassis import Facts, NameOf
from boards.machine.pci.world import PciWorld

MOST_NOTES = 16
"""Violations in code that are kept with the code around them."""
MOST_INSTRUCTIONS = 1 << 16
"""Of a kernel that are decoded to find where the one at fault begins."""
BEFORE, AFTER = 6, 3
"""Instructions shown around the one at fault."""
_LONGEST_BYTES, _DWORD_BYTES = 20, 4
_PAGE_MASK = 0xFFF


def peek(device: Device, va: int, nbytes: int) -> bytes:
    """Bytes behind a GPU address up to the end of its page; nothing is checked or cached."""
    table = device.table
    leaf = table.walk(va) if table is not None else None
    if leaf is None:
        return b""
    pool, offset = device.gpu.vram, leaf.pa + va - leaf.va
    count = min(nbytes, leaf.va + leaf.nbytes - va)
    if leaf.entry & SYSTEM:
        found = device.hardware.bus.decode(leaf.pa)
        if found is None:
            return b""
        return found[0].bytes[found[1] + va - leaf.va :][:count].tobytes()
    return pool.bytes[offset : offset + count].tobytes()


def instructions(device: Device, entry: int, lanes: int) -> Iterator[tuple[int, str]]:
    """(address, text) of a kernel's instructions from its first one on."""
    family, pc = FAMILIES[device.gpu.chip.name], entry
    for _ in range(MOST_INSTRUCTIONS):
        raw = peek(device, pc, _LONGEST_BYTES)
        if len(raw) < _DWORD_BYTES:
            yield pc, "(not mapped)"
            return
        ends = range(0, len(raw) - _DWORD_BYTES + 1, _DWORD_BYTES)
        words = tuple(int.from_bytes(raw[at : at + _DWORD_BYTES], "little") for at in ends)
        try:
            made = decode(family, words, pc, lanes)
        except UnknownInstruction:
            yield pc, f"(no instruction) {words[0]:08x}"
            pc += _DWORD_BYTES
            continue
        yield pc, disassemble(made)
        pc += made.size_bytes


def listing(device: Device, entry: int, pc: int, lanes: int) -> list[str]:
    """The code around `pc`, an arrow at it."""
    seen: list[tuple[int, str]] = []
    behind = 0
    for at, text in instructions(device, entry, lanes):
        seen.append((at, text))
        behind += at > pc
        if behind >= AFTER or text == "(not mapped)":
            break
        if at < pc:
            del seen[:-BEFORE]
    if not any(at == pc for at, _ in seen):
        seen = [(pc, "(not reached from the kernel's first instruction)")]
    return [f"{'->' if at == pc else '  '} {at:#x} +{at - entry:#05x}: {text}" for at, text in seen]


def place(device: Device, va: int) -> str:
    """The buffer at an address, or the nearest one in front of it."""
    if device.find_mapping(va) is not None:
        return f"in {device.buffer_at(va)}"
    ends = [m.buffer for m in device.mappings if m.buffer.va + m.buffer.nbytes <= va]
    if not ends:
        return "in front of every buffer"
    last = max(ends, key=lambda buffer: buffer.va + buffer.nbytes)
    return f"in no buffer, {va - last.va - last.nbytes:#x} bytes behind {last}"


def walk(device: Device, va: int) -> list[str]:
    """Where an address is, and the page walk."""
    lines = [f"address {va:#x}, {place(device, va)}"]
    if device.table is not None:
        lines.append(f"page walk of {va & ~_PAGE_MASK:#x}:")
        lines += [f"   {line}" for line in device.table.describe(va)]
    return lines


class FaultWatch:
    """Keeps a report of every fault, hang and violation in code on a board's timeline."""

    def __init__(self, board: BoardWorld | PciWorld, name_of: NameOf) -> None:
        self._board, self._name_of = board, name_of
        self.reports: list[str] = []
        self.notes: dict[tuple[str, int, int], str] = {}
        """Violations in a kernel's code, one for each kind and instruction, with code around."""
        self._reported: set[int] = set()

    def __call__(self, name: str, facts: Facts) -> None:
        """One event of the timeline."""
        if name == "violation":
            self._note(facts)
        elif name == "fault":
            self._reported.add(int(facts["queue"]))
            self._wave(facts)
        elif name in ("queue fault", "hang"):
            queue = int(facts["queue"])
            if queue not in self._reported:
                self._queue(name, facts)
            self._reported.discard(queue)

    def _device(self, queue_id: int) -> Device | None:
        process = self._board.process
        queue = process.queues.by_id.get(queue_id) if process is not None else None
        return queue.device if queue is not None else None

    def _note(self, facts: Facts) -> None:
        entry, pc = int(facts["entry"]), int(facts["pc"])
        key = (str(facts["kind"]), entry, pc)
        device = self._device(int(facts["queue"]))
        if device is not None and key not in self.notes and len(self.notes) < MOST_NOTES:
            names = " or ".join(self._name_of(entry)) or f"at {entry:#x}"
            first = f"{facts['kind']}: {facts['what']} in kernel {names}, wave {facts['wave']}"
            shown = listing(device, entry, pc, int(facts["lanes"]))
            self.notes[key] = "\n  ".join([first, *shown])

    def _wave(self, facts: Facts) -> None:
        entry, pc, va = int(facts["entry"]), int(facts["pc"]), int(facts["va"])
        names = " or ".join(self._name_of(entry)) or f"at {entry:#x}"
        access = f" {facts['access']}" if facts["access"] else ""
        detail = f": {facts['detail']}" if facts["detail"] else ""
        lines = [
            f"{facts['kind']}{access} in kernel {names}, queue {facts['queue']}, "
            f"wave {facts['wave']} lane {facts['lane']}, pc {pc:#x}{detail}"
        ]
        device = self._device(int(facts["queue"]))
        if device is not None:
            lines += listing(device, entry, pc, int(facts["lanes"]))
            lines += walk(device, va) if facts["access"] else []
        self.reports.append("\n  ".join(lines))

    def _queue(self, name: str, facts: Facts) -> None:
        lines = [f"{name} of queue {facts['queue']}: {facts['why']}"]
        device = self._device(int(facts["queue"]))
        if device is not None and name == "queue fault" and facts["va"]:
            lines += walk(device, int(facts["va"]))
        self.reports.append("\n  ".join(lines))

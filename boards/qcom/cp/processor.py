"""One submission, packet by packet. What waits gives its turn away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from boards.machine.arrays import Array, Words
from boards.machine.clock import Clock
from boards.qcom.chips import AdrenoChip
from boards.qcom.cp import registers as r
from boards.qcom.cp.caches import Caches
from boards.qcom.cp.dispatch import Composer
from boards.qcom.cp.faults import HANG, ILLEGAL_INSTRUCTION, OPCODE_ERROR, PAGE_FAULT, GpuFault
from boards.qcom.cp.packets import Packet, header
from boards.qcom.cp.rights import Rights
from boards.qcom.cp.state import CODE_BYTES, ComputeState, Load
from boards.qcom.cp.static import Static
from boards.qcom.cp.view import ShaderMemory
from boards.qcom.memory import LINE_SHIFT
from boards.qcom.power import ALWAYS_ON_HZ, Power
from boards.qcom.space import Space
from boards.qcom.wave.dispatch import Dispatch, Outcome, PageFault
from boards.qcom.wave.execute import run

_WORD_BYTES, _DEEPEST = 4, 3
_MOST_PACKETS = 1 << 22
"""Of one submission, before it counts as one that never ends."""
Run = Callable[[Dispatch, ShaderMemory], Outcome]
Wait = Iterator[None]
_TYPE_4 = 4


@dataclass(slots=True)
class Machine:
    """What a submission meets of the GPU that it runs on."""

    chip: AdrenoChip
    clock: Clock
    caches: Caches
    rights: Rights
    find: Callable[[str, str], None]
    event: Callable[..., None]
    power: Power
    static: Static
    issues_per_s: int = 0
    """Issue slots; 0: code takes no time."""
    run: Run = run

    def always_on(self) -> int:
        """CP_ALWAYS_ON_COUNTER."""
        return self.power.always_on()

    def spend(self, cycles: int) -> float:
        """Let the time of some code pass: milliseconds."""
        if not self.issues_per_s:
            return 0.0
        seconds = cycles / self.issues_per_s
        self.clock.skip(seconds)
        return seconds * 1000


Result: TypeAlias = Wait | tuple[int, int] | int | None
"""Steps that wait, an indirect buffer (address, words), words to skip, or nothing."""


class Handler(NamedTuple):
    """One opcode."""

    counts: tuple[int, int]
    """The fewest and the most words behind the header."""
    do: Callable[[Processor, Words], Result]


@dataclass(slots=True)
class Processor:
    """The state of one submission; nothing of the last one's registers can be relied on."""

    machine: Machine
    space: Space
    handlers: Mapping[int, Handler]
    """By opcode."""
    registers: dict[int, int] = field(default_factory=dict)
    state: ComputeState = field(default_factory=ComputeState)
    scratch: list[int] = field(default_factory=lambda: [0] * 8)
    marker: int = 0
    threads: int | None = None
    """Of CP_THREAD_CONTROL."""
    packets: int = 0
    patience_ms: tuple[int, int] = (0, 0)
    """The kernel's for one dispatch, and for the submission; 0: it has no end."""
    spent_ms: float = 0.0
    ends: dict[int, int] = field(default_factory=dict)
    """By address: the dispatch after which an event wrote there."""
    last: str = ""
    """Where it is, for reports."""

    def run(self, streams: list[tuple[int, int]]) -> Wait:
        """All indirect buffers, (address, words). Raises: GpuFault."""
        self.machine.caches.begin()
        try:
            for va, words in streams:
                yield from self.stream(va, words, 1)
        except PageFault as fault:
            raise GpuFault(
                PAGE_FAULT, f"{fault} by CP, {self.last}", fault.va, fault.access
            ) from fault
        self.machine.caches.end()

    def stream(self, va: int, count: int, level: int) -> Wait:
        """One indirect buffer."""
        words = self.fetch(va, count)
        at = 0
        while at < count:
            self.packets += 1
            if self.packets > _MOST_PACKETS:
                raise GpuFault(HANG, "indirect buffers without an end")
            packet = header(int(words[at]), va + at * _WORD_BYTES)
            body = words[at + 1 : at + 1 + packet.count]
            self.last = f"{packet.name} at {va + at * _WORD_BYTES:#x}"
            if len(body) < packet.count:
                raise GpuFault(OPCODE_ERROR, f"{self.last} goes past its indirect buffer")
            at += 1 + packet.count
            if packet.kind == _TYPE_4:
                self.write_registers(packet.number, body)
                continue
            handler = self.handlers.get(packet.number)
            if handler is None:
                raise GpuFault(OPCODE_ERROR, self.last)
            least, most = handler.counts
            if not least <= packet.count <= most:
                raise GpuFault(OPCODE_ERROR, f"{self.last} with {packet.count} words")
            result = handler.do(self, body)
            if isinstance(result, int):
                at += result
            elif isinstance(result, tuple):
                if level >= _DEEPEST:
                    raise GpuFault(OPCODE_ERROR, f"{self.last} in an IB of level {level}")
                yield from self.stream(*result, level + 1)
            elif result is not None:
                yield from result

    def fetch(self, va: int, count: int) -> Words:
        """The words of an indirect buffer."""
        if va % _WORD_BYTES:
            raise GpuFault(OPCODE_ERROR, f"an indirect buffer at {va:#x}")
        return self.read(va, count * _WORD_BYTES).copy().view(np.uint32)

    # Memory, as the command processor sees it

    def read(self, va: int, nbytes: int) -> Array:
        """Bytes of DRAM. Raises: PageFault."""
        found = self.space.read(va, nbytes)
        mapping = self.space.find(va)
        if mapping is not None and nbytes and len(mapping.memory.shader_wrote):
            first = va - mapping.va + mapping.offset
            last = min(first + nbytes, mapping.offset + mapping.nbytes) - 1
            lines = slice(first >> LINE_SHIFT, (last >> LINE_SHIFT) + 1)
            self.machine.caches.processor_reads(mapping.memory, lines, self.last)
        return found

    def read32(self, va: int) -> int:
        """One word."""
        return int.from_bytes(self.read(va, _WORD_BYTES).tobytes(), "little")

    def write(self, va: int, data: bytes) -> None:
        """Bytes to DRAM. Raises: PageFault."""
        for memory, lines in self.space.write(va, data):
            self.machine.caches.processor_wrote(memory, lines)

    def shader_read(self, va: int, nbytes: int) -> Array:
        """Bytes that are read through UCHE: constants, code, descriptors."""
        found = self.space.read(va, nbytes)
        mapping = self.space.find(va)
        if mapping is not None and nbytes and len(mapping.memory.shader_wrote):
            first = va - mapping.va + mapping.offset
            last = (first + nbytes - 1 >> LINE_SHIFT) + 1
            lines = np.arange(first >> LINE_SHIFT, min(last, len(mapping.memory.cp_wrote)))
            self.machine.caches.shader_reads(mapping.memory, lines)
        return found

    # Registers

    def write_registers(self, first: int, values: Words | list[int]) -> None:
        """Registers in a row. Raises: GpuFault for one that a process may not write."""
        check = self.machine.rights.check_write
        invalidate = r.offsets(self.machine.chip.generation).invalidate
        for register, value in enumerate(values, first):
            check(register)
            self.registers[register] = int(value)
            if register == invalidate:
                self.state.invalidate(state=bool(value >> 5 & 1), uavs=bool(value >> 6 & 1))

    def register(self, number: int) -> int:
        """What is read: counters, else what was written."""
        if number in (r.CP_ALWAYS_ON_COUNTER, r.CP_ALWAYS_ON_CONTEXT):
            return self.machine.always_on() & 0xFFFFFFFF
        if number in (r.CP_ALWAYS_ON_COUNTER + 1, r.CP_ALWAYS_ON_CONTEXT + 1):
            return self.machine.always_on() >> 32
        self.machine.rights.check_read(number)
        if number not in self.registers:
            self.machine.find("unset register", f"{self.last} reads register {number:#x}")
        return self.registers.get(number, 0)

    # Work

    def load_state(self, words: Words) -> None:
        """LOAD_STATE6 and its kin."""
        load = Load.of(words)
        chip = self.machine.chip
        try:
            self.state.load(load, self.shader_read, self.machine.find)
        except PageFault as fault:
            raise GpuFault(PAGE_FAULT, f"{fault} by HLSQ", fault.va, fault.access) from fault
        if self.state.code_units > chip.instr_cache:
            what = f"{self.state.code_units} units of code preloaded, {chip.instr_cache} fit"
            raise GpuFault(HANG, what)

    def dispatch(self, groups: tuple[int, int, int]) -> None:
        """EXEC_CS. Raises: GpuFault."""
        machine, caches = self.machine, self.machine.caches
        if self.marker & 0xF != _COMPUTE:
            machine.find("marker", "EXEC_CS without SET_MARKER of compute")
        if not caches.fresh:
            machine.find("stale read", "a dispatch before CACHE_INVALIDATE in its submission")
        machine.static.check(self.registers, self.threads, machine.find)
        caches.dispatch += 1
        try:
            made = Composer(machine.chip, self.registers, machine.find).compose(
                groups, self.state, self.shader_read
            )
        except PageFault as fault:
            raise GpuFault(PAGE_FAULT, f"{fault} by HLSQ", fault.va, fault.access) from fault
        if 0 in groups:
            return
        lanes = made.block[0] * made.block[1] * made.block[2]
        machine.event("launch", code=made.code_va, bytes=len(made.code) // CODE_BYTES,
                      groups=groups[0] * groups[1] * groups[2], lanes=lanes)  # fmt: skip
        self._report(made, machine.run(made, ShaderMemory(self.space, caches)))

    def _take_time(self, cycles: int) -> None:
        """Raises: GpuFault where the kernel's check for hangs has no patience any more."""
        one_ms = self.machine.spend(cycles)
        self.spent_ms += one_ms
        for limit, spent, what in zip(
            self.patience_ms, (one_ms, self.spent_ms), ("a dispatch", "a submission"), strict=True
        ):
            if limit and spent > limit:
                raise GpuFault(HANG, f"{what} of {spent:.0f} ms, {limit} are allowed")

    def _report(self, made: Dispatch, outcome: Outcome) -> None:
        for violation in outcome.violations:
            self.machine.find("code", f"{violation} in the code at {made.code_va:#x}")
        fault = outcome.fault
        if fault is not None:
            kind = {"page fault": PAGE_FAULT, "endless": HANG}.get(fault.kind, ILLEGAL_INSTRUCTION)
            where = f"{fault.detail} at {made.code_va + fault.pc:#x}: {fault.text}"
            raise GpuFault(kind, where, fault.va, fault.access)
        self._take_time(outcome.cycles)

    # Waits

    def until(self, holds: Callable[[], bool], va: int = 0) -> Wait:
        """A wait of the command processor; it has seen what an event wrote at `va`."""
        return _until(holds, partial(self._seen, va))

    def _seen(self, va: int) -> None:
        caches = self.machine.caches
        caches.idle = max(caches.idle, self.ends.get(va, 0))


_COMPUTE = 8


def _until(holds: Callable[[], bool], then: Callable[[], None]) -> Wait:
    while not holds():
        yield
    then()


__all__ = ["ALWAYS_ON_HZ", "Machine", "Packet", "Processor"]

"""What the check of the control word needs of an instruction, found once for each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from boards.machine.arrays import Array
from boards.nv.warp.build import PREDICATE, REGISTER, UNIFORM, UNIFORM_PREDICATE, Step
from boards.nv.warp.latency import IN_ORDER, VARIABLE, Latencies
from boards.nv.warp.undefined import passes

FORWARDS = ("double", "group")
"""Units that may read their own results sooner. measured: nvrtc 13.5 chains DFMA without waits."""
SCOREBOARDS = 7
"""Six, and gsb0 of HGMMA."""


@dataclass(frozen=True, slots=True)
class Read:
    """A register that is read, and how long its writers take, by their class."""

    file: int
    register: int
    table: Array
    cycles: list[int]


@dataclass(frozen=True, slots=True)
class Plan:
    """An instruction as the check sees it."""

    step: Step
    waits: tuple[int, ...]
    guards: tuple[Read, ...]
    reads: tuple[Read, ...]
    unit: str
    """That it goes to, if its results come in order."""
    queue: str
    """In which it waits, if sources are read in its order."""
    variable: bool
    """Whether its results need a scoreboard."""
    stall: int
    passes: bool
    """Whether bits that nobody wrote may go through it."""
    uniforms: tuple[tuple[int, int], ...]
    """Uniform registers and predicates that it writes."""
    flows: bool
    """Whether threads may go elsewhere, wait or end."""


def plan_of(step: Step, latencies: Latencies) -> Plan:
    """The plan of a step on an architecture."""
    guards = [_read(latencies, "guard", file, number, 0) for file, number, _ in step.guards]
    reads = [_read(latencies, step.latency, *each) for each in step.reads]
    wait = step.control.wait
    unit = next((name for name, members in IN_ORDER.items() if step.name in members), "")
    return Plan(
        step=step,
        waits=tuple(number for number in range(SCOREBOARDS) if wait >> number & 1),
        guards=tuple(guards),
        reads=tuple(reads),
        unit=unit,
        queue="memory" if latencies.one_queue and step.latency == "agu" else unit,
        variable=step.latency in VARIABLE,
        stall=max(1, step.control.stall),
        passes=passes(step),
        uniforms=tuple(p for p in step.writes if p[0] in (UNIFORM, UNIFORM_PREDICATE)),
        flows=step.latency == "control",
    )


@cache
def _read(latencies: Latencies, reader: str, file: int, register: int, source: int) -> Read:
    """A register that an instruction of a class reads as one of its sources."""
    table = _table(latencies, reader, file, source)
    return Read(file, register, table, table.tolist())


def _table(latencies: Latencies, reader: str, file: int, source: int) -> Array:
    """Latencies that a reader has to keep, by the class of the writer."""
    if file == REGISTER:
        if reader in ("wide", "high"):
            reader = ("product", "product", "addend low", "addend high")[source]
        return latencies.registers.get(reader, latencies.registers["alu"])
    if file in (PREDICATE, UNIFORM_PREDICATE):
        return latencies.predicates.get(reader, latencies.predicates["guard"])
    return latencies.uniforms.get(reader, latencies.uniforms["alu"])

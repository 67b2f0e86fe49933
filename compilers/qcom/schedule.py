"""Order of ir3 instructions between branches, so that others run while a result is on its way.

Registers are allocated already: an order is kept wherever one instruction needs another's result or
overwrites its operand, and among accesses to one kind of memory of which one writes. Of what may
come next, the one that waits least is taken; of these, the one that most depends on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from compilers.qcom.effects import Effects, Known
from compilers.qcom.hazards import DELAYS
from compilers.qcom.isa.instruction import Insn
from compilers.qcom.isa.operand import Kind

LATENCY_SS: Final = 12
LATENCY_SY: Final = 64
"""Cycles to prefer: estimates, for results that no delay slot waits for."""
WINDOW: Final = 192
"""Instructions that are looked at together."""
_SPACES: Final = {
    "isam": "g", "ldg": "g", "ldg.a": "g", "stg": "g", "stg.a": "g", "ldl": "l", "stl": "l",
    "ldp": "p", "stp": "p", "ldib.b": "g", "stib.b": "g", "ldlw": "l", "stlw": "l",
}  # fmt: skip
_PURE: Final = frozenset({1, 2, 3, 4})
_RELATIVE: Final = (Kind.RELATIVE, Kind.RELATIVE_CONST)


@dataclass(slots=True)
class _Node:
    """One instruction, with those that must come after it and how many cycles later."""

    insn: Insn
    has: Effects
    after: dict[int, int] = field(default_factory=dict)
    before: int = 0
    height: int = 0
    earliest: int = 0


def schedule(code: Sequence[Insn], generation: int, known: Known | None = None) -> list[Insn]:
    """The same instructions in another order. `known` has the effects of those that were counted
    before. Raises: CompileError."""
    known = known or Known(generation)
    found: list[Insn] = []
    part: list[Insn] = []
    for insn in code:
        moves = insn.op != "label" and _moves(insn, known.of(insn))
        if len(part) == WINDOW or not moves:
            found += _ordered(part, known)
            part = []
        if moves:
            part.append(insn)
        else:
            found.append(insn)
    return found + _ordered(part, known)


def _moves(insn: Insn, has: Effects) -> bool:
    if insn.flags and insn.flags & {"ss", "sy", "jp"}:
        return False
    relative = any(one.kind in _RELATIVE for one in insn.srcs) or (
        insn.dst is not None and insn.dst.kind in _RELATIVE
    )
    return not relative and (has.kind in _PURE or has.kind == 5 or insn.op in _SPACES)


def _latency(has: Effects, repeat: int, other: Effects, generation: int) -> int:
    """Cycles from one to another that reads its result."""
    if has.sy:
        return LATENCY_SY
    if has.ss:
        return LATENCY_SS
    slots = DELAYS[generation]
    return 1 + repeat + (slots.alu if other.is_alu else slots.other)


class _Graph:
    """The order that must be kept, while instructions are added."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.nodes: list[_Node] = []
        self._writer: dict[int, int] = {}
        self._readers: dict[int, list[int]] = {}
        self._stores: dict[str, list[int]] = {}
        self._loads: dict[str, list[int]] = {}

    def add(self, insn: Insn) -> None:
        """The next one."""
        has, place, last = self.known.of(insn), len(self.nodes), -1
        writer, readers = self._writer, self._readers
        for access in has.reads:
            for unit in access.units:
                one = writer.get(unit, -1)
                if one not in (-1, last):
                    self._follows_result(one, place, has)
                    last = one
        self.nodes.append(_Node(insn, has))
        for access in has.writes:
            for unit in access.units:
                one = writer.get(unit, -1)
                if one >= 0:
                    self._follows(one, place)
                for one in readers.pop(unit, ()):
                    self._follows(one, place)
                writer[unit] = place
        self._memory(insn.op, place)
        for access in has.reads:
            for unit in access.units:
                if unit in readers:
                    readers[unit].append(place)
                else:
                    readers[unit] = [place]

    def _follows(self, one: int, place: int) -> None:
        if one != place:
            self.nodes[one].after.setdefault(place, 1)

    def _follows_result(self, one: int, place: int, has: Effects) -> None:
        before = self.nodes[one]
        cycles = _latency(before.has, before.insn.repeat, has, self.known.generation)
        if before.after.get(place, 0) < cycles:
            before.after[place] = cycles

    def _memory(self, op: str, place: int) -> None:
        space = _SPACES.get(op)
        if space is None:
            return
        for one in self._stores.get(space, ()):
            self._follows(one, place)
        if op.startswith("st"):
            for one in self._loads.get(space, ()):
                self._follows(one, place)
            self._stores.setdefault(space, []).append(place)
        else:
            self._loads.setdefault(space, []).append(place)


def _ordered(part: Sequence[Insn], known: Known) -> list[Insn]:
    if len(part) < 3:
        return list(part)
    graph = _Graph(known)
    for insn in part:
        graph.add(insn)
    nodes = graph.nodes
    for node in reversed(nodes):
        for other, cycles in node.after.items():
            node.height = max(node.height, nodes[other].height + cycles)
            nodes[other].before += 1
    return _listed(nodes)


def _listed(nodes: Sequence[_Node]) -> list[Insn]:
    """Of what may come next, the one that waits least; of these, what most depends on."""
    ready = [place for place, node in enumerate(nodes) if not node.before]
    found, cycle = [], 0
    for _ in nodes:  # the graph has no circle: one is always ready
        best = min((max(0, nodes[p].earliest - cycle), -nodes[p].height, p) for p in ready)[2]
        ready.remove(best)
        node = nodes[best]
        found.append(node.insn)
        cycle = max(cycle, node.earliest)
        for other, cycles in node.after.items():
            later = nodes[other]
            later.earliest = max(later.earliest, cycle + cycles)
            later.before -= 1
            if not later.before:
                ready.append(other)
        cycle += 1 + node.insn.repeat if node.has.is_alu else 0
    return found

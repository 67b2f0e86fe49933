"""Order of ir3 instructions between branches, so that others run while a result is on its way.

Registers are allocated already: an order is kept wherever one instruction needs another's result or
overwrites its operand, and among accesses to one kind of memory of which one writes. Of what may
come next, the one that waits least is taken; of these, the one that most depends on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from compilers.qcom.hazards import DELAYS, ss_result, sy_result
from compilers.qcom.isa.instruction import Insn
from compilers.qcom.isa.operand import Kind
from compilers.qcom.operands import category, reads, writes

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


@dataclass(slots=True)
class _Node:
    """One instruction, with those that must come after it and how many cycles later."""

    insn: Insn
    kind: int
    after: dict[int, int] = field(default_factory=dict)
    before: int = 0
    height: int = 0
    earliest: int = 0


def schedule(code: Sequence[Insn], generation: int) -> list[Insn]:
    """The same instructions in another order. Raises: CompileError."""
    found: list[Insn] = []
    part: list[Insn] = []
    for insn in code:
        if len(part) == WINDOW or not _moves(insn, generation):
            found += _ordered(part, generation)
            part = []
        if _moves(insn, generation):
            part.append(insn)
        else:
            found.append(insn)
    return found + _ordered(part, generation)


def _moves(insn: Insn, generation: int) -> bool:
    if insn.op == "label" or insn.flags & {"ss", "sy", "jp"}:
        return False
    relative = any(
        one is not None and one.kind in (Kind.RELATIVE, Kind.RELATIVE_CONST)
        for one in (insn.dst, *insn.srcs)
    )
    kind = category(insn, generation)
    return not relative and (kind in _PURE or kind == 5 or insn.op in _SPACES)


def _latency(node: _Node, other: _Node, generation: int) -> int:
    """Cycles from one to another that reads its result."""
    if sy_result(node.insn, node.kind):
        return LATENCY_SY
    if ss_result(node.insn, node.kind):
        return LATENCY_SS
    slots = DELAYS[generation]
    return 1 + node.insn.repeat + (slots.alu if other.kind in (1, 2, 3) else slots.other)


def _graph(part: Sequence[Insn], generation: int) -> list[_Node]:
    nodes: list[_Node] = []
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    stores: dict[str, list[int]] = {}
    loads: dict[str, list[int]] = {}
    for place, insn in enumerate(part):
        node = _Node(insn, category(insn, generation))
        nodes.append(node)

        def follows(one: int, cycles: int, place: int = place) -> None:
            after = nodes[one].after
            after[place] = max(after.get(place, 0), cycles)

        read = [unit for access in reads(insn, generation) for unit in access.units]
        written = [unit for access in writes(insn, generation) for unit in access.units]
        for unit in read:
            if unit in writer:
                follows(writer[unit], _latency(nodes[writer[unit]], node, generation))
        for unit in written:
            if unit in writer:
                follows(writer[unit], 1)
            for one in readers.get(unit, ()):
                follows(one, 1)
        space = _SPACES.get(insn.op)
        if space is not None:
            for one in stores.get(space, ()):
                follows(one, 1)
            if insn.op.startswith("st"):
                for one in loads.get(space, ()):
                    follows(one, 1)
                stores.setdefault(space, []).append(place)
            else:
                loads.setdefault(space, []).append(place)
        for unit in written:
            writer[unit] = place
            readers[unit] = []
        for unit in read:
            readers.setdefault(unit, []).append(place)
    return nodes


def _ordered(part: Sequence[Insn], generation: int) -> list[Insn]:
    if len(part) < 3:
        return list(part)
    nodes = _graph(part, generation)
    for node in reversed(nodes):
        node.height = max((nodes[o].height + c for o, c in node.after.items()), default=0)
    for node in nodes:
        for other in node.after:
            nodes[other].before += 1
    ready = [place for place, node in enumerate(nodes) if not node.before]
    found, cycle = [], 0
    for _ in nodes:  # the graph has no circle: one is always ready
        best = min(ready, key=lambda p: (max(0, nodes[p].earliest - cycle), -nodes[p].height, p))
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
        cycle += 1 + node.insn.repeat if node.kind in (1, 2, 3) else 0
    return found

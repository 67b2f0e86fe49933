"""From where to where each virtual register holds a value that is still read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from compilers.qcom.parse import MEMORY, NARROW, Item, Place

_PAIRED: Final = frozenset({"isam", "ldg", "ldga", "stg", "stga"})
"""Their address, or coordinates, are two words."""


class Loops:
    """Where a kernel's loops are: (first item, last item)."""

    def __init__(self, items: Sequence[Item]) -> None:
        labels: dict[str, int] = {}
        found = []
        for at, item in enumerate(items):
            if item.stem == "label":
                labels[item.label] = at
            elif item.stem == "br" and item.label in labels:
                found.append((labels[item.label], at))
        self.all = sorted(found, key=lambda one: one[0] - one[1])
        """Outer ones first."""

    def end(self, start: int, use: int) -> int:
        """Until where a value made at `start` is needed when it is read at `use`: the end of the
        outermost loop around the use that the value comes from outside of."""
        for first, last in self.all:
            if first <= use <= last and not first <= start <= last:
                return last
        return use

    def around(self, first: int, last: int) -> tuple[int, int]:
        """A span that is whole in every loop that it enters or leaves."""
        for top, bottom in self.all:
            inside = top <= first <= bottom, top <= last <= bottom
            crossed = inside[0] != inside[1]
            if crossed:
                first, last = min(first, top), max(last, bottom)
        return first, last

    def outermost(self, at: int) -> tuple[int, int] | None:
        """The largest loop around an item."""
        return next((one for one in self.all if one[0] <= at <= one[1]), None)


@dataclass(slots=True)
class Span:
    """One register: `units` neighbouring halves of words, held from the item `start` on."""

    number: int
    start: int
    end: int
    """The first item that may write to its registers again."""
    last: int = 0
    """The last item that names it."""
    units: int = 1
    """Neighbouring halves of words."""
    whole: bool = False
    """Whether words of it are named: it begins with one."""
    half: bool = False
    """Whether 16 bits of it are named, so that it is among the first 24 vec4."""
    moved: bool = False
    """Whether a load or store names its halves."""
    varies: bool = False
    writes: list[int] = field(default_factory=list)
    uses: int = 0


def spans(items: Sequence[Item], loops: Loops) -> list[Span]:
    """The spans of all registers, by where they begin."""
    found: dict[int, Span] = {}
    nested = _nesting(items)
    for at, item in enumerate(items):
        dst = item.dst
        if item.stem in MEMORY:
            _moved(found, item, at)
            continue
        late = item.stem == "shfl"  # another lane's may be read after this lane's is written
        for src in item.srcs:
            if src.kind in "vm":
                _note(found, src, at, at + late, src.part + 1, half=src.half)
        if dst is not None and dst.kind in "vm":
            count = 2 if item.op == "base" else dst.part + 1
            _note(found, dst, at, at + 1, count, half=dst.half)
            found[dst.number].writes.append(at)
    for span in found.values():
        _stretch(span, loops, nested)
    return sorted(found.values(), key=lambda one: one.start)


def _moved(found: dict[int, Span], item: Item, at: int) -> None:
    """Operands of a load or store, which are read after the next instruction began."""
    narrow = item.kind in NARROW
    last = len(item.srcs) - 1
    for place, src in enumerate(item.srcs):
        if src.kind not in "vm":
            continue
        if item.dst is None and place == last:
            _note(found, src, at, at + 1, item.count, half=narrow)
            found[src.number].moved |= narrow
        else:
            count = 2 if not place and item.stem in _PAIRED else 1
            _note(found, src, at, at + 1, count, half=False)
    if item.dst is not None:
        _note(found, item.dst, at, at + 1, item.count, half=narrow)
        span = found[item.dst.number]
        span.moved |= narrow
        span.writes.append(at)


def _note(found: dict[int, Span], one: Place, at: int, end: int, count: int, *, half: bool) -> None:
    """`count` halves or words of a register are named."""
    span = found.get(one.number)
    if span is None:
        span = found[one.number] = Span(one.number, at, end)
    span.last = at
    if end > span.end:
        span.end = end
    if half:
        span.half = True
    else:
        count *= 2
        span.whole = True
    if count > span.units:
        span.units = count
    if one.kind == "m":
        span.varies = True
    span.uses += 1


def _nesting(items: Sequence[Item]) -> list[int]:
    """How many branches are open at each item."""
    depth, ends, found = 0, set[str](), []
    for item in items:
        if item.stem == "brn":
            depth += 1
            ends.add(item.label)
        elif item.stem == "label" and item.label in ends:
            depth -= 1
        found.append(depth)
    return found


def _stretch(span: Span, loops: Loops, nested: Sequence[int]) -> None:
    """Values that go round a loop are kept in all of it."""
    first, end = loops.around(span.start, span.last)
    if span.varies:
        outer = loops.outermost(first)
        sure = span.writes and span.writes[0] == span.start and _always(span, nested)
        if outer is not None and not sure:
            first, end = min(first, outer[0]), max(end, outer[1])
    if (first, end) != (span.start, span.last):
        span.start, span.end = first, max(end + 1, span.end)


def _always(span: Span, nested: Sequence[int]) -> bool:
    """Whether the first write comes before all else in each turn of the loop around it: it is in no
    branch that others are not in."""
    at = span.writes[0]
    return nested[at] <= min(nested[at : span.last + 1])

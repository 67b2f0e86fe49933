"""From where to where each virtual register holds a value that is still read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from compilers.qcom.parse import MEMORY, Item, Place


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
    """One register: `words` neighbouring words, held from the item `start` on."""

    number: int
    start: int
    end: int
    """The first item that may write to its registers again."""
    last: int = 0
    """The last item that names it."""
    words: int = 1
    half: bool = False
    """Whether 16 bits of it are named, so that it is among the first 24 vec4."""
    varies: bool = False
    writes: list[int] = field(default_factory=list)
    uses: int = 0


def _words(one: Place, item: Item, *, data: bool) -> int:
    if item.stem in MEMORY:
        if data:
            return -(-item.count // 2) if item.kind in ("u8", "u16") else item.count
        if one is item.srcs[0] and item.stem in ("isam", "ldg", "ldga", "stg", "stga"):
            return 2
        return 1
    if item.op == "base":
        return 2
    return one.part // 2 + 1 if one.half else one.part + 1


def spans(items: Sequence[Item], loops: Loops) -> list[Span]:
    """The spans of all registers, by where they begin."""
    found: dict[int, Span] = {}
    nested = _nesting(items)
    for at, item in enumerate(items):
        late = item.stem in MEMORY
        for place, src in enumerate(item.srcs):
            if src.kind in "vm":
                data = late and item.dst is None and place == len(item.srcs) - 1
                _note(found, src, at, at + late, _words(src, item, data=data), item)
        if item.dst is not None and item.dst.kind in "vm":
            _note(found, item.dst, at, at + 1, _words(item.dst, item, data=late), item)
            found[item.dst.number].writes.append(at)
    for span in found.values():
        _stretch(span, loops, nested)
    return sorted(found.values(), key=lambda one: one.start)


def _note(found: dict[int, Span], one: Place, at: int, end: int, words: int, item: Item) -> None:
    span = found.get(one.number)
    if span is None:
        span = found[one.number] = Span(one.number, at, end)
    span.end, span.last = max(span.end, end), at
    span.words = max(span.words, words)
    span.half |= one.half or (item.stem in MEMORY and item.kind in ("u8", "u16") and words > 0
                              and _is_data(one, item))  # fmt: skip
    span.varies |= one.kind == "m"
    span.uses += 1


def _is_data(one: Place, item: Item) -> bool:
    return one is item.dst or (item.dst is None and one is item.srcs[-1])


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

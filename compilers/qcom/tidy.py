"""Copies that nothing needs, results that nobody reads, comparisons that branches can take."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from typing import Final

from compilers.qcom.parse import MEMORY, Code, Item, Place
from compilers.qcom.spans import Loops

_EFFECT: Final = frozenset({"label", "br", "brn", "fence", "bar", "end", "stg", "stga", "stl",
                            "stp"})  # fmt: skip

_PARTS: Final = 4
"""Words of the widest register."""


def tidy(code: Code) -> None:
    """Change a kernel's items in place of copies."""
    _order_head(code)
    _drop_unread(code)
    _forward(code)
    _drop_overwritten(code)
    _merge(code)
    _chain(code)
    _compare_and_branch(code)
    _drop_unread(code)


def _order_head(code: Code) -> None:
    """The lane's number comes in r0.x, and is taken first."""
    first = [one for one in code.items if one.srcs and one.srcs[0].kind == "r"]
    rest = [one for one in code.items if not (one.srcs and one.srcs[0].kind == "r")]
    code.items = [*first, *rest]


def _forward(code: Code) -> None:
    """Uses of a copy are uses of what it copies, where that is still the same."""
    loops = Loops(code.items)
    written: dict[int, list[int]] = defaultdict(list)
    last: dict[int, int] = {}
    born: dict[int, int] = {}
    for at, item in enumerate(code.items):
        if item.dst is not None and item.dst.kind in "vm":
            written[item.dst.number].append(at)
            born.setdefault(item.dst.number, at)
        for src in item.srcs:
            if src.kind in "vm":
                start = born.get(src.number, at)
                last[src.number] = max(last.get(src.number, 0), loops.end(start, at))
    same: dict[int, Place] = {}
    kept: list[Item] = []
    held = _Held()
    for at, item in enumerate(code.items):
        item.srcs = [_followed(src, same) for src in item.srcs]
        source = held.source(item)
        dst = item.dst
        if source is None or dst is None or len(written[dst.number]) > 1:
            kept.append(item)
            continue
        end = last.get(dst.number, at)
        if source.kind == "m" and any(at < one < end for one in written[source.number]):
            kept.append(item)
        else:
            same[dst.number] = source
    code.items = kept


class _Held:
    """What registers that are written often hold, in a stretch without branches."""

    def __init__(self) -> None:
        self._values: dict[int, Place] = {}

    def source(self, item: Item) -> Place | None:
        """What `mov v ...` copies, as far back as it is known; None of others."""
        dst = item.dst
        if item.stem in ("label", "br", "brn"):
            self._values.clear()
        if dst is None or dst.kind not in "vm":
            return None
        source = item.srcs[0] if item.op == "mov" else None
        plain = source is not None and source.half == dst.half and not dst.part
        if dst.kind == "m":
            self._values.pop(dst.number, None)
            if source is not None and plain and source.kind == "v" and not dst.half:
                self._values[dst.number] = source
            return None
        if source is None or not plain or source.kind not in "vm":
            return None
        if source.kind == "m" and not source.part:
            return self._values.get(source.number, source)
        return source


def _followed(src: Place, same: dict[int, Place]) -> Place:
    return same.get(src.number, src) if src.kind == "v" else src


def _drop_overwritten(code: Code) -> None:
    """From the end: what is written again before it is read, in a stretch without branches."""
    again: set[tuple[int, int]] = set()
    kept: list[Item] = []
    for item in reversed(code.items):
        dst = item.dst
        if item.stem in ("label", "br", "brn", "end"):
            again.clear()
        elif dst is not None and dst.kind == "m" and not dst.half and item.stem not in MEMORY:
            if (dst.number, dst.part) in again:
                continue
            again.add((dst.number, dst.part))
        for src in item.srcs:
            if src.kind == "m":
                again -= {(src.number, part) for part in range(_PARTS)}
        kept.append(item)
    code.items = kept[::-1]


def _merge(code: Code) -> None:
    """`mov m v` of a value made just for it: it is made there."""
    reads = Counter(src.number for item in code.items for src in item.srcs if src.kind in "vm")
    made: dict[int, int] = {}
    touched: dict[tuple[int, int], int] = {}
    dropped: set[int] = set()
    for at, item in enumerate(code.items):
        if item.stem in ("label", "br", "brn"):
            made.clear()
        dst = item.dst
        if item.op == "mov" and dst is not None and dst.kind == "m" and _mergeable(item, reads):
            origin = made.get(item.srcs[0].number)
            if origin is not None and touched.get((dst.number, dst.part), -1) <= origin:
                code.items[origin].dst = dst
                dropped.add(at)
                touched[dst.number, dst.part] = at
                continue
        for one in item.srcs:
            _touch(touched, one, at, item)
        if dst is not None:
            _touch(touched, dst, at, item)
            if dst.kind == "v" and item.stem not in MEMORY and item.op != "base":
                made[dst.number] = at
    code.items = [item for at, item in enumerate(code.items) if at not in dropped]


def _mergeable(item: Item, reads: Counter[int]) -> bool:
    source = item.srcs[0]
    same = source.half == (item.dst is not None and item.dst.half)
    return source.kind == "v" and not source.part and same and reads[source.number] == 1


def _touch(touched: dict[tuple[int, int], int], one: Place, at: int, item: Item) -> None:
    if one.kind != "m":
        return
    if item.stem in MEMORY:
        for part in range(_PARTS):
            touched[one.number, part] = at
    else:
        touched[one.number, one.part] = at


def _chain(code: Code) -> None:
    """A sum that goes through steps is in its own register in all of them."""
    reads = Counter(src.number for item in code.items for src in item.srcs if src.kind in "vm")
    made, touches = _places(code)
    for end in range(len(code.items) - 1, -1, -1):
        target = code.items[end].dst
        if target is None or target.kind != "m":
            continue
        key, at = (target.number, target.part), end
        for _ in range(end + 1):  # each step goes back
            if target in code.items[at].srcs:
                break
            step = _step(code.items[at], made, reads, touches[key], at, half=target.half)
            if step is None:
                break
            place, origin = step
            code.items[at].srcs[place] = target
            code.items[origin].dst = target
            insort(touches[key], origin)
            at = origin


def _step(
    item: Item,
    made: dict[int, tuple[int, int]],
    reads: Counter[int],
    touches: list[int],
    at: int,
    *,
    half: bool,
) -> tuple[int, int] | None:
    """Which source was made for this item alone, and where; nothing names the sum in between."""
    if item.op in ("mov", "base"):
        return None
    block = made[-1 - at][0]
    for place, src in reversed(list(enumerate(item.srcs))):
        if src.kind != "v" or src.part or src.half != half or reads[src.number] != 1:
            continue
        found = made.get(src.number)
        if found is not None and found[0] == block:
            origin = found[1]
            if bisect_left(touches, at) == bisect_right(touches, origin):
                return place, origin
    return None


def _places(
    code: Code,
) -> tuple[dict[int, tuple[int, int]], dict[tuple[int, int], list[int]]]:
    """Where values are made, (block, item), and where sums are named. The key -1 - n has the block
    of item n."""
    made: dict[int, tuple[int, int]] = {}
    touches: dict[tuple[int, int], list[int]] = defaultdict(list)
    block = 0
    for at, item in enumerate(code.items):
        block += item.stem in ("label", "br", "brn")
        made[-1 - at] = block, at
        latest: dict[tuple[int, int], int] = {}
        for one in item.srcs if item.dst is None else (*item.srcs, item.dst):
            _touch(latest, one, at, item)
        for key in latest:
            touches[key].append(at)
        dst = item.dst
        if dst is not None and dst.kind == "v" and item.stem not in MEMORY and item.op != "base":
            made[dst.number] = block, at
    return made, touches


def _compare_and_branch(code: Code) -> None:
    """A branch takes the comparison that its condition is, where that was made just before."""
    reads = Counter(src.number for item in code.items for src in item.srcs if src.kind in "vm")
    made: dict[int, int] = {}
    dropped: set[int] = set()
    for at, item in enumerate(code.items):
        if item.stem in ("label", "br", "brn"):
            made.clear()
            continue
        dst = item.dst
        if dst is None:
            continue
        if dst.kind == "p" and item.op == "cmps.s.ne" and item.srcs[1] == Place("k", 0):
            source = item.srcs[0]
            origin = made.get(source.number, -1) if source.kind == "v" else -1
            if origin >= 0 and reads[source.number] == 1 and not _rewritten(code, origin, at):
                found = code.items[origin]
                item.op, item.srcs = found.op, found.srcs
                dropped.add(origin)
        elif dst.kind == "v" and item.stem == "cmps":
            made[dst.number] = at
        elif dst.kind == "v":
            made.pop(dst.number, None)
    code.items = [item for at, item in enumerate(code.items) if at not in dropped]


def _rewritten(code: Code, origin: int, at: int) -> bool:
    """Whether a source of a comparison is written between it and the branch."""
    sources = {src.number for src in code.items[origin].srcs if src.kind == "m"}
    between = code.items[origin + 1 : at]
    return any(one.dst is not None and one.dst.number in sources for one in between)


def _drop_unread(code: Code) -> None:
    """From the end: what is not read is not made, nor what that alone reads."""
    reads = Counter(src.number for item in code.items for src in item.srcs if src.kind in "vm")
    kept: list[Item] = []
    for item in reversed(code.items):
        dst = item.dst
        if dst is not None and dst.kind in "vm" and not reads[dst.number]:
            for src in item.srcs:
                if src.kind in "vm":
                    reads[src.number] -= 1
            continue
        kept.append(item)
    code.items = kept[::-1]

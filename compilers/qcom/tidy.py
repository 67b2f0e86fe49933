"""Copies that nothing needs, results that nobody reads, comparisons that branches can take."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from compilers.qcom.parse import MEMORY, Code, Item, Place
from compilers.qcom.spans import Loops

_EFFECT: Final = frozenset({"label", "br", "brn", "fence", "bar", "end", "stg", "stga", "stl",
                            "stp"})  # fmt: skip


def tidy(code: Code) -> None:
    """Change a kernel's items in place of copies."""
    _order_head(code)
    _forward(code)
    _merge(code)
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
    for at, item in enumerate(code.items):
        item.srcs = [_followed(src, same) for src in item.srcs]
        dst = item.dst
        if item.op != "mov" or dst is None or dst.kind != "v" or dst.part:
            kept.append(item)
            continue
        source, end = item.srcs[0], last.get(dst.number, at)
        changed = source.kind == "m" and any(at < one < end for one in written[source.number])
        if source.kind not in "vm" or changed or source.half or len(written[dst.number]) > 1:
            kept.append(item)
            continue
        same[dst.number] = source
    code.items = kept


def _followed(src: Place, same: dict[int, Place]) -> Place:
    return same.get(src.number, src) if src.kind == "v" else src


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
    return source.kind == "v" and not source.part and not source.half and reads[source.number] == 1


def _touch(touched: dict[tuple[int, int], int], one: Place, at: int, item: Item) -> None:
    if one.kind != "m":
        return
    if item.stem in MEMORY or one.half:
        for part in range(4):
            touched[one.number, part] = at
    else:
        touched[one.number, one.part] = at


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

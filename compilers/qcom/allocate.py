"""Registers of one kernel: a linear scan over spans, and private memory for what does not fit."""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import Final

from compilers.qcom.parse import MEMORY, Code, Item, Place
from compilers.qcom.spans import Loops, Span, spans
from drivers.base.errors import CompileError

HALF_UNITS: Final = 192
"""Halves that have numbers: hr0.x ... hr47.w. # src: Mesa 25.0.7, ir3.h, merged file"""
WORD_BYTES: Final = 4
MAX_ROUNDS: Final = 24


_EVEN: Final = sum(1 << place for place in range(0, 2 * HALF_UNITS, 2))
"""Units that words begin with."""


def _words(span: Span) -> int:
    return -(-span.units // 2)


class Allocation:
    """Where each virtual register is, once it runs."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.units = 8 * code.registers
        self.places: dict[int, int] = {}
        """In halves of words."""
        self.private_bytes = 0
        self._zero: Place | None = None
        """A register that is 0, for addresses of private memory."""
        self._slots: dict[int, int] = {}
        self._short: set[int] = set()
        """Registers that live from one item to the next: they stay."""

    def run(self) -> None:
        """Allocate; change the items where registers are in private memory.

        Raises: CompileError when nothing helps.
        """
        for _ in range(MAX_ROUNDS):
            found = spans(self.code.items, Loops(self.code.items))
            spilled = self._scan(found)
            if not spilled:
                return
            self._spill({one.number: one for one in spilled})
        raise CompileError("ir3: a kernel needs more registers than there are", log="", source="")

    def _scan(self, found: list[Span]) -> list[Span]:
        """One pass; the spans that had no room."""
        self.places.clear()
        free, spilled = (1 << self.units) - 1, list[Span]()
        active: dict[int, Span] = {}
        ends: list[tuple[int, int]] = []
        for span in found:
            for _ in range(len(ends)):
                if ends[0][0] > span.start:
                    break
                _, number = heapq.heappop(ends)
                if number in active:
                    free |= self._mask(active.pop(number))
            place = self._room(free, span)
            for _ in range(len(active) + 1):  # each takes one away, the span itself at the latest
                if place is not None:
                    break
                victim = self._victim(active, span)
                spilled.append(victim)
                if victim is span:
                    break
                free |= self._mask(active.pop(victim.number))
                place = self._room(free, span)
            if place is None:
                continue
            self.places[span.number] = place
            active[span.number] = span
            heapq.heappush(ends, (span.end, span.number))
            free &= ~self._mask(span)
        return spilled

    def _mask(self, span: Span) -> int:
        return ((1 << span.units) - 1) << self.places[span.number]

    def _room(self, free: int, span: Span) -> int | None:
        """The lowest place of so many neighbouring halves."""
        if span.half:
            free &= (1 << HALF_UNITS) - 1
        fits, known = free, 1
        for _ in range(span.units.bit_length()):
            step = min(known, span.units - known)
            fits &= fits >> step
            known += step
        if span.whole:
            fits &= _EVEN
        return (fits & -fits).bit_length() - 1 if fits else None

    def _victim(self, active: dict[int, Span], span: Span) -> Span:
        """What is longest there for how often it is named. What halves are put together in lives
        for one store, and stays."""
        able = [one for one in (*active.values(), span)
                if one.number not in self._short and not (one.moved and one.varies)]  # fmt: skip
        if span.half:
            able = [one for one in able
                    if one is span or self.places[one.number] < HALF_UNITS]  # fmt: skip
        if not able:
            raise CompileError("ir3: one instruction has no registers", log="", source="")
        return max(able, key=lambda one: (one.end - one.start) / (one.uses + 1))

    # private memory

    def _spill(self, victims: dict[int, Span]) -> None:
        again = self._again(victims)
        if len(again) < len(victims) and self._zero is None:
            self._zero = Place("v", self._name())
            self.code.items.insert(self._first(), Item("mov", "mov", self._zero, [Place("k", 0)]))
        for number, span in victims.items():
            if number not in again:
                self._slots[number] = self.private_bytes
                self.private_bytes += _words(span) * WORD_BYTES
        items: list[Item] = []
        for item in self.code.items:
            dst = item.dst
            if dst is not None and dst.number in again and dst.kind == "v":
                continue
            self._reload(items, item, victims, again)
        self.code.items = items

    def _first(self) -> int:
        """After what takes the lane's number from r0.x."""
        return sum(bool(one.srcs and one.srcs[0].kind == "r") for one in self.code.items)

    def _again(self, victims: dict[int, Span]) -> dict[int, Item]:
        """Constants, which are made again where they are used."""
        found = {}
        for item in self.code.items:
            dst = item.dst
            if dst is not None and dst.kind == "v" and dst.number in victims:
                constant = item.srcs and item.srcs[0].kind in "kc"
                if item.op in ("mov", "base") and constant:
                    found[dst.number] = item
        return found

    def _name(self) -> int:
        self.code.names += 1
        name = self.code.names - 1
        self._short.add(name)
        return name

    def _reload(
        self, items: list[Item], item: Item, victims: dict[int, Span], again: dict[int, Item]
    ) -> None:
        """An item with its spilled registers loaded before it, and stored after it."""
        fresh: dict[tuple[int, int], Place] = {}
        whole = item.stem in MEMORY
        srcs = []
        for src in item.srcs:
            if src.kind in "vm" and src.number in victims:
                span = victims[src.number]
                srcs.append(self._loaded(items, src, span, again, fresh, whole=whole))
            else:
                srcs.append(src)
        item.srcs = srcs
        items.append(item)
        dst = item.dst
        if dst is not None and dst.kind in "vm" and dst.number in victims:
            self._stored(items, item, victims[dst.number])

    def _loaded(
        self, items: list[Item], src: Place, span: Span, again: dict[int, Item],
        fresh: dict[tuple[int, int], Place], *, whole: bool,
    ) -> Place:  # fmt: skip
        made = again.get(src.number)
        alone = not whole and not src.half and made is None
        key = src.number, src.part if alone else -1
        if key not in fresh:
            fresh[key] = Place("v", self._name())
            if made is not None:
                half = made.dst is not None and made.dst.half
                items.append(replace(made, dst=fresh[key]._replace(half=half)))
            else:
                at = self._slots[src.number] + (src.part * WORD_BYTES if alone else 0)
                if span.half and not span.moved:
                    items.append(self._load(fresh[key], at, 1, "u16"))
                else:
                    items.append(self._load(fresh[key], at, 1 if alone else _words(span)))
        return fresh[key] if alone else src._replace(kind="v", number=fresh[key].number)

    def _zero_register(self) -> Place:
        if self._zero is None:
            raise CompileError("ir3: private memory without an address", log="", source="")
        return self._zero

    def _load(self, to: Place, at: int, count: int, kind: str = "u32") -> Item:
        return Item(f"ldp.{kind}", "ldp", to, [self._zero_register()], [at, count])

    def _store(self, data: Place, at: int, count: int, kind: str = "u32") -> Item:
        return Item(f"stp.{kind}", "stp", None, [self._zero_register(), data], [at, count])

    def _stored(self, items: list[Item], item: Item, span: Span) -> None:
        """The result of an item to its slot; of a part alone, that part."""
        if item.dst is None:
            return
        fresh, slot = Place("m", self._name()), self._slots[span.number]
        whole = item.stem in MEMORY or item.op == "base"
        if whole:
            item.dst = fresh
            items.append(self._store(fresh, slot, _words(span)))
        elif item.dst.half:
            item.dst = fresh._replace(half=True)
            items.append(self._store(fresh, slot, 1, "u16"))
        else:
            at = slot + item.dst.part * WORD_BYTES
            item.dst = fresh
            items.append(self._store(fresh, at, 1))

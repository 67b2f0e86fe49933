"""The search of one leaf: flips, measured units, and words that disagree with their product.

A leaf starts as one word. Each of its bits is flipped; bits that lead to another class of the tool
split the leaf. The others become units, each is measured alone, and random words of several
units at once are compared with the product of what was measured. For a word that disagrees, the
units are found that are needed for it: they become one unit, or one of them splits the leaf.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

from tests.sass.leaf import Leaf, Unit, grouped, merged, name_of
from tests.sass.measure import distance, tokens
from tests.sass.node import Node, Split
from tests.sass.oracle import Answer, Questions
from tests.sass.plan import Bits, Step, value_of, with_value

BITS = (*range(16, 105), *range(110, 116), *range(122, 125))
ROUNDS = 16
TESTS = 120
LAST_TESTS = 240
CHANGED = (2, 2, 3, 3, 4, 6)
EDGES = 0.4
LOOKED_AT = 16
ALTERNATIVES = 3
NARROW_BITS = 4
MERGED_BITS = 6
REFUSED_BITS = 9
BUSY = 3
ODD_VALUES = 48
_NUMBER = re.compile(r"-?(?:0x[0-9a-f]+|(?<=[ ,])\d+(?:\.\d+)?(?:e[+-]?\d+)?|(?<=R)\d+)")

Asked: TypeAlias = Generator[Sequence[int], list[Answer], bool]


class Trunk(Protocol):
    """What a leaf knows of the search of its opcode."""

    opcode: int
    notes: list[str]
    extra: list[int]

    def split(self, leaf: Leaf, node: Node, split: Split, hint: Sequence[Bits]) -> None:
        """Put a split in a leaf's place, and search each way."""


class Growth:
    """The search of one leaf."""

    def __init__(
        self, of: Trunk, node: Node, steps: tuple[Step, ...], word: int, hint: Sequence[Bits]
    ) -> None:
        self.of, self.node, self.steps, self.word, self.hint = of, node, steps, word, hint
        self.random = random.Random(word)
        fixed = {
            bit for step in steps if step.values and len(step.values) == 1 for bit in step.bits
        }
        self.last = word
        self.free = [bit for bit in BITS if bit not in fixed]

    def grow(self) -> Questions:
        """Flip, measure, compare; until nothing differs."""
        first, *flips = yield [self.word, *(self.word ^ 1 << bit for bit in self.free)]
        if not first.legal:
            return
        base = tokens(distance(first.text))
        leaf = Leaf(self.of.opcode, self.steps, self.word, first.name, base)
        if not leaf.line.takes(self.word):
            self._note(f"{self.word:032x} is not of it")
            return
        self.leaf = self.node.leaf = leaf
        pairs = list(zip(self.free, flips, strict=True))
        inside = [(bit, a) for bit, a in pairs if leaf.line.takes(self.word ^ 1 << bit)]
        crossing = [bit for bit, a in inside if a.legal and a.name != first.name]
        if crossing:
            yield from self._cross(crossing, dict(inside))
            return
        groups = [bits for bits in self.hint if all(bit in self.free for bit in bits)]
        kept = {bit for bits in groups for bit in bits}
        groups += grouped(base, [(bit, a) for bit, a in pairs if bit not in kept])
        leaf.units = [Unit(bits) for bits in sorted(groups)]
        for turn in range(ROUNDS):
            done = yield from self._turn(turn)
            if done:
                return
        self._note(f"{ROUNDS} rounds, last {self.last:032x}")

    def _note(self, why: str) -> None:
        path = " ".join(f"{step.name}={step.values or 'else'}" for step in self.steps)
        self.of.notes.append(f"{self.of.opcode:03x} {path}: {why}")

    def _divide(self, split: Split) -> None:
        hint = [unit.bits for unit in self.leaf.units if len(unit.bits) > 1]
        self.of.split(self.leaf, self.node, split, hint)

    def _cross(self, crossing: list[int], flips: dict[int, Answer]) -> Questions:
        """Bits whose flip leads to another class: split on the first neighbours of them."""
        bits = [crossing[0]]
        while bits[-1] + 1 in crossing:
            bits.append(bits[-1] + 1)
        field_bits = tuple(bits)
        other = self.word ^ 1 << bits[0]
        if len(bits) > NARROW_BITS and len({flips[bit].name for bit in bits}) == 1:
            own = value_of(self.word, field_bits)
            self._divide(Split(field_bits, (((own,), self.word),), other))
            return
        field_bits = field_bits[:NARROW_BITS]
        words = [with_value(self.word, field_bits, n) for n in range(1 << len(field_bits))]
        answers = yield words
        self._by_class(field_bits, list(enumerate(answers)), self.word)

    def _by_class(self, bits: Bits, heard: list[tuple[int, Answer]], word: int) -> None:
        """Split on bits whose values have several classes; the most frequent one is the rest."""
        line = self.leaf.line
        legal = [(n, a) for n, a in heard if a.legal and line.takes(with_value(word, bits, n))]
        if not legal:
            self._note(f"bits {name_of(bits)}: nothing legal")
            return
        rest = Counter(a.name for _, a in legal).most_common(1)[0][0]
        names = dict.fromkeys(a.name for _, a in legal if a.name != rest)
        ways = []
        for name in names:
            values = tuple(n for n, a in legal if a.name == name)
            ways.append((values, with_value(word, bits, values[0])))
        first = next(n for n, a in legal if a.name == rest)
        own = value_of(word, bits)
        keep = next((n for n, a in legal if n == own and a.name == rest), first)
        self._divide(Split(bits, tuple(ways), with_value(word, bits, keep)))

    def _turn(self, turn: int) -> Asked:
        """Measure what is new, then compare; True where the leaf is done or was split."""
        leaf = self.leaf
        new = [unit for unit in leaf.units if not unit.heard]
        line = leaf.line
        asked = [(unit, value) for unit in new for value in unit.asked(line)]
        answers = yield [with_value(leaf.word, unit.bits, value) for unit, value in asked]
        for (unit, value), answer in zip(asked, answers, strict=True):
            unit.heard[value] = answer
        for unit in new:
            if any(a.legal and a.name != leaf.name for a in unit.heard.values()):
                self._by_class(unit.bits, sorted(unit.heard.items()), leaf.word)
                return True
            if not unit.learn(leaf.base):
                return self._outliers(unit)
        overlap = leaf.overlap()
        if overlap:
            return self._apart(*overlap)
        last = turn > 0 and not new
        words = self._words(LAST_TESTS if last else TESTS)
        if last:
            words += [word for word in self.of.extra if line.takes(word)]
        answers = yield words
        wrong = [w for w, a in zip(words, answers, strict=True) if not leaf.agrees(w, a)]
        if wrong:
            self.last = wrong[0]
            return (yield from self._learn(wrong[:LOOKED_AT]))
        return last

    def _words(self, count: int) -> list[int]:
        """Words of the leaf with a few units changed."""
        units, line, out = self.leaf.units, self.leaf.line, []
        for _ in range(count):
            word = self.leaf.word
            chosen = self.random.sample(units, min(len(units), self.random.choice(CHANGED)))
            for unit in chosen:
                word = with_value(word, unit.bits, self._value(unit))
            if line.takes(word):
                out.append(word)
        return out

    def _value(self, unit: Unit) -> int:
        count = len(unit.bits)
        if self.random.random() < EDGES:
            return self.random.choice((0, (1 << count) - 1, 1 << self.random.randrange(count)))
        return self.random.getrandbits(count)

    def _outliers(self, unit: Unit) -> bool:
        """A wide unit whose text is no number: its edges may be the reason."""
        line = self.leaf.line
        shapes = {n: _shape(a.text) for n, a in unit.heard.items() if a.legal}
        usual = Counter(shapes.values()).most_common(1)[0][0]
        odd = [n for n, shape in shapes.items() if shape != usual]
        if 0 < len(odd) <= ODD_VALUES:
            first = next(n for n, shape in shapes.items() if shape == usual)
            own = value_of(self.word, unit.bits)
            keep = first if own in odd else own
            ways = []
            for shape in dict.fromkeys(shapes[n] for n in odd):
                values = tuple(n for n in odd if shapes[n] == shape)
                ways.append((values, with_value(self.word, unit.bits, values[0])))
            rest = with_value(self.word, unit.bits, keep)
            self._divide(Split(unit.bits, tuple(ways), rest if line.takes(rest) else None))
            return True
        if len(unit.bits) > 1:
            middle = len(unit.bits) // 2
            place = self.leaf.units.index(unit)
            halves = [Unit(unit.bits[:middle]), Unit(unit.bits[middle:])]
            self.leaf.units[place : place + 1] = halves
            return False
        self._note(f"bits {unit.name}")
        return True

    def _special(self, unit: Unit, value: int, word: int | None = None) -> None:
        """Split: one value of a unit, and the rest."""
        word = with_value(self.leaf.word, unit.bits, value) if word is None else word
        self._divide(Split(unit.bits, (((value,), word),), self.leaf.word))

    def _apart(self, one: Unit, other: Unit) -> bool:
        """Two units print one part: together, or the value apart that reaches out."""
        if len(one.bits) + len(other.bits) <= MERGED_BITS:
            self._merge([one, other])
            return False
        for unit in (one, other):
            for value in (0, (1 << len(unit.bits)) - 1):
                heard = {n: a for n, a in unit.heard.items() if n != value}
                rest = Unit(unit.bits, heard)
                if value not in unit.heard or value == value_of(self.word, unit.bits):
                    continue
                rest.learn(self.leaf.base)
                left = [rest if u is unit else u for u in (one, other)]
                if not replace(self.leaf, units=left).overlap():
                    self._special(unit, value)
                    return True
        small = min((one, other), key=lambda unit: len(unit.bits))
        if len(small.bits) <= NARROW_BITS:
            return self._each(small)
        if len(one.bits) + len(other.bits) <= REFUSED_BITS:
            self._merge([one, other])
            return False
        self._note(f"{one.name} over {other.name}")
        return True

    def _each(self, unit: Unit) -> bool:
        """Split: every legal value of a narrow unit by itself."""
        own = value_of(self.leaf.word, unit.bits)
        ways = tuple(
            ((n,), with_value(self.leaf.word, unit.bits, n))
            for n, a in sorted(unit.heard.items())
            if a.legal and n != own
        )
        self._divide(Split(unit.bits, ways, self.leaf.word))
        return True

    def _merge(self, units: Sequence[Unit]) -> None:
        place = min(self.leaf.units.index(unit) for unit in units)
        left = [unit for unit in self.leaf.units if unit not in units]
        self.leaf.units = [*left[:place], merged(units), *left[place:]]

    def _learn(self, wrong: list[int]) -> Asked:
        """Which units each wrong word needs, whether their values are special; then act."""
        leaf = self.leaf
        tries = []
        for word in wrong:
            for unit in leaf.units:
                own = value_of(leaf.word, unit.bits)
                if value_of(word, unit.bits) != own:
                    tries.append((word, unit, with_value(word, unit.bits, own)))
        answers = yield [made for _, _, made in tries]
        needed: dict[int, list[Unit]] = {word: [] for word in wrong}
        for (word, unit, made), answer in zip(tries, answers, strict=True):
            if leaf.agrees(made, answer):
                needed[word].append(unit)
        cases = []
        for units in needed.values():
            if units and units not in cases:
                cases.append(units)
        examples = [next(w for w, units in needed.items() if units == case) for case in cases]
        reduced = [self._reduced(w, case) for w, case in zip(examples, cases, strict=True)]
        questions = []
        for word, case in zip(reduced, cases, strict=True):
            for unit in case:
                for _ in range(ALTERNATIVES):
                    value = self.random.getrandbits(len(unit.bits))
                    questions.append(with_value(word, unit.bits, value))
        answers = yield [*reduced, *questions]
        told = answers[: len(reduced)]
        agreed = iter(
            leaf.agrees(w, a) for w, a in zip(questions, answers[len(reduced) :], strict=True)
        )
        special = [[all(next(agreed) for _ in range(ALTERNATIVES)) for _ in c] for c in cases]
        return self._act(cases, reduced, told, special)

    def _reduced(self, word: int, units: Sequence[Unit]) -> int:
        out = self.leaf.word
        for unit in units:
            out = with_value(out, unit.bits, value_of(word, unit.bits))
        return out

    def _act(
        self,
        cases: list[list[Unit]],
        words: list[int],
        told: list[Answer],
        special: list[list[bool]],
    ) -> bool:
        """Change the order, make units one, or split the leaf."""
        leaf = self.leaf
        busy = Counter(id(unit) for case in cases for unit in case)
        rows = sorted(zip(cases, words, told, special, strict=True), key=lambda row: len(row[0]))
        joined: set[int] = set()
        for case, word, answer, marks in rows:
            if leaf.agrees(word, answer) or any(id(unit) in joined for unit in case):
                continue
            if len(case) == 2 and self._swap(case, word, answer):
                joined |= {id(unit) for unit in case}
                continue
            width = sum(len(unit.bits) for unit in case)
            other = answer.legal and answer.name != leaf.name
            calm = all(busy[id(unit)] < BUSY for unit in case)
            silent = not answer.legal or leaf.predict(word) is None
            room = REFUSED_BITS if silent else MERGED_BITS
            if len(case) > 1 and not other and width <= room and (calm or width <= NARROW_BITS):
                self._merge(case)
                joined |= {id(unit) for unit in case}
                continue
            if not joined:
                return self._choose(case, word, answer, marks, busy)
        return False

    def _swap(self, case: list[Unit], word: int, answer: Answer) -> bool:
        units = self.leaf.units
        first, second = (units.index(unit) for unit in case)
        units[first], units[second] = units[second], units[first]
        if self.leaf.agrees(word, answer):
            return True
        units[first], units[second] = units[second], units[first]
        return False

    def _choose(
        self, case: list[Unit], word: int, answer: Answer, marks: list[bool], busy: Counter[int]
    ) -> bool:
        """Split on the unit of a case that explains most."""
        fit = [u for u, mark in zip(case, marks, strict=True) if mark or len(u.bits) <= NARROW_BITS]
        if not fit:
            bits = " ".join(unit.name for unit in case)
            self._note(f"{bits} at {word:032x}")
            return True
        chosen = max(fit, key=lambda u: (busy[id(u)], len(u.bits) <= NARROW_BITS, -len(u.bits)))
        value = value_of(word, chosen.bits)
        heard = chosen.heard.get(value)
        whole = heard is None or not heard.legal or len(case) == 1
        self._special(chosen, value, word if whole and answer.legal else None)
        return True


def _shape(text: str) -> str:
    """A line without its numbers."""
    return _NUMBER.sub("#", text)

"""The search for the forms of opcodes: lines of a plan from nvdisasm's answers alone."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from tests.sass.growth import BITS, Growth
from tests.sass.leaf import Leaf, name_of
from tests.sass.node import Node, Split
from tests.sass.oracle import Answer, Questions, run
from tests.sass.plan import Bits, Line, Step

# src: Mesa sm70_encode.rs: stall 2, yield bit, no barriers, guard PT: legal in every class
CONTROL = 0x000FE4 << 104
GUARD = 7 << 12
CONTROL_MASK = ((1 << 24) - 1) << 104
STALL_MASK = ((1 << 5) - 1) << 105
KEPT_MASK = 0xFFFF
FIRST_SEEDS = 64
SEEDS = 160
DENSITIES = (0.0, 0.02, 0.1, 0.3, 0.5, 0.5, 0.5)
CANDIDATES = 6
DENSE = 32
KNOWN = 60
FLIPS = 4
MOST_LEAVES = 120


class Opcode:
    """The search of one opcode. ``queue`` takes the searches of the leaves that splits make."""

    def __init__(self, opcode: int, seeds: Collection[int], queue: list[Questions]) -> None:
        self.opcode = opcode
        self.seeds = list(seeds)
        self.queue = queue
        self.random = random.Random(opcode)
        self.root = Node()
        self.extra: list[int] = []
        self.notes: list[str] = []
        self.count = 0

    def _drawn(self) -> int:
        density = self.random.choice(DENSITIES)
        word = self.opcode | GUARD | CONTROL
        for bit in range(16, 104):
            word |= (self.random.random() < density) << bit
        return word

    def start(self) -> Questions:
        """Find a word of the opcode that shows much, and grow the tree from it."""
        words = [word & ~CONTROL_MASK | CONTROL for word in map(self._guarded, self.seeds)]
        legal: list[tuple[int, Answer]] = []
        for count in (FIRST_SEEDS, SEEDS):
            words += [self._drawn() for _ in range(count)]
            answers = yield words
            legal += [(w, a) for w, a in zip(words, answers, strict=True) if a.legal]
            words = []
        if not legal:
            return
        common = Counter(answer.name for _, answer in legal).most_common(1)[0][0]
        usual = [word for word, answer in legal if answer.name == common]
        usual = [word for word in usual if (word & ~CONTROL_MASK).bit_count() > DENSE] or usual
        chosen = self.random.sample(usual, min(CANDIDATES, len(usual)))
        flips = [[word ^ 1 << bit for bit in range(16, 104)] for word in chosen]
        answers = yield [*chosen, *(word for each in flips for word in each)]
        best = max(range(len(chosen)), key=lambda n: self._shown(answers, n, len(chosen)))
        self.extra = [word for word, _ in legal]
        self.extra += self._flipped()
        self._sow(self.root, (), chosen[best], ())

    def _guarded(self, word: int) -> int:
        return word & ~KEPT_MASK | self.opcode | GUARD

    def _flipped(self) -> list[int]:
        """Known words and flips of them, all with a stall that every class takes."""
        known = self.random.sample(self.seeds, min(KNOWN, len(self.seeds)))
        words = [self._guarded(word & ~STALL_MASK | CONTROL & STALL_MASK) for word in known]
        words += [word ^ 1 << self.random.choice(BITS) for word in words for _ in range(FLIPS)]
        return list(dict.fromkeys(words))

    @staticmethod
    def _shown(answers: list[Answer], place: int, count: int) -> int:
        """How many flips of a candidate change its text and not its class."""
        own = answers[place]
        width = (len(answers) - count) // count
        flips = answers[count + place * width : count + (place + 1) * width]
        return sum(a.legal and a.name == own.name and a.text != own.text for a in flips)

    def _sow(self, node: Node, steps: tuple[Step, ...], word: int, hint: Sequence[Bits]) -> None:
        self.count += 1
        if self.count > MOST_LEAVES:
            self.notes.append(f"{self.opcode:03x}: more than {MOST_LEAVES} forms")
            return
        self.queue.append(Growth(self, node, steps, word, hint).grow())

    def split(self, leaf: Leaf, node: Node, split: Split, hint: Sequence[Bits]) -> None:
        """Put a split in a leaf's place, and search each way."""
        node.leaf = None
        node.bits = split.bits
        name = name_of(split.bits)
        taken = tuple(value for values, _ in split.ways for value in values)
        for values, word in split.ways:
            node.ways.append((values, Node()))
            self._sow(node.ways[-1][1], (*leaf.steps, Step(name, values)), word, hint)
        node.ways.append((None, Node()))
        if split.other is not None:
            step = Step(name, None, taken)
            self._sow(node.ways[-1][1], (*leaf.steps, step), split.other, hint)

    def lines(self) -> list[Line]:
        """The plan's lines."""
        return [leaf.line for leaf in self.root.leaves()]


def search(arch: str, seeds: Mapping[int, Collection[int]]) -> dict[int, Opcode]:
    """The trees of opcodes, from words of each that are known to be legal, if any."""
    queue: list[Questions] = []
    opcodes = {opcode: Opcode(opcode, words, queue) for opcode, words in seeds.items()}
    queue += [one.start() for one in opcodes.values()]
    run(queue, arch)
    return opcodes

"""An architecture's SASS table from the plan, the tool and the recorded words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

from boards.nv.isa.table import parse
from tests.nvdisasm import REFUSED, listing
from tests.sass import by_hand, census, proof, schedule, stored
from tests.sass.measure import Former, NotUnderstood
from tests.sass.plan import HEX, Line, tree
from tests.sass.search import search

HERE = Path(__file__).parent
DATA = HERE.parent / "data"
AT_ONCE = 20_000
ROUNDS = 3
OPCODE_BITS = 12


class Tool:
    """nvdisasm with a memory: each word is asked once."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.known: dict[int, str] = {}

    def __call__(self, words: Sequence[int]) -> list[str]:
        """The text of each word at address 0."""
        new = [word for word in dict.fromkeys(words) if word not in self.known]
        for start in range(0, len(new), AT_ONCE):
            part = new[start : start + AT_ONCE]
            self.known.update(zip(part, listing(part, self.arch), strict=True))
        return [self.known[word] for word in words]


def recording(arch: str) -> Path:
    """Words of compiled kernels, and what the tool printed."""
    return DATA / f"sass_{arch}.txt"


def recorded(arch: str) -> list[int]:
    """The words of the recording."""
    if not recording(arch).is_file():
        return []
    lines = recording(arch).read_text("ascii").splitlines()
    return [int(line.split(" ", 1)[0], HEX) for line in lines if not line.startswith("#")]


def seeds(arch: str) -> dict[int, list[int]]:
    """Known words by opcode: compiled kernels and the recording; none for opcodes a flip away."""
    known: dict[int, list[int]] = {}
    for word in dict.fromkeys([*census.words(arch), *recorded(arch)]):
        known.setdefault(word & proof.OPCODE_MASK, []).append(word)
    near = {opcode ^ 1 << bit for opcode in known for bit in range(OPCODE_BITS)}
    return {opcode: known.get(opcode, []) for opcode in sorted(near | known.keys())}


def _head(arch: str) -> dict[str, object]:
    """Who made the table, and what from."""
    inputs = (census.SOURCE, recording(arch), by_hand.file(arch))
    return {
        "made by": f"python -m tests.sass {arch}",
        "tool": f"nvdisasm {version('nvidia-cuda-nvdisasm')}",
        "sha256": {
            str(path.relative_to(HERE.parents[1])): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in inputs
            if path.is_file()
        },
    }


class Maker:
    """A table in the making, from the lines of a plan."""

    def __init__(self, arch: str, lines: Sequence[Line], words: Sequence[int]) -> None:
        self.arch = arch
        self.tool = Tool(arch)
        self.lines = list(lines)
        self.words = words
        self.complaints: list[str] = []
        self.unfinished: set[int] = set()
        self.forms: dict[Line, dict[str, object]] = {}

    def _complain(self, line: Line, why: str) -> None:
        steps = " ".join(step.name for step in line.steps)
        self.complaints.append(f"{self.arch} {line.opcode:03x} {steps}: {why}")
        self.unfinished.add(line.opcode)

    def measure(self) -> None:
        """All forms of the plan that this architecture has."""
        first = self.tool([line.word for line in self.lines])
        there = [line for line, text in zip(self.lines, first, strict=True) if text != REFUSED]
        former = Former(self.tool)
        self.tool([word for line in there for word in former.questions(line)])
        self.tool(schedule.asked(there))
        for line in there:
            try:
                self.forms[line] = former.form(line)
            except NotUnderstood as error:
                self._complain(line, str(error))
        masks = schedule.masks(self.tool, self.forms)
        names = {mask: str(place) for place, mask in enumerate(dict.fromkeys(masks.values()))}
        self.masks = {name: mask for mask, name in names.items()}
        for line, form in self.forms.items():
            form["opex"] = names[masks[line]]
            form["word"] = f"{line.word:032x}"

    def data(self) -> dict[str, object]:
        """The table as it is written."""
        firsts: dict[int, Line] = {}
        for line in self.forms:
            firsts.setdefault(line.opcode, line)
        forms: dict[Line, object] = {line: self.forms.get(line) for line in self.lines}
        return {
            **_head(self.arch),
            "unfinished": [f"{opcode:03x}" for opcode in sorted(self.unfinished)],
            "opex": self.masks,
            "guards": schedule.guards(self.tool, firsts),
            "opcodes": {
                f"{opcode:03x}": tree(list(lines), forms)
                for opcode, lines in groupby(self.lines, lambda line: line.opcode)
                if opcode in firsts
            },
        }

    def prove(self) -> None:
        """Leave out each form that prints another text than the tool."""
        words = proof.drawn(list(self.forms), self.words)
        for _ in range(ROUNDS):
            known = parse(self.arch, self.data())
            wrong, refused = proof.judge(self.tool, known, self.lines, words)
            self.unfinished |= refused
            for line, example in wrong.items():
                self._complain(line, f"left out: {example}")
                del self.forms[line]
            if not wrong:
                return


def written(data: dict[str, object]) -> str:
    """JSON, an opcode a line."""
    opcodes = data.pop("opcodes")
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in data.items()]
    if not isinstance(opcodes, dict):
        raise TypeError("opcodes are no table")
    rows = [f'"{one}":{json.dumps(t, separators=(",", ":"))}' for one, t in opcodes.items()]
    lines.append('"opcodes": {\n' + ",\n".join(rows) + "\n}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def make(arch: str, opcodes: Collection[int] = ()) -> tuple[str, list[str]]:
    """The table's text, and what was not understood; ``opcodes`` empty: all that are near."""
    known = {one: words for one, words in seeds(arch).items() if not opcodes or one in opcodes}
    hand = by_hand.lines(arch, opcodes)
    given = {line.opcode for line in hand}
    trees = search(arch, {one: words for one, words in known.items() if one not in given})
    found = [line for tree in trees.values() for line in tree.lines()]
    lines = sorted([*found, *hand], key=lambda line: line.opcode)
    maker = Maker(arch, lines, [word for words in known.values() for word in words])
    maker.measure()
    maker.prove()
    notes = [f"{arch} {note}" for tree in trees.values() for note in tree.notes]
    return written(maker.data()), notes + maker.complaints


def again(arch: str, opcodes: Collection[int]) -> Any:
    """Some opcodes of a stored table, measured once more: the data of a table."""
    lines = [line for line in stored.lines(arch) if line.opcode in opcodes]
    maker = Maker(arch, lines, ())
    maker.measure()
    return json.loads(written(maker.data()))

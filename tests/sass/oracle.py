"""What nvdisasm says of many words at once: the name of each word's class, and its text.

A class is a form of an opcode as the tool names it in its error about scheduling bits: a value of
them that no class takes makes the tool name the class of a legal word.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from tests.nvdisasm import REFUSED, WORD_BYTES, answer, listing
from tests.sass.plan import with_value
from tests.sass.schedule import OPEX

AT_ONCE = 10_000
AT_A_TIME = 4
# measured: nvdisasm 13.5.37 has no class that takes these scheduling bits
NO_SCHEDULE = 0x7D
_CLASS = re.compile(r"Opclass '(\w+)', undefined value \S+ for table '\w+' at address 0x(\w+)")
_ENDED: dict[str, Counter[int]] = {}
_HEX = 16


@dataclass(frozen=True, slots=True)
class Answer:
    """The class of a word, empty where there is none, and the text at address 0."""

    name: str
    text: str

    @property
    def legal(self) -> bool:
        """Whether the tool prints the word."""
        return self.text != REFUSED


Questions: TypeAlias = Generator[Sequence[int], list[Answer], None]
"""A search: it yields words and is sent the answers."""


def classes(words: Sequence[int], arch: str) -> list[str]:
    """The class of each word, or nothing for one that has none.

    Opcodes at whose words the tool ends again and again are not asked any more.
    """
    asked = [with_value(word, OPEX, NO_SCHEDULE) for word in words]
    _, errors = answer(asked, arch, _ENDED.setdefault(arch, Counter()))
    named = {int(place, _HEX) // WORD_BYTES: name for name, place in _CLASS.findall(errors)}
    return [named.get(place, "") for place in range(len(words))]


def ask(words: Sequence[int], arch: str) -> list[Answer]:
    """Class and text of each word."""
    parts = [words[start : start + AT_ONCE] for start in range(0, len(words), AT_ONCE)]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return [one for part in pool.map(partial(_part, arch=arch), parts) for one in part]


def _part(words: Sequence[int], arch: str) -> list[Answer]:
    names = classes(words, arch)
    legal = [word for word, name in zip(words, names, strict=True) if name]
    texts = iter(listing(legal, arch)) if legal else iter(())
    return [Answer(name, next(texts) if name else REFUSED) for name in names]


def run(searches: Iterable[Questions], arch: str) -> None:
    """All searches to their end, the questions of each round asked together.

    A search may add others to the list that it came from.
    """
    waiting: list[tuple[Questions, Sequence[int]]] = []
    queue = searches if isinstance(searches, list) else list(searches)
    while queue or waiting:
        while queue:
            one = queue.pop()
            waiting += [(one, words) for words in _first(one)]
        unique = list(dict.fromkeys(word for _, words in waiting for word in words))
        sys.stderr.write(f"{len(waiting)} searches ask {len(unique)} words\n")
        known = dict(zip(unique, ask(unique, arch), strict=True))
        waiting = [
            (one, more)
            for one, words in waiting
            for more in _next(one, [known[word] for word in words])
        ]


def _first(one: Questions) -> list[Sequence[int]]:
    try:
        return [next(one)]
    except StopIteration:
        return []


def _next(one: Questions, answers: list[Answer]) -> list[Sequence[int]]:
    try:
        return [one.send(answers)]
    except StopIteration:
        return []

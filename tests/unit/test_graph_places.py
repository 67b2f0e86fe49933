"""Where an argument of a graph is stored: every word of it, and no other."""

from __future__ import annotations

import random

import pytest

from queues.bound_graph import LEAST_ROW, Places
from tests.support import check

WORD, FILL = (1 << 64) - 5, 0xA5A5_A5A5_A5A5_A5A5


def steps(count: int, first: int, step: int) -> list[int]:
    return [first + step * number for number in range(count)]


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        ([], 0),
        ([3], 0),
        ([3, 4], 0),
        (steps(LEAST_ROW - 1, 5, 40), 0),
        (steps(LEAST_ROW, 5, 40), 1),
        (steps(100, 5, 40) + steps(100, 6, 40), 2),
        ([*steps(50, 0, 1), 1000, 1003, 1001, *steps(50, 2000, 3)], 2),
        (steps(30, 900, -7), 0),
        (sorted(random.Random(1).sample(range(4000), 200)), 0),
    ],
)
def test_every_word_and_no_other(words: list[int], rows: int) -> None:
    memory = memoryview(bytearray(8 * 5000)).cast("Q")
    memory[:] = memoryview(bytes([0xA5]) * len(memory) * 8).cast("Q")
    places = Places(words)
    places.fill({8: memory}, WORD)
    expected = [FILL] * len(memory)
    for word in words:
        expected[word] = WORD
    check(memory.tolist() == expected)
    check(len(places.rows) == rows, f"{len(places.rows)} rows of {len(words)} words")


@pytest.mark.parametrize(("nbytes", "code"), [(4, "I"), (2, "H"), (1, "B")])
def test_narrow_words_are_cut_to_their_size(nbytes: int, code: str) -> None:
    words = [2, *steps(LEAST_ROW, 10, 7)]
    memory = memoryview(bytearray(nbytes * 500)).cast(code)
    Places(words, nbytes).fill({nbytes: memory}, WORD)
    expected = [0] * len(memory)
    for word in words:
        expected[word] = WORD % (1 << 8 * nbytes)
    check(memory.tolist() == expected)

"""Layouts: what a declaration means, and that nothing ever spills into a neighbour."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.base.errors import BadArgument
from queues.packet_layout import WordLayout, replace
from tests.support import check

EXAMPLE = WordLayout(
    "EXAMPLE",
    0xAB,
    0xFF,
    (
        "kind 9:8  flag 31",
        "addr/16?kind=1 63:0  reg?kind=0|2 17:0",
        "",
        "count-1 21:0  pair 39:30",
        "",
    ),
    tail="data",
    tail_words=range(4),
)


def test_where_bits_go() -> None:
    words = EXAMPLE.encode({"kind": 1, "flag": 1, "addr": 0x123456789ABCDEF0, "count": 4}, [7])
    np.testing.assert_equal(words, [0x800001AB, 0x9ABCDEF0, 0x12345678, 3, 0, 7])
    words = EXAMPLE.encode({"kind": 2, "reg": 0x3FFFF, "pair": 0x3FF})
    np.testing.assert_equal(words, [0x2AB, 0x3FFFF, 0, 0xC0000000, 0xFF])


@pytest.mark.parametrize(
    "values",
    [
        {"kind": 4},
        {"kind": -1},
        {"flag": 2},
        {"kind": 1, "addr": 8},
        {"kind": 1, "addr": 1 << 64},
        {"count": 0},
        {"count": (1 << 22) + 1},
        {"pair": 1 << 10},
        {"reg": 1 << 18},
        {"kind": 1, "reg": 1},
        {"kind": 0, "addr": 16},
        {"unknown": 0},
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(values: dict[str, int]) -> None:
    with pytest.raises(BadArgument):
        EXAMPLE.encode(values)


@pytest.mark.parametrize("tail", [[0] * 4, [-1], [1 << 32]], ids=["long", "negative", "wide"])
def test_wrong_data_words_are_refused(tail: list[int]) -> None:
    with pytest.raises(BadArgument):
        EXAMPLE.encode({}, tail)


@given(
    st.integers(0, 3),
    st.integers(0, 2**60 - 1),
    st.integers(1, 2**22),
    st.integers(0, 1023),
    st.lists(st.integers(0, 2**32 - 1), max_size=3),
)
def test_decoding_reads_back(kind: int, high: int, count: int, pair: int, tail: list[int]) -> None:
    values = {"kind": kind, "flag": high & 1, "count": count, "pair": pair}
    if kind == 1:
        values["addr"] = high << 4
    elif kind != 3:
        values["reg"] = high & 0x3FFFF
    words = [99, *EXAMPLE.encode(values, tail), 99]
    packet = EXAMPLE.decode(words, 1, len(words) - 2)
    np.testing.assert_equal(packet.fields, values)
    np.testing.assert_equal((packet.at, packet.tail, packet.reserved), (1, tuple(tail), ()))


def test_bits_without_a_field_are_reported() -> None:
    packet = EXAMPLE.decode([0x00F001AB, 0xF, 0, 1 << 22, 1 << 31], 0, 5)
    np.testing.assert_equal(packet.reserved, ((0, 0xF00000), (1, 0xF), (3, 1 << 22), (4, 1 << 31)))
    np.testing.assert_equal(packet.fields["addr"], 0)
    packet = EXAMPLE.decode([0x300 | 0xAB, 1, 2, 0, 0], 0, 5)
    np.testing.assert_equal(packet.reserved, ((1, 1), (2, 2)), "kind 3 has neither address")


def test_where_a_patch_writes() -> None:
    np.testing.assert_equal(
        [EXAMPLE.word(n) for n in ("flag", "addr", "count", "pair")], [0, 1, 3, 3]
    )
    with pytest.raises(KeyError):
        EXAMPLE.word("data")


def test_a_chip_replaces_words() -> None:
    other = replace(EXAMPLE, {3: "count-1 29:0"})
    np.testing.assert_equal(other.encode({"count": 1 << 30})[3], (1 << 30) - 1)
    check(other.tail_words == EXAMPLE.tail_words and other.fixed == EXAMPLE.fixed)
    with pytest.raises(BadArgument):
        other.encode({"pair": 1})


@pytest.mark.parametrize("words", [("a 0 b",), ("a 1:2",), ("a 32",), ("a/x 3:0",), ("a",)])
def test_a_wrong_declaration_is_found_at_import(words: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="wrong"):
        WordLayout("wrong", 0, 0, words)

"""Packets of the CPU: golden words, decoding, and lists that are no packets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.base.errors import MalformedInput
from queues.cpu import packets
from tests.support import check

WORD = st.integers(0, 2**64 - 1)


def test_golden_words() -> None:
    np.testing.assert_equal(
        packets.exec_packet(entry=0x1000, grid=7, chunk=2, args=[0xA, 0xB]),
        [0x0000_0006_0000_0001, 0x1000, 7, 2, 0xA, 0xB],
    )
    np.testing.assert_equal(
        packets.copy_packet(dst=1, src=2, nbytes=3), [0x0000_0004_0000_0002, 1, 2, 3]
    )
    np.testing.assert_equal(packets.wait_packet(signal=8, value=9), [0x0000_0003_0000_0003, 8, 9])
    np.testing.assert_equal(packets.signal_packet(signal=8, value=9), [0x300000004, 8, 9])
    np.testing.assert_equal(packets.timestamp_packet(signal=8), [0x200000005, 8])
    np.testing.assert_equal(packets.barrier_packet(), [0x100000006])


@given(st.lists(WORD, max_size=9), WORD, WORD, WORD)
def test_decoding_reads_back_what_was_encoded(args: list[int], a: int, b: int, c: int) -> None:
    words = [
        *packets.copy_packet(dst=a, src=b, nbytes=c),
        *packets.exec_packet(entry=c, grid=a, chunk=b, args=args),
        *packets.barrier_packet(),
    ]
    copy, launch, barrier = packets.decode(words)
    np.testing.assert_equal(copy.fields, {"dst": a, "src": b, "nbytes": c})
    np.testing.assert_equal(launch.fields, {"entry": c, "grid": a, "chunk": b})
    np.testing.assert_equal(list(launch.args), args)
    np.testing.assert_equal([copy.at, launch.at, barrier.at], [0, 4, 8 + len(args)])


@pytest.mark.parametrize("word", [-1, 2**64])
def test_a_word_that_does_not_fit_is_refused(word: int) -> None:
    with pytest.raises(MalformedInput):
        packets.wait_packet(signal=0, value=word)


@pytest.mark.parametrize(
    "words",
    [
        [0],
        [9 | 1 << 32],
        [packets.WAIT | 3 << 32, 1],
        [packets.WAIT | 2 << 32, 1, 2],
        [1 | 3 << 32],
    ],
    ids=["zero", "opcode", "cut", "length", "exec"],
)
def test_lists_that_are_no_packets(words: list[int]) -> None:
    with pytest.raises(MalformedInput):
        list(packets.decode(words))
    check("!!" in packets.dump(words), "a dump shows where it stops")


@given(st.lists(WORD, max_size=20))
def test_a_dump_never_raises(words: list[int]) -> None:
    check(isinstance(packets.dump(words), str))


def test_a_dump_is_bounded() -> None:
    text = packets.dump(packets.barrier_packet() * 100, limit=5)
    np.testing.assert_equal(len(text.splitlines()), 6)


def test_where_arguments_are() -> None:
    launch = packets.exec_packet(entry=1, grid=2, args=[11, 12, 13])
    copy = packets.copy_packet(dst=21, src=22, nbytes=23)
    check([launch[packets.place(launch, number)] for number in range(3)] == [11, 12, 13])
    check([copy[packets.place(copy, number)] for number in range(2)] == [21, 22])
    wrong = [(launch, 3), (launch, -1), (copy, 2), (packets.barrier_packet(), 0)]
    for packet, number in [*wrong, (packets.signal_packet(signal=1, value=2), 0)]:
        with pytest.raises(MalformedInput):
            packets.place(packet, number)
    check(packets.joined([copy, launch]) == [*copy, *launch])

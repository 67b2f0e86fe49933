"""Bounded views: right values, and MalformedInput for everything outside."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from drivers.base.errors import MalformedInput
from drivers.base.view import View
from tests.support import check

DATA = bytes(range(1, 41))


def test_numbers_are_little_endian_as_numpy_reads_them() -> None:
    view = View(DATA, "test")
    for off in (0, 3, 32):
        at = DATA[off : off + 8]
        check(view.u8(off, "a") == DATA[off])
        check(view.u16(off, "a") == np.frombuffer(at, "<u2", 1)[0])
        check(view.u32(off, "a") == np.frombuffer(at, "<u4", 1)[0])
        check(view.u64(off, "a") == np.frombuffer(at, "<u8", 1)[0])


def test_table_equals_numpys_records() -> None:
    rows = View(DATA, "test").table("HI", 4, 5, "rows")
    expected = np.frombuffer(DATA, np.dtype([("a", "<u2"), ("b", "<u4")]), 5, 4)
    check(rows == [tuple(int(x) for x in row) for row in expected], str(rows))


def test_a_window_of_a_window_says_where_it_is() -> None:
    inner = View(DATA, "file").sub(8, 16, "header").sub(4, 8, "entry")
    check(inner.u8(0, "kind") == DATA[12])
    with pytest.raises(MalformedInput, match=r"file: header: entry, byte 0xc: size at 0x5\+0x4"):
        inner.u32(5, "size")


@pytest.mark.parametrize(
    ("off", "size"), [(-1, 1), (41, 0), (40, 1), (0, 41), (1 << 70, 1), (0, -1)]
)
def test_outside_is_malformed(off: int, size: int) -> None:
    view = View(DATA, "test")
    for read in (view.sub, view.bytes):
        with pytest.raises(MalformedInput):
            read(off, size, "part")


def test_a_huge_or_negative_table_is_refused_before_it_is_built() -> None:
    for count in (1 << 62, -1):
        with pytest.raises(MalformedInput):
            View(DATA, "test").table("Q", 0, count, "rows")


def test_names() -> None:
    view = View(b"abc\0de\xff\0\n\0zz", "test")
    check(view.cstr(0, 16, "name") == "abc")
    check(view.cstr(3, 16, "name") == "")
    for off, limit in ((0, 3), (4, 16), (8, 16), (10, 16), (12, 16), (13, 16), (-1, 4), (0, 0)):
        with pytest.raises(MalformedInput):
            view.cstr(off, limit, "name")


def test_random_reads_agree_with_struct_or_are_malformed() -> None:
    rng = random.Random(7)
    view = View(DATA, "test")
    for _ in range(5000):
        fmt = "".join(rng.choice("BHIQ") for _ in range(rng.randint(1, 4)))
        off = rng.randint(-4, 44)
        inside = off >= 0 and off + struct.calcsize("<" + fmt) <= len(DATA)
        if inside:
            check(view.unpack(fmt, off, "x") == struct.unpack_from("<" + fmt, DATA, off))
        else:
            with pytest.raises(MalformedInput):
                view.unpack(fmt, off, "x")

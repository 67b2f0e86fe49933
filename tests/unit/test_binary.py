"""Binaries as bytes: what goes in comes out, what is wrong is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilers.binary import LIMIT_BYTES, decode, encode
from drivers.base.contracts import Arg, Binary, Fixup, Resources
from drivers.base.errors import MalformedInput
from tests.support import check

NAMES = st.text(max_size=20)
WORDS = st.integers(0, (1 << 32) - 1)
SIGNED = st.integers(-(1 << 63), (1 << 63) - 1)


@st.composite
def binaries(draw: st.DrawFn) -> Binary:
    image = draw(st.binary(min_size=8, max_size=200))
    offsets = st.integers(0, len(image) - 8)
    fixups = draw(st.lists(st.builds(Fixup, offsets, NAMES, SIGNED), max_size=5))
    entry = draw(st.integers(0, len(image) - 1))
    data_offset = draw(st.integers(0, len(image)))
    args = draw(st.none() | st.lists(st.builds(Arg, WORDS, WORDS, st.booleans()), max_size=4))
    resources = Resources(
        block=draw(WORDS),
        max_block=draw(WORDS),
        shared_bytes=draw(st.integers(0, (1 << 64) - 1)),
        scratch_bytes=draw(st.integers(0, (1 << 64) - 1)),
        args=None if args is None else tuple(args),
        vendor=draw(st.binary(max_size=40)),
    )
    return Binary(draw(NAMES), draw(NAMES), image, entry, tuple(fixups), data_offset, resources)


@given(binaries())
def test_round_trip(binary: Binary) -> None:
    check(decode(encode(binary)) == binary, "decode is the inverse of encode")


@given(binaries(), st.data())
def test_every_truncation_is_refused(binary: Binary, data: st.DataObject) -> None:
    blob = encode(binary)
    with pytest.raises(MalformedInput):
        decode(blob[: data.draw(st.integers(0, len(blob) - 1))])
    with pytest.raises(MalformedInput):
        decode(blob + b"\0")


@pytest.mark.parametrize(
    "binary",
    [
        Binary("a", "k", bytes(8), 8),
        Binary("a", "k", bytes(8), 0, data_offset=9),
        Binary("a", "k", bytes(8), 0, (Fixup(1, "sinf"),)),
    ],
)
def test_places_outside_of_the_image_are_refused(binary: Binary) -> None:
    with pytest.raises(MalformedInput):
        decode(encode(binary))


@pytest.mark.parametrize(
    "binary",
    [
        Binary("a", "k", bytes(LIMIT_BYTES), 0),
        Binary("a", "k" * 70000, b"\xc3", 0),
        Binary("a", "k", b"\xc3", 0, resources=Resources(scratch_bytes=1 << 64)),
    ],
)
def test_what_does_not_fit_the_format_is_not_written(binary: Binary) -> None:
    with pytest.raises(MalformedInput):
        encode(binary)

"""Registers of Adreno kernels: halves and words that are live together lie side by side."""

from __future__ import annotations

from compilers.qcom.allocate import Allocation
from compilers.qcom.parse import parse
from tests.support import check

TEXT = """ir3 6 48 64 0 1
mov v0.h0 k1
mov v1 k2
mov v2.h0 k3
mov v3 k4
add v4.h0 v0.h0 v2.h0
add v5 v1 v3
end"""


def test_a_word_beside_halves_begins_at_a_whole_register() -> None:
    allocation = Allocation(parse(TEXT))
    allocation.run()
    places = allocation.places
    words, halves = [places[one] for one in (1, 3)], [places[one] for one in (0, 2)]
    check(not any(place % 2 for place in words), f"a word across two registers: {places}")
    held = [*halves, *words, *(place + 1 for place in words)]
    check(len(set(held)) == len(held), f"two values in one place: {places}")

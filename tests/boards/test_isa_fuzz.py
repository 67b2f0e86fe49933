"""Random bytes as code: refused or understood, never another exception."""

from __future__ import annotations

import random

import pytest

from boards.amd.isa.decode import UnknownInstruction, decode
from boards.amd.isa.families import FAMILIES
from boards.amd.isa.text import disassemble
from boards.amd.wave.execute import bind
from boards.amd.wave.operands import UnsupportedOperand
from boards.amd.wave.touch import touch
from tests.boards.wave_harness import CHIPS
from tests.support import check

_CASES = 10_000


@pytest.mark.parametrize("cpu", CHIPS)
def test_random_bytes_are_refused_or_understood(cpu: str) -> None:
    family = FAMILIES[cpu]
    rnd = random.Random(2)
    refused = understood = 0
    for _ in range(_CASES):
        words = [rnd.getrandbits(32) for _ in range(rnd.randrange(5))]
        try:
            inst = decode(family, words, 0, rnd.choice(family.lane_counts))
            check(disassemble(inst), "an instruction without text")
            check(len(touch(inst).vector_writes) < 33, "too many registers")
            bind(inst)
            understood += 1
        except (UnknownInstruction, UnsupportedOperand):
            refused += 1
    check(refused > _CASES // 20 and understood > _CASES // 20, f"{refused}, {understood}")

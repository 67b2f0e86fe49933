"""Random bytes as code: refused or understood, never another exception."""

from __future__ import annotations

import random

from boards.amd.isa.decode import UnknownInstruction, decode
from boards.amd.isa.gfx11 import GFX11
from boards.amd.isa.text import disassemble
from boards.amd.wave import bind
from boards.amd.wave_operands import UnsupportedOperand
from boards.amd.wave_touch import touch
from tests.boards.wave_harness import FlatMemory
from tests.support import check

_CASES = 20_000


def test_random_bytes_are_refused_or_understood() -> None:
    rnd = random.Random(2)
    memory = FlatMemory()
    refused = understood = 0
    for _ in range(_CASES):
        words = [rnd.getrandbits(32) for _ in range(rnd.randrange(5))]
        try:
            inst = decode(GFX11, words, 0, rnd.choice([32, 64]))
            check(disassemble(inst), "an instruction without text")
            check(len(touch(inst).vector_writes) < 33, "too many registers")
            bind(inst, memory)
            understood += 1
        except (UnknownInstruction, UnsupportedOperand):
            refused += 1
    check(refused > _CASES // 20 and understood > _CASES // 20, f"{refused}, {understood}")

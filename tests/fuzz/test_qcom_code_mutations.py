"""Mutated ir3 code on the board's shader processors: it ends, or stops at a named fault."""

from __future__ import annotations

import random
from typing import Final

import numpy as np
import pytest

from boards.qcom.wave.execute import run
from tests.boards.ir3_runner import BASE, Memory, assemble, dispatch
from tests.boards.test_qcom_wave_rules import KEPT_AND_BROKEN, LOW
from tests.share import part
from tests.support import check

_PARTS, _STEPS = 16, 500
_EACH = part(20_000, 2_000) // _PARTS
_FAULTS: Final = {"illegal instruction", "page fault", "endless"}


@pytest.mark.parametrize("number", range(_PARTS))
def test_mutated_code(number: int) -> None:
    """One to four bits of whole programs are turned; no exception escapes."""
    rng = random.Random(number)
    seeds = [assemble(f"{LOW}{kept}\nend") for kept, _, _ in KEPT_AND_BROKEN.values()]
    stopped = 0
    for _ in range(_EACH):
        code = bytearray(rng.choice(seeds))
        for _ in range(rng.choice((1, 1, 2, 4))):
            bit = rng.randrange(len(code) * 8)
            code[bit // 8] ^= 1 << bit % 8
        made = dispatch(
            bytes(code), [BASE & 0xFFFFFFFF, BASE >> 32] * 8, generation=6 + number % 2,
            bindless=(BASE + 4096,) * 5, shared_bytes=1024, private_bytes=64,
            block=(rng.choice((1, 64, 100)), 1, 1), scalar_alu=bool(number % 3),
        )  # fmt: skip
        outcome = run(made, Memory(np.zeros(4096, np.uint32)), most=_STEPS)
        if outcome.fault is not None:
            check(outcome.fault.kind in _FAULTS, outcome.fault.kind)
            stopped += 1
    check(_EACH // 20 < stopped < _EACH, f"{stopped} stopped")

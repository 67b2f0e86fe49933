"""Garbage in rings: whatever the words are, the host hears of a fault, or nothing, and no more."""

from __future__ import annotations

import random

import pytest

from boards.amd.cp.engine_types import PacketFault
from boards.amd.wave.types import MemoryFault, WaveFault
from tests.boards import test_cp_aql as aql
from tests.boards import test_cp_pm4 as pm4
from tests.boards import test_sdma_engine as sdma
from tests.boards.engine_harness import DATA, Rig, chip
from tests.support import check

ROUNDS = 2000
PM4 = [value for name, value in vars(pm4).items() if name.isupper() and isinstance(value, list)]
SDMA = [value for name, value in vars(sdma).items() if name.isupper() and isinstance(value, list)]


def mutated(rng: random.Random, streams: list[list[int]]) -> list[int]:
    words = [word for _ in range(3) for word in rng.choice(streams)]
    for _ in range(rng.randint(0, 3)):
        at = rng.randrange(len(words))
        words[at] = rng.choice([words[at] ^ 1 << rng.randrange(32), rng.getrandbits(32)])
    return words


COMPLAINTS = {
    "cached fence", "signal decreased", "endless wait", "overlapping copy", "bounded poll",
}  # fmt: skip
"""What the board says of these streams, which wait and signal at random; it may say no more."""


def judge(r: Rig) -> int:
    """Returns: the faults. Raises: AssertionError for more than one, or of an unknown kind."""
    for fault in r.host.faults:
        check(isinstance(fault, (PacketFault, MemoryFault, WaveFault)), repr(fault))
        check(str(fault))
    check(len(r.host.faults) <= 1)
    said = {kind for kind, _ in r.host.violations}
    check(said <= COMPLAINTS, f"{said - COMPLAINTS}: {r.host.violations}")
    return len(r.host.faults)


def both(faults: int, rounds: int) -> None:
    """Some streams fault and others do not, or the fuzzer does not reach what it should."""
    check(rounds // 4 < faults < rounds, f"{faults} of {rounds} streams fault")


@pytest.mark.parametrize("family", ["gfx11", "gfx9"])
def test_pm4(family: str) -> None:
    rng = random.Random(family)
    which = chip() if family == "gfx11" else chip("gfx942", "gfx9", (4, 4, 2), xccs=8)
    faults = 0
    for _ in range(ROUNDS):
        r = Rig(which, max_steps=1000)
        r.create("pm4")
        r.put_words(0x400, mutated(rng, PM4)[:40])
        r.submit(mutated(rng, PM4))
        faults += judge(r)
    both(faults, ROUNDS)


@pytest.mark.parametrize("version", sdma.VERSIONS)
def test_sdma(version: str) -> None:
    rng = random.Random(version)
    faults = 0
    for _ in range(ROUNDS // 2):
        r = Rig(sdma.VERSIONS[version])
        r.create("sdma")
        r.put_words(0x400, mutated(rng, SDMA)[:40])
        r.submit(mutated(rng, SDMA), scale=4)
        faults += judge(r)
    both(faults, ROUNDS // 2)


def test_aql() -> None:
    rng = random.Random(1)
    good = [
        aql.barrier(aql.AND, aql.SIGNAL), aql.buffer(DATA + 0x400, 12, aql.SIGNAL),
        aql.barrier_value(aql.SIGNAL, 1, 1, 0), bytes([2, 0x15, 1, 0]) + bytes(60),
    ]  # fmt: skip
    faults = 0
    for _ in range(ROUNDS):
        r = aql.AqlRig(max_steps=1000)
        packet = bytearray(rng.choice(good))
        for _ in range(rng.randint(0, 4)):
            packet[rng.randrange(64)] ^= 1 << rng.randrange(8)
        r.put_words(0x400, mutated(rng, PM4)[:40])
        r.send(bytes(packet))
        faults += judge(r)
    both(faults, ROUNDS)

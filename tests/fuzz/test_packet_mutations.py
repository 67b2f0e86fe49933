"""20,000 mutated dumps of each packet format: MalformedInput or a listing, soon, in bounds."""

from __future__ import annotations

import random
import resource
import struct
import time

import pytest

from drivers.base.errors import MalformedInput
from queues.decode import decoder, listing, words_of
from tests.mutation import CPU_LIMIT_S, MEMORY_LIMIT_KIB, MUTATIONS, mutate
from tests.packet_golden import Golden
from tests.packet_golden_aql import AQL
from tests.packet_golden_pm4 import PM4
from tests.packet_golden_sdma import SDMA
from tests.support import check

GFX9 = ("gfx9", "pred_exec", "4.4")
SEEDS = {
    ("pm4", "gfx1100"): [golden for golden in PM4 if not golden.name.endswith(GFX9)],
    ("sdma", "gfx1201"): SDMA,
    ("aql", "gfx942"): AQL,
}


@pytest.mark.parametrize(("kind", "chip"), SEEDS, ids=lambda part: part)
def test_mutated_dumps(kind: str, chip: str) -> None:
    goldens: list[Golden] = SEEDS[kind, chip]
    form, packets = decoder(kind, chip), [golden.encode() for golden in goldens]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused, listed, worst_s = 0, 0, 0.0
    for number in range(MUTATIONS):
        rng = random.Random(number)
        words = [word for packet in rng.sample(packets, 5) for word in packet]
        blob = mutate(struct.pack(f"<{len(words)}I", *words), rng)
        start_s = time.thread_time()
        try:
            listed += sum(len(line) for line in listing(form, words_of(blob)))
        except MalformedInput:
            refused += 1
        worst_s = max(worst_s, time.thread_time() - start_s)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    check(refused > MUTATIONS // 20, f"only {refused} mutations were refused")
    check(listed > MUTATIONS, "dumps are listed up to the mutation, and some are whole")
    check(worst_s <= CPU_LIMIT_S, f"one input took {worst_s:.3f} s")
    check(grown <= MEMORY_LIMIT_KIB, f"memory grew by {grown} KiB")

"""Damaged discovery binaries: only MalformedInput escapes, also where the checksums fit."""

from __future__ import annotations

import random
import time

from drivers.amd.pci.discovery import parse
from drivers.base.errors import MalformedInput
from tests import discovery_maker as maker
from tests.mutation import CPU_LIMIT_S, MUTATIONS, mutate
from tests.support import check
from tests.unit.test_amd_discovery_table import MI300, NAVI31


def test_damaged_binaries() -> None:
    seeds = [maker.build(NAVI31), maker.build(MI300)]
    accepted, worst_s, rules = 0, 0.0, set()
    for number in range(MUTATIONS):
        rng = random.Random(number)
        blob = mutate(seeds[number % 2], rng)
        blob = maker.repair(blob) if number % 4 > 1 else blob
        begun_s = time.thread_time()
        try:
            parse(blob)
        except MalformedInput as error:
            check(len(str(error)) < 1000, "an endless message")
            rules.add(str(error).split(":", 3)[-1][:12])
        else:
            accepted += 1
        worst_s = max(worst_s, time.thread_time() - begun_s)
    check(worst_s < CPU_LIMIT_S, f"the slowest took {worst_s} s of processor time")
    check(0 < accepted < MUTATIONS // 2, f"{accepted} of {MUTATIONS} were accepted")
    check(len(rules) > 10, f"the mutations reach only {rules}")

"""20,000 mutated programs in Qualcomm's layout: only MalformedInput, soon."""

from __future__ import annotations

import random
import time

from compilers.qcom import cl_container
from drivers.base.errors import MalformedInput
from tests import qcom_programs
from tests.mutation import CPU_LIMIT_S, EXTREMES, MUTATIONS, mutate
from tests.support import check


def _number(blob: bytes, rng: random.Random) -> bytes:
    """One word becomes an extreme one."""
    data = bytearray(blob)
    at = 4 * rng.randrange(len(data) // 4)
    data[at : at + 4] = (rng.choice(EXTREMES) & 0xFFFFFFFF).to_bytes(4, "little")
    return bytes(data)


def test_mutated_programs() -> None:
    seed, refused, worst_s = qcom_programs.program(), 0, 0.0
    for number in range(MUTATIONS):
        rng = random.Random(number)
        blob = (_number if number % 2 else mutate)(seed, rng)
        start_s = time.thread_time()
        try:
            found = cl_container.read(blob, qcom_programs.NAME)
        except MalformedInput:
            refused += 1
        else:
            check(0 <= found.entry < len(found.code) <= len(blob), f"{number}: the code")
            check(all(p.offset < 1 << 13 for p in found.parameters), f"{number}: parameters")
        worst_s = max(worst_s, time.thread_time() - start_s)
    check(MUTATIONS // 20 < refused < MUTATIONS, f"{refused} refused")
    check(worst_s < CPU_LIMIT_S, f"the slowest took {worst_s} s of processor time")

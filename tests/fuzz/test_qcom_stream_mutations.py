"""20,000 mutated dumps of Adreno's streams: MalformedInput or a listing, soon, in bounds."""

from __future__ import annotations

import random
import resource
import struct
import time

import pytest

from drivers.base.errors import DeviceError, MalformedInput
from drivers.base.ioctl import Struct
from drivers.qcom.kgsl.abi import DevInfo
from queues.decode import decoder, listing, words_of
from queues.qcom.chips import chip_of
from tests.mutation import CPU_LIMIT_S, MEMORY_LIMIT_KIB, MUTATIONS, mutate
from tests.qcom_packets import STREAMS
from tests.support import check


@pytest.mark.parametrize("chip", STREAMS)
def test_mutated_dumps(chip: str) -> None:
    form, packets = decoder("qcom", chip), STREAMS[chip]
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
    check(refused > MUTATIONS // 20 and listed > MUTATIONS, f"{refused} refused, {listed} listed")
    check(worst_s <= CPU_LIMIT_S, f"one input took {worst_s:.3f} s")
    check(grown <= MEMORY_LIMIT_KIB, f"memory grew by {grown} KiB")


def test_mutated_properties() -> None:
    """What KGSL says of the chip: one that is known, or an error of ours."""
    good = bytes(DevInfo(chip_id=0x06030001, mmu_enabled=1, gmem_sizebytes=1 << 20).raw)
    known = 0
    for number in range(MUTATIONS):
        blob = mutate(good, random.Random(number))
        try:
            info: Struct = DevInfo.of(blob)
            known += chip_of(DevInfo.of(bytes(info.raw)).chip_id) is not None
        except DeviceError:
            continue
    check(known > MUTATIONS // 4, f"{known} were known")

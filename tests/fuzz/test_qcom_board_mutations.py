"""20,000 mutated streams and requests: the Adreno board answers by errno or fault, never else."""

from __future__ import annotations

import random
import time

import pytest

from boards.qcom.hardware import AdrenoOptions
from boards.qcom.kgsl import abi as kgsl
from boards.qcom.machine import open_qcom_board
from boards.qcom.msm import abi as msm
from boards.qcom.wave.dispatch import Outcome
from tests.qcom_boards import CONTEXT_FLAGS, Client, halves, type4, type7
from tests.qcom_msm import MsmClient
from tests.qcom_streams import Dispatch, clean, code
from tests.share import part
from tests.support import check

STREAMS = part(20_000, 2_000)
REQUESTS = part(20_000, 2_000)
LONGEST_S = 0.25
_EACH = 250
"""Mutations in front of one board."""


def _stream(chip: str, va: int) -> list[int]:
    generation = 7 if chip in ("a740", "x1-85") else 6
    return [
        *Dispatch(generation, va, lpac=chip == "a660", chip=chip).words(),
        *clean(generation, va + 1024), *type7(0x26), *type7(0x3D, *halves(va + 1032), 1, 2),
        *type7(0x3E, 0x980 | 2 << 18 | 1 << 30, *halves(va + 1040)),
        *type7(0x73, 0, *halves(va + 1048), *halves(va + 1040)), *type4(0xA9B4, *halves(va)),
        *type7(0x44, *halves(va), *halves(va), 1, 2), *type7(0x10, 0, 0),
        *type7(0x3C, 3 | 1 << 4, *halves(va + 1032), 1, 0xFFFFFFFF, 16),
        *type7(0x3F, *halves(va + 2048), 4),
    ]  # fmt: skip


def _mutated(rng: random.Random, words: list[int]) -> list[int]:
    made = list(words)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(made))
        kind = rng.randrange(6)
        if kind == 0:
            made[at] ^= 1 << rng.randrange(32)
        elif kind == 1:
            made[at] = rng.choice((0, 0xFFFFFFFF, 0x7FFFFFFF, rng.getrandbits(32)))
        elif kind == 2:
            made = made[: at + 1]
        elif kind == 3:
            made.insert(at, rng.choice(words))
        elif kind == 4:
            del made[at : at + rng.randrange(1, 4)]
            made = made or [0]
        else:
            made[at : at + 1] = type7(rng.randrange(128), *made[at : at + rng.randrange(9)])
    return made[:1000]


@pytest.mark.parametrize("chip", ["a630", "a660", "a740", "x1-85"])
def test_streams(chip: str) -> None:
    rng = random.Random(chip)
    faults = ended = 0
    slowest_s = 0.0
    for _ in range(STREAMS // 4 // _EACH + 1):
        one = Client(open_qcom_board(chip))
        one.world.gpus[0].engine.machine.run = lambda made, memory: Outcome()
        data, stream = one.alloc(4096), one.alloc(4096)
        data.region.write(0, code())
        data.region.write(2048, b"".join(w.to_bytes(4, "little") for w in type7(0x10, 0, 0, 0)))
        words = _stream(chip, data.va)
        for _ in range(_EACH):
            start_s = time.process_time()
            stamp = one.submit(_mutated(rng, words), stream)
            one.wait(stamp, 10_000)
            slowest_s = max(slowest_s, time.process_time() - start_s)
            ended += 1
        faults += one.world.gpus[0].faults
        check(one.world.gpus[0].engine.jobs == [])
        one.world.power_off()
        check(one.world.hardware.memory.free.used_bytes == 0)
    check(ended // 4 < faults < ended, f"{faults} faults of {ended}")
    check(slowest_s < LONGEST_S, f"the slowest took {slowest_s} s")


def _garbage(rng: random.Random, nbytes: int, plain: bytes) -> bytearray:
    made = bytearray(plain.ljust(nbytes, b"\0")[:nbytes])
    kind = rng.randrange(4)
    if kind == 0:
        return bytearray(rng.choice((b"\0", b"\xff")) * nbytes)
    if kind == 1:
        return bytearray(rng.randbytes(nbytes))
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(nbytes)
        made[at] = rng.choice((0, 1, 2, 0x10, 0xFF, rng.randrange(256)))
    return made


@pytest.mark.parametrize("iface", ["KGSL", "MSM"])
def test_requests(iface: str) -> None:
    rng = random.Random(iface)
    errors = 0
    calls = [(call.request, call.record.nbytes)
             for call in (*(kgsl.CALLS if iface == "KGSL" else ()),
                          *(msm.CALLS if iface == "MSM" else ()))]  # fmt: skip
    for _ in range(REQUESTS // 2 // _EACH + 1):
        options = AdrenoOptions(iface=iface, vm_bind=bool(rng.randrange(2)), dram_bytes=1 << 24)
        world = open_qcom_board("a660", options=options)
        one = Client(world, CONTEXT_FLAGS) if iface == "KGSL" else MsmClient(world)
        kept = one.alloc(4096)
        for _ in range(_EACH):
            number, nbytes = rng.choice(calls)
            request = number ^ (1 << rng.randrange(32) if not rng.randrange(20) else 0)
            data = _garbage(rng, nbytes, rng.randbytes(4))
            try:
                world.ioctl(one.fd, request, data)
            except OSError as error:
                errors += 1
                check(bool(error.errno), str(error))
        kept.region.close()
        world.power_off()
        check(world.hardware.memory.free.used_bytes == 0, "all DRAM is given back")
    check(errors > REQUESTS // 8, f"{errors} errors")

"""Each instruction of the census kernels of sm_86 is executed, or is named here."""

from __future__ import annotations

from boards.nv.chip import CHIPS
from boards.nv.space import GpuSpace
from boards.nv.warp.arch import of_chip
from boards.nv.warp.build import Builder
from boards.nv.warp.fields import NotModelled
from boards.nv.warp.memory import GlobalMemory
from boards.nv.warp.opcodes import UNIFORM, action
from boards.nv.warp.reach import Reach
from tests.nv_cubins import needs_nvrtc
from tests.sass import census
from tests.support import check

pytestmark = needs_nvrtc
LEAST_KERNELS = 50
REFUSED = {0x1B0: "ARRIVES", 0x18C: "ATOMS.ARRIVE", 0x03C: "HMMA.SP"}
"""Nine bits of opcode: barriers in shared memory, and matrices with zeros left out."""


def _executes(word: int) -> bool:
    banks = {number: bytes(1 << 14) for number in range(8)}
    build = Builder(word, 0, banks, of_chip(CHIPS["ga102"]))
    build.take(0, 12)
    build.predicate_in(12, 15, uniform=word & 0x1FF in UNIFORM)
    try:
        action(build, Reach(GlobalMemory(GpuSpace(49)), banks, lambda what: None))
        build.finish()
    except NotModelled:
        return False
    return True


def test_the_census_is_executed_but_for_three_instructions() -> None:
    words = census.words("sm_86")
    refused = [word for word in words if not _executes(word)]
    check({word & 0x1FF for word in refused} == REFUSED.keys(), str([hex(x) for x in refused]))
    check(len(refused) == len(REFUSED), str(len(refused)))
    whole = [words for words in census.kernels("sm_86").values() if not {*words} & {*refused}]
    check(len(whole) >= LEAST_KERNELS, f"{len(whole)} kernels have only what is executed")

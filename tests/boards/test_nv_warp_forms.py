"""Forms of instructions that nvJitLink writes and nvrtc does not: words of its cubins for sm_86.

The decoder, whose text is nvdisasm's, says which instruction a word is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from boards.nv.isa.decode import decode
from boards.nv.isa.text import text
from boards.nv.launch import Launch
from boards.nv.space import GpuSpace
from boards.nv.warp.arch import of_chip
from boards.nv.warp.build import Action, Builder
from boards.nv.warp.memory import GlobalMemory
from boards.nv.warp.opcodes import action
from boards.nv.warp.reach import Reach
from boards.nv.warp.state import Threads
from tests.boards.nv_warp_harness import LOCAL_WINDOW, SHARED_WINDOW, chip_of
from tests.support import check

LANES, REGISTERS = 32, 255
R2P = 0xFE200000010000000007F00007804
WIDE = 0xFCA00078E08020000006005027825
FFMA = 0x1FC80000000C393F80000000037423
BRA = 0xFEA000B800000000001827F007947
SIGNED, INVERTED = 1 << 73, 1 << 30
draw = np.random.default_rng(86)
WORDS = draw.integers(0, 1 << 32, LANES, np.uint32)


def prepared(word: int, name: str) -> tuple[Threads, Action]:
    """The threads of a warp, and one instruction of sm_86."""
    check((found := text(decode(word, "sm_86"), 0).rstrip(" ;")) == name, found)
    launch = Launch(
        chip=chip_of(86), code_va=0, space=GpuSpace(49), grid=(1, 1, 1), block=(LANES, 1, 1),
        constants={}, registers=REGISTERS, barriers=0, shared_bytes=0, local_bytes=0,
        shared_window=SHARED_WINDOW, local_window=LOCAL_WINDOW,
    )  # fmt: skip
    build = Builder(word, 0, {}, of_chip(launch.chip))
    build.take(0, 12)
    build.predicate_in(12, 15)
    reach = Reach(GlobalMemory(launch.space), {}, pytest.fail)
    run = action(build, reach)
    build.finish()
    return Threads(launch, 0, 1), run


def ran(word: int, sources: dict[int, Any], name: str) -> Threads:
    """The threads after that instruction."""
    t, run = prepared(word, name)
    for number, values in sources.items():
        t.registers[number] = values.view(np.uint32)
    with np.errstate(all="ignore"):
        run(t, t.alive)
    return t


@pytest.mark.parametrize("byte", range(4))
def test_predicates_of_a_byte(byte: int) -> None:
    part = f".B{byte}" if byte else ""
    t = ran(R2P & ~(3 << 76) | byte << 76, {0: WORDS}, f"R2P PR, R0{part}, 0x7f")
    for number in range(7):
        expected = WORDS >> np.uint32(8 * byte + number) & np.uint32(1)
        np.testing.assert_array_equal(t.predicates[number], expected.astype(bool))


@pytest.mark.parametrize("signed", [False, True])
def test_a_wide_product_less_a_number(signed: bool) -> None:
    low, high = (draw.integers(0, 1 << 32, LANES, np.uint32) for _ in range(2))
    word = WIDE | SIGNED if signed else WIDE
    name = f"IMAD.WIDE{'' if signed else '.U32'} R2, R5, 0x60, -R2"
    t = ran(word, {5: WORDS, 2: low, 3: high}, name)
    for lane in range(LANES):
        factor = int(WORDS.view(np.int32)[lane] if signed else WORDS[lane])
        value = factor * 0x60 - (int(high[lane]) << 32 | int(low[lane]))
        found = int(t.registers[3][lane]) << 32 | int(t.registers[2][lane])
        check(found == value % (1 << 64), f"lane {lane}: {found:#x} of {value:#x}")


def test_a_product_with_a_magnitude() -> None:
    one, two = (draw.standard_normal(LANES).astype(np.float32) for _ in range(2))
    t = ran(FFMA, {0: one, 57: two}, "FFMA R3, R0, -|R57|, 1")
    exact = 1 - one.astype(np.longdouble) * np.abs(two)
    np.testing.assert_array_equal(t.registers[3].view(np.float32), exact.astype(np.float32))


@pytest.mark.parametrize("inverted", [False, True])
def test_a_branch_where_lanes_parted(inverted: bool) -> None:
    """Taken where a lane of the mask, which has not ended, is elsewhere; URZ has none of them."""
    word, name = (BRA, "~URZ") if inverted else (BRA & ~INVERTED, "URZ")
    for away, ended in ((0, 0), (1, 0), (1, 1)):
        t, run = prepared(word, f"BRA.DIV {name}, 0x190")
        t.alive[:ended] = False
        here = t.alive.copy()
        here[:away] = False
        run(t, here)
        taken = inverted and away > ended
        np.testing.assert_array_equal(t.pc, np.where(here & taken, 0x190, 0))

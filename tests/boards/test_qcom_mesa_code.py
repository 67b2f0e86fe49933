"""What Mesa's compiler leaves out, and the board must not ask for; and what it counts on.

# src: Mesa 25.0.7, src/freedreno/ir3: ir3_legalize.c, ir3_lower_parallelcopy.c, ir3_delay.c,
ir3_compiler_nir.c (dp4acc), ir3_compiler.c (max_const_compute); common/freedreno_devices.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from boards.qcom.chips import CHIPS
from boards.qcom.cp.rights import Rights
from boards.qcom.wave.dispatch import Outcome
from tests.boards.ir3_runner import BASE, execute, results
from tests.qcom_boards import client, type4
from tests.qcom_streams import Dispatch, code
from tests.support import check

_HEAD = """
mov.u32u32 r2.x, c0.x
mov.u32u32 r2.y, c0.y
mov.u32u32 r3.x, c0.z
mov.u32u32 r3.y, c0.w
(rpt5)nop
"""
_CONSTANTS = [BASE & 0xFFFFFFFF, BASE >> 32, 7, 9, 0, 0, 0, 0]


def _run(text: str, **more: Any) -> tuple[Outcome, Any]:
    words = np.arange(4096, dtype=np.uint32)
    return execute(_HEAD + text + "\nend", list(_CONSTANTS), words, **more), words


def _kinds(text: str, **more: Any) -> set[str]:
    return {violation.kind for violation in _run(text, **more)[0].violations}


def test_a_swap_takes_two_cycles() -> None:
    """swz->repeat = 1; what was computed before it is two cycles older after it."""
    swap = "swz.u32u32 r3.x, r3.y, r3.y, r3.x"
    check(_kinds(f"add.u r4.x, r3.x, r3.y\n{swap}\nnop\nadd.u r4.y, r4.x, 1") == set())
    early = f"add.u r4.x, r3.x, r3.y\n{swap}\nadd.u r4.y, r4.x, 1"
    check(_kinds(early) == {"read 1 cycles before its delay"}, str(_kinds(early)))


def test_a_barrier_that_ends_its_block() -> None:
    """A branch leads behind the barrier: the jump that had the waits is gone."""
    loop = """bar.g
(nop3) add.u r3.x, r3.x, 1
cmps.u.lt p0.x, r3.x, 9
(rpt5)nop
br p0.x, #-3
(jp)nop"""
    check(_kinds(loop) == set(), str(_kinds(loop)))
    straight = "bar.g\n(nop2) add.u r3.x, r3.x, 1"
    check(_kinds(straight) == {"no (ss) and (sy) after a barrier"})


@pytest.mark.parametrize(("generation", "early", "clean"), [(7, True, True), (7, False, False)])
def test_a1_in_an_early_preamble(generation: int, early: bool, clean: bool) -> None:
    """It is waited for by (ss) there, elsewhere by time."""
    text = """shps #4
mova1 a1.x, 4
(ss)nop
stc.u32 c[a1.x], r3.x, 1
(sy)(ss)shpe
(jp)nop"""
    found = _kinds(text, generation=generation, early_preamble=early)
    late = {kind for kind in found if "before its delay" in kind}
    check(not late if clean else bool(late), str(found))


def test_a_predicate_that_another_one_decides() -> None:
    """p0.y is of a register without a value where p0.x is true."""
    text = """cmps.u.lt p0.x, r0.x, 32
(rpt5)nop
predt
predf
mov.u32u32 r5.x, c0.z
prede
(rpt5)nop
cmps.u.lt p0.y, r5.x, 5
(rpt5)nop
{0} p0.y, p0.x, #1
nop
(jp)nop"""
    check(_kinds(text.format("brao")) == set(), str(_kinds(text.format("brao"))))
    check(_kinds(text.format("braa")) == {"uninitialised register"})


def test_uniform_buffers_that_packets_have_loaded() -> None:
    text = """mova1 a1.x, 4
(rpt5)nop
ldc.1.k.imm c[a1.x], 0, 3
(sy)(rpt5)nop
mov.u32u32 r4.x, c1.z
(rpt5)nop
stg.u32 g[r2.x], r4.x, 1"""
    outcome, words = _run(text, ubos={3: (BASE + 256, 16)})
    check(not outcome.violations and int(words[0]) == 66, f"{outcome} {words[0]}")
    check({v.kind for v in _run(text)[0].violations} == {"UBO that was not loaded"})


def test_four_products_of_signed_bytes() -> None:
    """dp4acc.mixed.high: both are signed. # src: emit_alu_dot_4x8_as_dp4acc()"""
    made = np.random.default_rng(5)
    a, b, c = (made.integers(0, 1 << 32, 640, dtype=np.uint32) for _ in range(3))
    got = results("(nop1) dp4acc.mixed.high {out}, {0}, {1}, {2}", [a, b, c])
    products = a.view(np.int8).astype(np.int64) * b.view(np.int8)
    wanted = products.reshape(-1, 4).sum(axis=1) + c
    np.testing.assert_array_equal(got, wanted.astype(np.uint32))


def test_which_chips_compute_on_shared_registers() -> None:
    have = {name for name, chip in CHIPS.items() if chip.scalar_alu}
    check(have == {"a650", "a660", "a690", "a730", "a740", "a750", "x1-85"}, str(have))


def test_registers_of_one_chip() -> None:
    for register in (0x930A, 0x960A):
        Rights("a750", 7).check_write(register)
        check(register not in Rights("a740", 7)._existing)


@pytest.mark.parametrize(("chip", "most"), [("a630", 256), ("a740", 512), ("x1-85", 256)])
def test_most_constants(chip: str, most: int) -> None:
    for constlen, expected in ((most, False), (most + 4, True)):
        with client(chip, clean=False) as one:
            block = one.alloc(4096)
            block.region.write(0, code())
            made = Dispatch(CHIPS[chip].generation, block.va, lpac=CHIPS[chip].lpac, chip=chip)
            register = 0xB987 if CHIPS[chip].generation < 7 else 0xA9CD
            one.wait(one.submit(made.words(
                constlen=type4(register, 1 << 8 | constlen >> 2), sizes=type4(0xA9B1, 3 << 5 | 1)
            )))  # fmt: skip
            kinds = [v for v in one.world.violations if "a kernel has" in str(v)]
            check(bool(kinds) == expected, f"{chip} {constlen}: {one.world.violations}")

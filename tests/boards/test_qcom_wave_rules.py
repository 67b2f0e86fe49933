"""What ir3 code may not do on the board: each rule kept once and broken once on purpose."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from boards.qcom.wave.dispatch import Outcome
from tests.boards.ir3_runner import BASE, execute
from tests.support import check

_CONSTANTS: Final = [BASE & 0xFFFFFFFF, BASE >> 32, 7, 9, 0, 0, 0, 0]
LOW: Final = """
mov.u32u32 r2.x, c0.x
mov.u32u32 r2.y, c0.y
mov.u32u32 r3.x, c0.z
mov.u32u32 r3.y, c0.w
(rpt5)nop
"""


def _run(text: str, **more: Any) -> Outcome:
    words = np.arange(4096, dtype=np.uint32)
    return execute(LOW + text + "\nend", list(_CONSTANTS), words, **more)


def _kinds(outcome: Outcome) -> set[str]:
    return {violation.kind for violation in outcome.violations}


KEPT_AND_BROKEN: Final[dict[str, tuple[str, str, str]]] = {
    "result of the ALU": (
        "(nop3) add.u r4.x, r3.x, r3.y\nadd.u r4.y, r4.x, 1",
        "(nop2) add.u r4.x, r3.x, r3.y\nadd.u r4.y, r4.x, 1",
        "read 1 cycles before its delay",
    ),
    "result of the ALU, for a load": (
        "add.u r4.x, r2.x, 4\nmov.u32u32 r4.y, r2.y\n(rpt5)nop\nldg.u32 r5.x, g[r4.x], 1",
        "add.u r4.x, r2.x, 4\nmov.u32u32 r4.y, r2.y\n(rpt4)nop\nldg.u32 r5.x, g[r4.x], 1",
        "read 1 cycles before its delay",
    ),
    "half of a full register": (
        "mov.u32u32 r4.x, 5\n(rpt5)nop\nadd.u hr12.x, hr8.x, hr8.y",
        "mov.u32u32 r4.x, 5\n(rpt4)nop\nadd.u hr12.x, hr8.x, hr8.y",
        "read 1 cycles before its delay",
    ),
    "third source of mad": (
        "(nop1) add.f r4.x, r3.x, r3.y\nmad.f32 r4.y, r3.x, r3.y, r4.x",
        "add.f r4.x, r3.x, r3.y\nmad.f32 r4.y, r3.x, r3.y, r4.x",
        "read 1 cycles before its delay",
    ),
    "rows of (rpt)": (
        "(rpt3)mov.u32u32 r4.x, c0.z\n(rpt2)nop\nadd.u r5.x, r4.w, 1",
        "(rpt3)mov.u32u32 r4.x, c0.z\n(rpt1)nop\nadd.u r5.x, r4.w, 1",
        "read 1 cycles before its delay",
    ),
    "predicate": (
        "cmps.u.lt p0.x, r3.x, 8\n(rpt5)nop\nbr p0.x, #1\n(jp)nop",
        "cmps.u.lt p0.x, r3.x, 8\n(rpt4)nop\nbr p0.x, #1\n(jp)nop",
        "read 1 cycles before its delay",
    ),
    "special function": (
        "rcp r4.x, r3.x\n(ss)add.f r4.y, r4.x, r4.x",
        "rcp r4.x, r3.x\n(rpt5)nop\nadd.f r4.y, r4.x, r4.x",
        "used without (ss)",
    ),
    "global load": (
        "ldg.u32 r4.x, g[r2.x], 1\n(sy)add.u r4.y, r4.x, 1",
        "ldg.u32 r4.x, g[r2.x], 1\n(ss)add.u r4.y, r4.x, 1",
        "used without (sy)",
    ),
    "global load that is written over": (
        "ldg.u32 r4.x, g[r2.x], 1\n(sy)mov.u32u32 r4.x, 1",
        "ldg.u32 r4.x, g[r2.x], 1\nmov.u32u32 r4.x, 1",
        "used without (sy)",
    ),
    "shared load": (
        "mov.u32u32 r4.x, 0\n(rpt5)nop\nstl.u32 l[r4.x], r3.x, 1\nldl.u32 r4.y, l[r4.x], 1\n"
        "(ss)add.u r4.z, r4.y, 1",
        "mov.u32u32 r4.x, 0\n(rpt5)nop\nstl.u32 l[r4.x], r3.x, 1\nldl.u32 r4.y, l[r4.x], 1\n"
        "(sy)add.u r4.z, r4.y, 1",
        "used without (ss)",
    ),
    "sources of a load": (
        "ldg.u32 r4.x, g[r2.x], 1\n(ss)mov.u32u32 r2.x, 1",
        "ldg.u32 r4.x, g[r2.x], 1\nmov.u32u32 r2.x, 1",
        "overwritten before it was read",
    ),
    "sources of a load, by (sy)": (
        "ldg.u32 r4.x, g[r2.x], 1\n(sy)mov.u32u32 r2.x, 1",
        "ldg.u32 r4.x, g[r2.x], 1\n(rpt5)nop\nmov.u32u32 r2.x, 1",
        "overwritten before it was read",
    ),
    "sources of a store": (
        "stg.u32 g[r2.x], r3.x, 1\n(ss)mov.u32u32 r3.x, 1",
        "stg.u32 g[r2.x], r3.x, 1\n(sy)mov.u32u32 r3.x, 1",
        "overwritten before it was read",
    ),
    "shared register": (
        "mov.u32u32 r49.x, r3.x\n(ss)add.u r4.x, r49.x, r3.x",
        "mov.u32u32 r49.x, r3.x\n(rpt5)nop\nadd.u r4.x, r49.x, r3.x",
        "used without (ss)",
    ),
    "barrier": (
        "bar.g\n(ss)nop\n(sy)add.u r4.x, r3.x, 1",
        "bar.g\n(ss)nop\nadd.u r4.x, r3.x, 1",
        "no (ss) and (sy) after a barrier",
    ),
    "constant file": (
        "mov.u32u32 r49.x, 3\n(ss)nop\nstc.u32 c[4], r49.x, 1\n(ss)mov.u32u32 r4.x, c1.x",
        "mov.u32u32 r49.x, 3\n(ss)nop\nstc.u32 c[4], r49.x, 1\nmov.u32u32 r4.x, c1.x",
        "constants read without (ss) or (sy)",
    ),
    "meeting at (jp)": (
        "cmps.u.lt p0.x, r0.x, 8\n(rpt5)nop\nbr p0.x, #2\nadd.u r4.x, r3.x, 1\n(jp)nop",
        "cmps.u.lt p0.x, r0.x, 8\n(rpt5)nop\nbr p0.x, #2\nadd.u r4.x, r3.x, 1\nnop",
        "lanes meet without (jp)",
    ),
    "uninitialised register": (
        "mov.u32u32 r4.x, 1\n(rpt2)nop\nadd.u r4.y, r4.x, 1",
        "add.u r4.y, r5.x, 1",
        "uninitialised register",
    ),
    "register of other lanes": (
        "mov.u32u32 r4.x, 0\ncmps.u.lt p0.x, r0.x, 8\n(rpt5)nop\nbr p0.x, #2\n"
        "mov.u32u32 r4.x, 1\n(jp)(rpt5)nop\nadd.u r4.y, r4.x, 1",
        "cmps.u.lt p0.x, r0.x, 8\n(rpt5)nop\nbr p0.x, #2\n"
        "mov.u32u32 r4.x, 1\n(jp)(rpt5)nop\nadd.u r4.y, r4.x, 1",
        "uninitialised register",
    ),
    "a selection of a register with a value": (
        "mov.u32u32 r4.x, 1\n(rpt5)nop\nsel.b32 r4.x, r3.x, r4.x, r5.x\n(rpt5)nop\n"
        "add.u r4.y, r4.x, 1",
        "mov.u32u32 r4.x, 0\n(rpt5)nop\nsel.b32 r4.x, r3.x, r4.x, r5.x\n(rpt5)nop\n"
        "add.u r4.y, r4.x, 1",
        "uninitialised register",
    ),
    "shared memory that is written": (
        "mov.u32u32 r4.x, 0\n(rpt5)nop\nstl.u32 l[r4.x], r3.x, 1\nldl.u32 r4.y, l[r4.x], 1",
        "mov.u32u32 r4.x, 0\n(rpt5)nop\nldl.u32 r4.y, l[r4.x], 1",
        "shared memory read before it was written",
    ),
    "private memory that is written": (
        "mov.u32u32 r4.x, 0\n(rpt5)nop\nstp.u32 p[r4.x], r3.x, 1\nldp.u32 r4.y, p[r4.x], 1",
        "mov.u32u32 r4.x, 0\n(rpt5)nop\nldp.u32 r4.y, p[r4.x], 1",
        "private memory read before it was written",
    ),
    "shared memory's end": (
        "mov.u32u32 r4.x, 1020\n(rpt5)nop\nstl.u32 l[r4.x], r3.x, 1",
        "mov.u32u32 r4.x, 1024\n(rpt5)nop\nstl.u32 l[r4.x], r3.x, 1",
        "shared memory out of bounds",
    ),
    "constant within constlen": (
        "mov.u32u32 r4.x, c1.w", "mov.u32u32 r4.x, c2.x", "constant beyond constlen",
    ),
    "register within the footprint": (
        "mov.u32u32 r23.w, 1", "mov.u32u32 r24.x, 1", "register beyond the footprint",
    ),
    "alignment": (
        "ldg.u32 r4.x, g[r2.x+4], 1", "ldg.u32 r4.x, g[r2.x+2], 1", "misaligned",
    ),
}  # fmt: skip
_MORE: Final = {"shared_bytes": 1024, "private_bytes": 512}


@pytest.mark.parametrize("rule", KEPT_AND_BROKEN)
def test_rule(rule: str) -> None:
    """Code that keeps it is clean; code that breaks it is named."""
    kept, broken, kind = KEPT_AND_BROKEN[rule]
    clean, found = _run(kept, **_MORE), _run(broken, **_MORE)
    check(clean.fault is None and found.fault is None, f"{clean.fault} {found.fault}")
    check(not clean.violations, f"kept: {[str(v) for v in clean.violations]}")
    check(_kinds(found) == {kind}, f"broken: {[str(v) for v in found.violations]}")


def test_private_memory_by_waves_moves_one_word() -> None:
    text = "mov.u32u32 r4.x, 0\n(rpt5)nop\nstp.u32 p[r4.x], r3.x, {}"
    apart = {**_MORE, "private_by_waves": True}
    check(not _run(text.format(2), **_MORE).violations + _run(text.format(1), **apart).violations)
    check(_kinds(_run(text.format(2), **apart)) == {"words of private memory by waves"})


def test_delays_of_generation_7_are_shorter() -> None:
    """Two cycles between results of the ALU, five before a load."""
    text = "(nop2) add.u r4.x, r3.x, r3.y\nadd.u r4.y, r4.x, 1"
    check(not _run(text, generation=7).violations)
    check(_kinds(_run(text)) == {"read 1 cycles before its delay"})
    text = text.replace("(nop2)", "(nop1)")
    check(_kinds(_run(text, generation=7)) == {"read 1 cycles before its delay"})


_STACKED: Final = """
cmps.u.lt p0.x, r0.x, 8
cmps.u.lt p0.y, r0.x, 4
(rpt5)nop
br !p0.x, #4
br !p0.y, #2
mov.u32u32 r4.x, 1
(jp)nop
(jp)nop
"""


def test_branch_stack() -> None:
    """Two places where lanes are parked need two entries."""
    check(not _run(_STACKED, branch_stack=2).violations)
    check(_kinds(_run(_STACKED, branch_stack=1)) == {"branch stack overflow"})


_EXCHANGE: Final = """
shl.b r4.x, r0.x, 2
sub.u r4.y, 127, r0.x
(rpt2)nop
shl.b r4.y, r4.y, 2
(rpt5)nop
stl.u32 l[r4.x], r3.x, 1
{barrier}
(ss)nop
(sy)ldl.u32 r5.x, l[r4.y], 1
"""


@pytest.mark.parametrize(("barrier", "races"), [("bar.g", False), ("nop", True)])
def test_race_in_shared_memory(barrier: str, races: bool) -> None:
    """Two waves exchange values, with a barrier and without."""
    found = _run(_EXCHANGE.format(barrier=barrier), block=(128, 1, 1), shared_bytes=512)
    kinds = _kinds(found) - {"shared memory read before it was written"}
    check(kinds == ({"race in shared memory"} if races else set()), str(kinds))


@pytest.mark.parametrize(("barrier", "races"), [("bar.g", False), ("nop", True)])
def test_write_after_read_in_shared_memory(barrier: str, races: bool) -> None:
    """A wave overwrites what the other may still have to read."""
    text = _EXCHANGE.format(barrier="bar.g") + f"(ss)nop\n{barrier}\n(ss)nop\n(sy)nop\n"
    text += "stl.u32 l[r4.x], r3.y, 1"
    found = _run(text, block=(128, 1, 1), shared_bytes=512)
    check(_kinds(found) == ({"race in shared memory"} if races else set()), str(found.violations))


def test_barrier_with_a_wave_that_has_ended() -> None:
    """The second wave ends; the first waits for it."""
    text = """
cmps.u.lt p0.x, r0.x, 64
(rpt5)nop
br !p0.x, #3
bar.g
(ss)nop
(sy)(jp)nop
"""
    found = _run(text, block=(128, 1, 1))
    check(_kinds(found) == {"barrier with missing waves"}, str(found.violations))


def test_barrier_in_divergent_code() -> None:
    """Lanes of one wave part before a barrier."""
    text = "cmps.u.lt p0.x, r0.x, 8\n(rpt5)nop\nbr p0.x, #4\nbar.g\n(ss)nop\n(sy)nop\n(jp)nop"
    check("barrier in divergent code" in _kinds(_run(text)))


def test_constant_that_was_not_loaded() -> None:
    """The command processor knows what it has loaded."""
    loaded = np.array([True] * 7 + [False])
    found = _run("mov.u32u32 r4.x, c1.w", loaded=loaded)
    check(_kinds(found) == {"constant that was not loaded"})


def test_page_fault_names_its_instruction() -> None:
    """A load of an address that is not mapped stops the waves."""
    found = _run("mov.u32u32 r2.y, 0\n(rpt5)nop\nldg.u32 r4.x, g[r2.x+8], 1")
    fault = found.fault
    check(fault is not None and fault.kind == "page fault" and fault.access == "read")
    check(fault is not None and fault.va == 8 and fault.text.startswith("ldg"), str(fault))


def test_endless_loop() -> None:
    """A branch to itself."""
    found = _run("jump #0")
    check(found.fault is not None and found.fault.kind == "endless")


@pytest.mark.parametrize(
    "text", ["msad r4.x, r3.x, r3.y", "samb (f32)(xyzw)r4.x, r3.x, r3.y, s#0, t#0"]
)
def test_what_is_not_modelled_is_named(text: str) -> None:
    """An instruction without a meaning here stops the waves."""
    found = _run(text)
    check(found.fault is not None and found.fault.kind == "illegal instruction")
    check(found.fault is not None and "not modelled" in found.fault.detail, str(found.fault))

"""Delay slots, (ss), (sy) and (jp): Mesa's vectors, and one case a rule."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from compilers.qcom.isa import Insn, encode_all, label, link
from compilers.qcom.isa.text import parse, text
from compilers.qcom.legalize import legalize
from drivers.base.errors import CompileError
from tests.ir3_reference import NO_MESA, mesa
from tests.support import check

DELAY_VECTORS = 12


def _code(source: str, generation: int = 6) -> list[Insn]:
    """Lines of Mesa's text; `name:` is a label, `#name` goes there."""
    code = []
    for line in source.strip().splitlines():
        if line.strip().endswith(":"):
            code.append(label(line.strip()[:-1]))
            continue
        named = re.search(r"#([a-z]+)", line)
        insn = parse(re.sub(r"#[a-z]+", "#1", line), generation)
        if named:
            insn.label = named[1]
        code.append(insn)
    return code


def _lines(source: str, generation: int = 6) -> list[str]:
    done = legalize(_code(source, generation), generation)
    return [text(insn, generation) for insn in done if insn.op != "label"]


def _delay_vectors() -> Iterator[tuple[int, str]]:
    root = mesa()
    if root is not None:
        source = (root / "src/freedreno/ir3/tests/delay.c").read_text()
        for found in re.finditer(
            r"^   TEST\((\d+),\n(.*?)\n   \),", source, re.DOTALL | re.MULTILINE
        ):
            yield int(found[1]), found[2]


def _slots_before_last(code: list[Insn]) -> int:
    slots = 0
    for insn in reversed(code[:-1]):
        if insn.op != "nop":
            return slots + insn.nop
        slots += 1 + insn.repeat
    return slots


@pytest.mark.skipif(mesa() is None, reason=NO_MESA)
def test_mesas_delays() -> None:
    found = list(_delay_vectors())
    for wanted, source in found:
        slots = _slots_before_last(legalize(_code(source), 6))
        check(slots == wanted, f"{slots} slots, Mesa has {wanted}:\n{source}")
    check(len(found) == DELAY_VECTORS, f"{len(found)} vectors")


CASES = {
    "sfu to alu": ("rcp r0.x, r1.x\nadd.f r2.x, r0.x, r0.x", ["rcp", "(ss)add.f"]),
    "sfu to sfu": ("rcp r0.x, r1.x\nrsq r2.x, r0.x", ["rcp", "(ss)rsq"]),
    "sfu source overwritten": ("rcp r0.x, r1.x\nmov.u32u32 r1.x, 0", ["rcp", "(ss)mov.u32u32"]),
    "sfu result overwritten": ("rcp r0.x, r1.x\nmov.u32u32 r0.x, 0", ["rcp", "(ss)mov.u32u32"]),
    "global load": (
        "ldg.f32 r0.x, g[r2.x], 1\nadd.f r1.x, r0.x, r0.x", ["ldg.f32", "(sy)add.f"],
    ),
    "fourth word of a load": (
        "ldg.f32 r4.x, g[r2.x], 4\nadd.f r1.x, r4.w, r4.w", ["ldg.f32", "(sy)add.f"],
    ),
    "halves of a load": (
        "ldg.f16 hr0.x, g[r2.x], 2\nadd.f r1.x, r0.x, r0.x", ["ldg.f16", "(sy)add.f"],
    ),
    "address overwritten": (
        "ldg.f32 r0.x, g[r2.x], 1\nmov.u32u32 r2.y, 0", ["ldg.f32", "(ss)mov.u32u32"],
    ),
    "address overwritten after (sy)": (
        "ldg.f32 r0.x, g[r2.x], 1\nadd.f r1.x, r0.x, r0.x\nmov.u32u32 r2.y, 0",
        ["ldg.f32", "(sy)add.f", "mov.u32u32"],
    ),
    "stored word overwritten": (
        "stg.f32 g[r2.x], r0.x, 2\nmov.u32u32 r0.y, 0", ["stg.f32", "(ss)mov.u32u32"],
    ),
    "store is no (sy) result": (
        "stg.f32 g[r2.x], r0.x, 1\nadd.f r1.x, r0.x, r0.x", ["stg.f32", "add.f"],
    ),
    "local load": ("ldl.u32 r0.x, l[r1.x], 1\nadd.u r2.x, r0.x, r0.x", ["ldl.u32", "(ss)add.u"]),
    "private load": ("ldp.u32 r0.x, p[r1.x], 1\nadd.u r2.x, r0.x, r0.x", ["ldp.u32", "(sy)add.u"]),
    "local load to a store": (
        "ldl.u32 r0.x, l[r1.x], 1\nstg.u32 g[r2.x], r0.x, 1", ["ldl.u32", "(ss)nop", "stg.u32"],
    ),
    "texture": (
        "sam (f32)(xy)r0.x, r2.x, s#0, t#0\nadd.f r1.x, r0.y, r0.y", ["sam", "(sy)add.f"],
    ),
    "unwritten component of a texture": (
        "sam (f32)(x)r0.x, r2.x, s#0, t#0\nadd.f r1.x, r0.y, r0.y", ["sam", "add.f"],
    ),
    "coordinate overwritten": (
        "sam (f32)(x)r0.x, r2.x, s#0, t#0\nmov.u32u32 r2.x, 0", ["sam", "(ss)mov.u32u32"],
    ),
    "global atomic": (
        "atomic.g.add.untyped.1d.u32.1.g r0.x, r2.x, r3.x\nadd.u r1.x, r0.x, 1",
        ["atomic.g.add", "(sy)add.u"],
    ),
    "local atomic": (
        "atomic.add.untyped.1d.u32.1.l r0.x, l[r2.x], r3.x\nadd.u r1.x, r0.x, 1",
        ["atomic.add", "(ss)add.u"],
    ),
    "shuffle": ("shfl.xor.u32 r1.x, r0.x, 1\nadd.u r2.x, r1.x, 1", ["shfl", "(ss)add.u"]),
    "lane": ("getfiberid.u32 r0.x\nadd.u r1.x, r0.x, 1", ["getfiberid", "(ss)add.u"]),
    "shared register": ("mov.u32u32 r48.x, 1\nadd.u r0.x, r48.x, 1", ["mov.u32u32", "(ss)add.u"]),
    "barrier": ("bar.g\nadd.u r0.x, r1.x, 1", ["bar.g", "(sy)(ss)add.u"]),
    "constants written": ("stc.u32 c[0], r0.x, 1\nadd.u r1.x, c0.x, 1", ["stc", "(ss)add.u"]),
    "nothing": ("add.u r0.x, r1.x, 1\nadd.u r2.x, r3.x, 1", ["add.u", "add.u"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_synchronisation(name: str) -> None:
    source, wanted = CASES[name]
    found = _lines(source)
    check(
        len(found) == len(wanted)
        and all(line.startswith(begin) for line, begin in zip(found, wanted, strict=True)),
        str(found),
    )


DELAYS = {
    "alu": ("add.f r0.x, r1.x, r1.x\nadd.f r2.x, r0.x, r0.x", 3, 2),
    "half written, full read": ("add.f hr0.x, r1.x, r1.x\nadd.f r2.x, r0.x, r0.x", 6, 5),
    "full written, half read": ("add.f r0.x, r1.x, r1.x\nadd.f r2.x, hr0.y, hr0.y", 6, 5),
    "half": ("add.f hr0.x, r1.x, r1.x\nadd.f r2.x, hr0.x, hr0.x", 3, 2),
    "other half": ("add.f hr0.x, r1.x, r1.x\nadd.f r2.x, hr0.y, hr0.y", 0, 0),
    "third of mad": ("add.f r0.x, r1.x, r1.x\nmad.f32 r2.x, r3.x, r3.x, r0.x", 1, 1),
    "third of sel": ("add.f r0.x, r1.x, r1.x\nsel.b32 r2.x, r3.x, r3.x, r0.x", 3, 1),
    "sfu": ("add.f r0.x, r1.x, r1.x\nrcp r2.x, r0.x", 6, 5),
    "store": ("add.f r0.x, r1.x, r1.x\nstg.f32 g[r2.x], r0.x, 1", 6, 5),
    "second word of an address": ("add.u r2.y, r1.x, 1\nldg.f32 r0.x, g[r2.x], 1", 6, 5),
    "predicate": ("cmps.f.lt p0.x, r0.x, r1.x\nbr p0.x, #1", 6, 5),
    "other predicate": ("cmps.f.lt p0.y, r0.x, r1.x\nbr p0.x, #1", 0, 0),
    "address": ("mova a0.x, hr0.x\nadd.f r0.x, r1.x, c<a0.x + 1>", 6, 5),
    "repeated": ("(rpt3)mov.f32f32 r0.x, (r)c0.x\nadd.f r2.x, r0.w, r0.w", 3, 2),
    "repeated, its first": ("(rpt3)mov.f32f32 r0.x, (r)c0.x\nadd.f r2.x, r0.x, r0.x", 0, 0),
}


@pytest.mark.parametrize("generation", [6, 7])
@pytest.mark.parametrize("name", DELAYS)
def test_delay(name: str, generation: int) -> None:
    source, *wanted = DELAYS[name]
    slots = _slots_before_last(legalize(_code(source, generation), generation))
    check(slots == wanted[generation - 6], f"{slots} slots")


def test_results_of_a_loops_end_wait_at_its_begin() -> None:
    source = """
        mov.f32f32 r0.x, c0.x
        begin:
        add.f r1.x, r0.x, r2.x
        add.u r3.x, r3.x, 1
        cmps.u.lt p0.x, r3.x, c1.x
        ldg.f32 r2.x, g[r4.x], 1
        br p0.x, #begin
        stg.f32 g[r4.x], r1.x, 1
        end
    """
    found = _lines(source)
    wanted = next(line for line in found if "add.f" in line)
    check(wanted.startswith("(sy)"), wanted)
    check(any(line.startswith("(jp)") and "stg" in line for line in found), str(found))


def test_both_sides_of_a_branch_are_waited_for() -> None:
    source = """
        cmps.f.lt p0.x, r0.x, r1.x
        br p0.x, #other
        rcp r2.x, r0.x
        jump #after
        other:
        ldg.f32 r2.x, g[r4.x], 1
        after:
        add.f r3.x, r2.x, r2.x
        end
    """
    found = _lines(source)
    check(any(line.startswith("(sy)(ss)(jp)add.f") for line in found), str(found))
    check(any("(jp)ldg" in line for line in found), str(found))


def test_shared_registers_wait_on_the_other_side() -> None:
    source = """
        cmps.f.lt p0.x, r0.x, r1.x
        br p0.x, #other
        mov.u32u32 r48.x, 1
        jump #after
        other:
        mov.u32u32 r2.x, r48.x
        after:
        end
    """
    found = _lines(source)
    check(any("(ss)" in line and line.endswith("r2.x, r48.x") for line in found), str(found))


def test_slots_go_where_there_is_room() -> None:
    found = _lines("add.f r0.x, r1.x, r1.x\nrcp r2.x, r0.x")
    check(found == ["(nop3) add.f r0.x, r1.x, r1.x", "(rpt2)nop", "rcp r2.x, r0.x"], str(found))
    encode_all(link(legalize(_code("add.f r0.x, r1.x, r1.x\nrcp r2.x, r0.x"), 6)), 6)


@pytest.mark.parametrize("op", ["call", "ret"])
def test_calls_are_refused(op: str) -> None:
    with pytest.raises(CompileError):
        legalize([Insn(op=op)], 6)

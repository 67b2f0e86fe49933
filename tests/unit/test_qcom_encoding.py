"""ir3 encodings and text against Mesa's vectors, its examples, and its disassembler."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from compilers.qcom.isa import (
    Cond,
    Insn,
    Type,
    branch,
    compare,
    const,
    decode,
    encode,
    flut,
    gpr,
    half,
    immediate,
    label,
    link,
    load,
    op,
    predicate,
    store,
)
from compilers.qcom.isa.tables import all_forms
from compilers.qcom.isa.text import parse, text
from drivers.base.errors import CompileError
from tests.ir3_reference import (
    NO_MESA,
    NO_TINYMESA,
    Vector,
    disassembled,
    has_tinymesa,
    mesa,
    vectors,
    without_index,
)
from tests.support import check

NOT_COMPUTE = ("bary.f", "flat.b", "ray_intersection", "alias.rt.", "raw ")
"""Graphics stages, ray tracing, render targets, and no instruction at all."""
AGREED = {6: 213, 7: 31}
"""Vectors of Mesa 25.0.7 for what a compute shader can contain: all of them."""
SAME_TEXT = ("dsxpp.1", "dsypp.1")
"""Their type is not written."""
ALIAS_BIT = "\t; dontcare bits in alias: 0040000000000000"
"""Set in Mesa 25.0 and in its vectors, free in Mesa 25.2."""
EXAMPLE_LINES = 86
PER_FORM = 30


def _published(generation: int) -> Iterator[Vector]:
    for one in vectors():
        name = re.sub(r"^(\(\w+\))*", "", one.text)
        if one.generation == generation and not name.startswith(NOT_COMPUTE):
            yield one


@pytest.mark.skipif(mesa() is None, reason=NO_MESA)
@pytest.mark.parametrize("generation", [6, 7])
def test_mesas_vectors_both_ways(generation: int) -> None:
    found = list(_published(generation))
    for one in found:
        check(encode(parse(one.text, generation), generation) == one.word, one.text)
        check(text(decode(one.word, generation), generation) == one.text, one.text)
    check(len(found) == AGREED[generation], f"{len(found)} vectors")


def _example_lines() -> Iterator[str]:
    """Instructions of Mesa's examples for computerator, labels as distances."""
    root = mesa()
    folder = root / "src/freedreno/computerator/examples" if root else None
    for path in sorted(folder.glob("*.asm") if folder else ()):
        for line in path.read_text().splitlines():
            code = re.sub(r"\s*;.*", "", line).strip().replace(" + ", "+")
            code = re.sub(r"#(\w*[a-z_]\w*)", "#1", code.replace("nop(sy)", "(sy)nop"))
            if code and not code.startswith("@") and not re.fullmatch(r"\w+:", code):
                yield code


@pytest.mark.skipif(mesa() is None, reason=NO_MESA)
@pytest.mark.skipif(not has_tinymesa(), reason=NO_TINYMESA)
def test_mesas_examples_are_assembled() -> None:
    lines = list(_example_lines())
    words = [encode(parse(line, 6), 6) for line in lines]
    for line, found in zip(lines, disassembled(words, 6), strict=True):
        mine = text(parse(line, 6), 6)
        check(without_index(found) == without_index(mine), f"{line}: {found}")
    check(len(lines) == EXAMPLE_LINES, f"{len(lines)} lines")


def _some_words(generation: int, category: int) -> Iterator[int]:
    """Encodings with random operands, as this encoder writes them."""
    chance = random.Random(f"{generation} {category}")
    for form in all_forms(generation):
        if form.category != category:
            continue
        found = 0
        for _ in range(20 * PER_FORM):
            word = (chance.getrandbits(64) & ~form.mask) | form.match
            if chance.random() < 0.7:  # fewer flags at once
                word &= ~(chance.getrandbits(64) & chance.getrandbits(64)) | form.match
            try:
                read = decode(word, generation)
                canonical = encode(read, generation)
            except CompileError:
                continue  # values that mean nothing
            if read.op == form.op:
                check(decode(canonical, generation) == read, form.op)
                yield canonical
                found += 1
            if found == PER_FORM:
                break
        check(found > PER_FORM // 3 or form.op == "nop", f"{form.op}: {found}")


@pytest.mark.skipif(not has_tinymesa(), reason=NO_TINYMESA)
@pytest.mark.parametrize("category", range(8))
@pytest.mark.parametrize("generation", [6, 7])
def test_random_encodings_read_as_mesa_reads_them(generation: int, category: int) -> None:
    words = list(_some_words(generation, category))
    for word, said in zip(words, disassembled(words, generation), strict=True):
        insn = decode(word, generation)
        mine = text(insn, generation)
        theirs = said.split("\t; no field")[0]  # a gap in the description of dp2acc and wmm
        theirs = theirs.removesuffix(ALIAS_BIT)
        if generation == 6:
            mine, theirs = without_index(mine), without_index(theirs)
        if category == 6:  # Mesa writes a0 and p0 as r61 and r62 where an address stands
            theirs = theirs.replace("r61.", "a0.").replace("r62.", "p0.")
        check(mine == theirs, f"{word:016x}: {mine!r}, Mesa: {theirs!r}")
        moved = insn.op in ("mov", "alias") and "(" in mine.partition(", ")[2]  # %f loses digits
        if insn.op not in SAME_TEXT and not moved:
            again = encode(parse(text(insn, generation), generation), generation)
            check(again == word, f"{mine}: {again:016x}, not {word:016x}")


@pytest.mark.parametrize(
    "insn",
    [
        op("add.s", gpr(0), gpr(1), immediate(1024)),
        op("add.s", gpr(0), gpr(1), immediate(-1025)),
        op("add.f", gpr(0), gpr(1), const(2048)),
        op("add.f", gpr(0), half(1), gpr(2)),
        op("add.f", gpr(256), gpr(1), gpr(2)),
        op("mad.f32", gpr(0), gpr(1), const(2), gpr(3)),
        op("mad.f32", gpr(0), half(1), half(2), half(3)),
        op("mad.f16", half(0), gpr(1), gpr(2), gpr(3)),
        op("mad.f32", gpr(0), immediate(1), gpr(2), gpr(3)),
        op("shlg", gpr(0), const(1), gpr(2), gpr(3)),
        load("ldg", Type.F32, gpr(0), gpr(2), off=4096),
        load("ldg", Type.F32, gpr(0), gpr(2), size=8),
        load("ldg", Type.F16, gpr(0), gpr(2)),
        load("ldl", Type.F32, gpr(0), gpr(2), size=256),
        store("stg", Type.F32, gpr(2), half(0)),
        store("stl", Type.F32, gpr(2), gpr(0), off=-4097),
        Insn(op="cmps.s", dst=predicate(), srcs=(gpr(0), gpr(1)), fields={"cond": 6}),
        Insn(op="nop", repeat=8),
        Insn(op="add.f", dst=gpr(0), srcs=(gpr(1), gpr(2)), repeat=4),
        Insn(op="add.f", dst=gpr(0), srcs=(gpr(1), gpr(2)), repeat=1, nop=1),
        Insn(op="add.f", dst=gpr(0), srcs=(gpr(1), gpr(2)), nop=4),
        Insn(op="ldg", dst=gpr(0), srcs=(gpr(1),), flags={"ss"}, fields={"type": 1}),
        Insn(op="rcp", dst=gpr(0), srcs=(gpr(1),), fields={"cond": 1}),
        Insn(op="bary.f", dst=gpr(0), srcs=(gpr(1),)),
        Insn(op="lock"),
    ],
    ids=lambda insn: insn.op,
)
def test_what_does_not_fit_is_an_error(insn: Insn) -> None:
    with pytest.raises(CompileError):
        encode(insn, 6)


def test_branches_get_their_distances() -> None:
    code = [
        compare("cmps.f", Cond.LT, predicate(1), gpr(0), flut("1.0")),
        label("again"),
        branch("out", predicate(1), inverted=True),
        branch("again", predicate()),
        label("out"),
        op("end", None),
    ]
    found = [text(insn, 6) for insn in link(code)]
    wanted = ["cmps.f.lt p0.y, r0.x, (1.0)", "br !p0.y, #2", "br p0.x, #-1", "end"]
    check(found == wanted, str(found))
    with pytest.raises(CompileError):
        link([branch("nowhere", predicate())])
    with pytest.raises(CompileError):
        link([label("twice"), label("twice")])


@pytest.mark.parametrize(
    "line",
    [
        "", "add.f", "add.f r0.x", "mov.f32 r0.x, r1.x", "nosuch r0.x", "mov.f32f32 r0.x",
        "ldg.f32 r0.x, g[r0.x, 1", "br p0.q, #1",
    ],
)  # fmt: skip
def test_text_that_is_no_instruction(line: str) -> None:
    with pytest.raises(CompileError):
        parse(line, 6)

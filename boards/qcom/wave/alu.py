"""Categories 2, 3 and 4: from a decoded instruction to what it does to a chunk of waves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.qcom.isa.instruction import Instruction, Operand, Space
from boards.qcom.wave import floats, integers
from boards.qcom.wave.bits import NotModelled
from boards.qcom.wave.convert import narrow
from boards.qcom.wave.operands import Sink, Source, Uses, dtype_of, modified, sink, source
from boards.qcom.wave.state import FULL, P0, Waves

Run = Callable[[Waves], None]
_SATURATING: Final = {"add.u": False, "add.s": False, "sub.u": True, "sub.s": True}
_LATE: Final = {6: 2, 7: 1}
"""Cycles after which a third source is read. # src: Mesa 25.0.7, ir3_compiler.c, cat3_src2_read"""
_READ_LATE_ON_6: Final = ("mad.", "madsh.")
"""Generation 7: all of category 3. # src: Mesa 25.0.7, ir3_delay.c, ir3_src_read_delay"""
_SIGNED: Final = (".s", ".s24", ".s16", ".s32")


def kind_of(op: str) -> str:
    """How an operation reads its sources: "f", "s", "u" or, as bits, "b"."""
    if op.endswith((".f", ".f16", ".f32")):
        return "f"
    if op.endswith(_SIGNED):
        return "s"
    return "b" if op.endswith(".b") else "u"


def bind(inst: Instruction, generation: int, uses: Uses) -> Run:
    """Raises: NotModelled."""
    if inst.dst is None:
        raise NotModelled("no destination")
    steps = [_step(inst, inst.dst, generation, uses, step) for step in range(inst.repeat + 1)]
    if len(steps) == 1:
        compute, store = steps[0]
        return lambda w: store(w, compute(w))

    def run(w: Waves) -> None:
        values = [compute(w) for compute, _ in steps]
        for (_, store), value in zip(steps, values, strict=True):
            store(w, value)

    return run


def _step(
    inst: Instruction, dst: Operand, generation: int, uses: Uses, step: int
) -> tuple[Callable[[Waves], Array], Callable[[Waves, Array], None]]:
    kind = "f" if inst.category == 4 else kind_of(inst.op)
    reads = [
        modified(
            _flushed(
                source(
                    operand, "u" if kind == "b" else kind, uses,
                    step=step, at=_late(inst, number, generation),
                ), operand, kind, step,
            ), operand, kind,
        )
        for number, operand in enumerate(inst.srcs)
    ]  # fmt: skip
    compute = _computation(inst, kind, reads)
    result = kind if kind != "b" else "u"
    if inst.op.startswith("cmps"):
        result = "u"
    return (
        _converted(compute, dst, result, saturate="sat" in inst.sync and kind == "f"),
        _noted(sink(dst, uses, step=step, at=step), dst, result, step),
    )


def _flushed(read: Source, operand: Operand, kind: str, step: int) -> Source:
    """A float source without subnormal numbers; a full row that has none is looked at once."""
    if kind != "f":
        return read
    number = operand.number + (step if operand.repeat else 0)
    if operand.half or operand.space is not Space.REGISTER or number >= FULL:
        return lambda w: floats.flush(read(w))

    def look(w: Waves) -> Array:
        row: Array = w.f[number]
        if w.flushed[number]:
            return row
        clean = floats.flush(row)
        w.flushed[number] = clean is row
        return clean

    return look


def _noted(store: Sink, dst: Operand, result: str, step: int) -> Sink:
    """Notes that a row holds results of float32 operations."""
    number = dst.number + step
    if result != "f" or dst.half or dst.space is not Space.REGISTER or number >= FULL:
        return store

    def into(w: Waves, value: Array) -> None:
        before = w.flushed[number]
        store(w, value)
        w.flushed[number] = before or w.mask is None

    return into


def _late(inst: Instruction, number: int, generation: int) -> int:
    if inst.category != 3 or number != 2:
        return 0
    late = generation >= 7 or inst.op.startswith(_READ_LATE_ON_6)
    return _LATE[min(generation, 7)] if late else 0


def _computation(inst: Instruction, kind: str, reads: list[Source]) -> Callable[[Waves], Array]:
    function = _function(inst, kind)
    if len(reads) == 1:
        (one,) = reads
        return lambda w: function(one(w))
    if len(reads) == 2:
        first, second = reads
        return lambda w: function(first(w), second(w))
    if len(reads) == 3:
        a, b, c = reads
        return lambda w: function(a(w), b(w), c(w))
    raise NotModelled(f"{len(reads)} sources")


def _function(inst: Instruction, kind: str) -> Callable[..., Array]:
    op, count = inst.op, len(inst.srcs)
    if op.startswith("cmps"):
        if inst.fields["COND"] >= len(floats.COMPARE):
            raise NotModelled(f"condition {inst.fields['COND']}, which is none")
        compare = floats.COMPARE[inst.fields["COND"]]
        if kind == "f":
            return lambda a, b: compare(a, b).astype(np.uint32)
        return lambda a, b: compare(a, b).astype(np.uint32)
    if "sat" in inst.sync and kind != "f":
        if op not in _SATURATING:
            raise NotModelled("(sat) of it")
        minus = _SATURATING[op]
        return lambda a, b: integers.saturating(a, b, minus=minus)
    if op in ("dp2acc", "dp4acc"):
        return _dot(inst)
    tables: dict[tuple[int, int], Mapping[str, Callable[..., Array]]] = {
        (2, 1): {**floats.ONE, **integers.ONE},
        (2, 2): {**floats.TWO, **integers.TWO},
        (3, 3): {**integers.THREE, "mad.f32": floats.mad, "mad.f16": floats.mad},
        (4, 1): floats.SPECIAL,
    }
    found = tables.get((inst.category, count), {}).get(op)
    if found is None:
        raise NotModelled("no meaning in this executor")
    return found


def _dot(inst: Instruction) -> Callable[..., Array]:
    mixed = bool(inst.fields.get("SRC_SIGN", 0))
    high = bool(inst.fields.get("SRC_PACK", 0))
    four = inst.op == "dp4acc"
    first, count = (0, 4) if four else ((2 if high else 0), 2)
    both = four and high  # src: Mesa 25.0.7, ir3_compiler_nir.c, emit_alu_dot_4x8_as_dp4acc()
    return lambda a, b, c: integers.dot(a, b, c, mixed=mixed, both=both, first=first, count=count)


def _converted(
    compute: Callable[[Waves], Array], dst: Operand, kind: str, *, saturate: bool
) -> Callable[[Waves], Array]:
    """The result in the destination's width; towards zero where it is narrowed."""
    wanted = dtype_of(kind, half=dst.half)
    predicate = dst.number >= P0

    def run(w: Waves) -> Array:
        value = compute(w)
        if saturate:
            value = floats.saturate(value)
        if predicate or value.dtype == wanted:
            return value
        return narrow(value, wanted)

    return run

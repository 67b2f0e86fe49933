"""Kernel ops on scalars, as ir3 operations on words.

An integer of fewer than 32 bits is a word with its value, a float16 is the word of its bits, a bool
is 0 or 1, an int64 is `low:high`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.qcom import floating, halves, wide
from compilers.qcom.emitter import WORD, Emitter, is_literal, literal, number
from compilers.qcom.integer import BITS, divided, divided_signed, fitted, product
from compilers.render.common import float32_word
from drivers.base.errors import Unsupported

_SIGN: Final = 1 << 31
_SINGLE: Final = {"add": "add.f", "sub": "sub.f", "mul": "mul.f", "floor": "floor.f",
                  "ceil": "ceil.f", "trunc": "trunc.f", "rint": "rndne.f",
                  "fma": "mad.f32"}  # fmt: skip
_BITS: Final = {"and": "and.b", "or": "or.b", "xor": "xor.b"}
_COMPARE: Final = frozenset({"lt", "le", "eq", "ne"})


def check(dtype: DType) -> None:
    """Raises: Unsupported for a dtype that no instruction computes with."""
    if dtype is dt.float64:
        raise Unsupported(
            "an Adreno computes nothing in float64", hint="use another dtype, or the CPU"
        )


def text_of(words: Sequence[str]) -> str:
    """A scalar."""
    return ":".join(words)


def pair_of(text: str) -> wide.Pair:
    """The words of a 64-bit scalar."""
    low, _, high = text.partition(":")
    return low, high


def constant(value: float, dtype: DType) -> str:
    """A number as a scalar."""
    check(dtype)
    if dtype is dt.float32:
        return literal(float32_word(value))
    if dtype.kind == "b":
        return literal(int(bool(value)))
    whole = int(value) & ((1 << dtype.bits) - 1)
    if dtype.kind == "i" and whole >> (dtype.bits - 1):
        whole -= 1 << dtype.bits
    return text_of(wide.pair(whole)) if dtype.bits > BITS else literal(whole)


def computed(e: Emitter, op: str, dtype: DType, kinds: Sequence[DType], args: Sequence[str]) -> str:
    """The scalar that an op gives. Raises: TypeError, Unsupported."""
    for one in (dtype, *kinds):
        check(one)
    if op in ("cast", "bitcast"):
        turn = _cast if op == "cast" else _bitcast
        return turn(e, args[0], kinds[0], dtype)
    if op == "where":
        return _where(e, args)
    if kinds[0] is dt.float16:
        return halves.computed(e, op, args)
    if kinds[0] is dt.float32:
        return _single(e, op, args)
    if kinds[0].bits > BITS:
        return _wide(e, op, kinds[0], args)
    return _narrow(e, op, dtype, kinds[0], args)


def _where(e: Emitter, args: Sequence[str]) -> str:
    condition, yes, no = args
    if is_literal(condition):
        return yes if number(condition) else no
    if ":" in yes:
        return text_of(wide.choose(e, condition, pair_of(yes), pair_of(no)))
    if yes == no:
        return yes
    return e.bounded(e.op("sel.b32", yes, condition, no), max(e.bound(yes), e.bound(no)))


def _single(e: Emitter, op: str, args: Sequence[str]) -> str:
    if op in _SINGLE:
        return e.op(_SINGLE[op], *args)
    if op in _COMPARE:
        return e.bounded(e.op(f"cmps.f.{op}", *args), 1)
    if op == "neg":
        return e.op("xor.b", args[0], literal(_SIGN))
    if op == "abs":
        return e.op("and.b", args[0], literal(_SIGN - 1))
    if op == "copysign":
        size = e.op("and.b", args[0], literal(_SIGN - 1))
        return e.op("or.b", size, e.op("and.b", args[1], literal(_SIGN)))
    if op == "div":
        return floating.quotient(e, *args)
    if op == "sqrt":
        return floating.root(e, args[0])
    raise TypeError(f"ir3: no {op} of float32")


def _narrow(e: Emitter, op: str, dtype: DType, kind: DType, args: Sequence[str]) -> str:
    """Integers of at most 32 bits, and bools."""
    signed = kind.kind == "i"
    if op in _COMPARE:
        sign = "s" if signed else "u"
        return e.bounded(e.op(f"cmps.{sign}.{op}", *args), 1)
    if op in _BITS:
        made = e.op(_BITS[op], *args)
        most = (e.bound(one) for one in args)
        return e.bounded(made, min(most) if op == "and" else _ones(max(most)))
    if op in ("idiv", "imod"):
        plain = all(e.bound(one) < _SIGN for one in args)
        found = (divided_signed if signed and not plain else divided)(e, args[0], args[1])
        return fitted(e, found[op == "imod"], dtype)
    if op == "shr":
        if signed and e.bound(args[0]) >= _SIGN:
            return e.op("ashr.b", *args)
        return e.bounded(e.op("shr.b", *args), _shifted(e, args))
    if op == "neg":
        return fitted(e, e.op("sub.u", "k0", args[0]), dtype)
    made = _wrapping(e, op, args)
    return fitted(e, made, dtype)


def _ones(bound: int) -> int:
    return (1 << bound.bit_length()) - 1


def _shifted(e: Emitter, args: Sequence[str]) -> int:
    return e.bound(args[0]) >> (number(args[1]) if is_literal(args[1]) else 0)


def _wrapping(e: Emitter, op: str, args: Sequence[str]) -> str:
    """Ops whose result may not fit fewer bits."""
    if op == "mul":
        return product(e, *args)
    if op == "add":
        made = e.op("add.u", *args)
        return e.bounded(made, e.bound(args[0]) + e.bound(args[1]))
    if op == "sub":
        return e.op("sub.u", *args)
    if op == "shl":
        made = e.op("shl.b", *args)
        return e.bounded(made, e.bound(args[0]) << number(args[1])) if is_literal(args[1]) else made
    raise TypeError(f"ir3: no {op} of integers")


def _wide(e: Emitter, op: str, kind: DType, args: Sequence[str]) -> str:
    """Integers of 64 bits."""
    signed = kind.kind == "i"
    a, b = (pair_of(args[place]) for place in (0, min(1, len(args) - 1)))
    if op in ("lt", "le"):
        return e.bounded(wide.less(e, a, b, signed=signed, equal=op == "le"), 1)
    if op in ("eq", "ne"):
        same = wide.equal(e, a, b)
        return e.bounded(e.op("xor.b", same, "k1") if op == "ne" else same, 1)
    if op in _BITS:
        return text_of([e.op(_BITS[op], x, y) for x, y in zip(a, b, strict=True)])
    if op in ("idiv", "imod"):
        found = (wide.divide_signed if signed else wide.divide)(e, a, b)
        return text_of(found[op == "imod"])
    if op in ("shl", "shr"):
        return text_of(wide.shift(e, a, b[0], left=op == "shl", signed=signed))
    if op == "neg":
        return text_of(wide.sub(e, ("k0", "k0"), a))
    made = {"add": wide.add, "sub": wide.sub, "mul": wide.mul}.get(op)
    if made is None:
        raise TypeError(f"ir3: no {op} of {kind.name}")
    return text_of(made(e, a, b))


def _bitcast(e: Emitter, x: str, source: DType, target: DType) -> str:
    if source.bits != target.bits:
        raise TypeError(f"ir3: {source.name} has other bits than {target.name}")
    narrow = target.bits < BITS and target.kind != "f" and source.kind != target.kind
    return fitted(e, x, target) if narrow else x


def _cast(e: Emitter, x: str, source: DType, target: DType) -> str:
    if target is dt.float16 or source is dt.float16:
        if dt.float32 not in (source, target):
            raise TypeError("ir3: float16 comes from float32 and goes there")
        return halves.widened(e, x) if source is dt.float16 else halves.narrowed(e, x)
    signed = (source if source.kind != "f" else target).kind == "i"
    if target is dt.float32:
        if source.bits > BITS:
            return wide.to_float(e, pair_of(x), signed=signed)
        return e.op("cov.s32f32" if signed else "cov.u32f32", x)
    if source is dt.float32:
        if target.bits > BITS:
            return text_of(wide.from_float(e, x, signed=signed))
        return e.op("cov.f32s32" if signed else "cov.f32u32", x)
    if target.bits > BITS:
        return x if source.bits > BITS else _extended(e, x, signed=source.kind == "i")
    low = pair_of(x)[0]
    inside = source.bits < target.bits and (source.kind != "i" or target.kind == "i")
    return low if inside else fitted(e, low, target)


def _extended(e: Emitter, x: str, *, signed: bool) -> str:
    """A word as 64 bits."""
    if not signed or e.bound(x) < _SIGN:
        return text_of((x, "k0"))
    if is_literal(x):
        return text_of((x, literal(WORD if number(x) >> 31 else 0)))
    return text_of((x, e.op("ashr.b", x, "k31")))

"""Elements smaller than the smallest store (`Limits.store_bytes`): one lane stores a whole word.

    map       a lane for each word of the result, which computes all of its elements
    others    the kernel stores its elements' bits in uint32 words of their own, and a second one
              packs them: `unpacked` makes the first, `pack` the second

Elements past the end of the last word are stored, too, as zeros: buffers are whole words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from compilers import dtype as dt
from compilers import expr as ex
from compilers import index as ix
from compilers.gpu_target import GpuTarget
from compilers.index import Index, Var
from compilers.ir import Expr, If, Kernel, Load, Loop, Ref, Stmt, Store
from compilers.lower.rewrite import StatementRewriter
from compilers.math.build import UNSIGNED, bitcast, cast, op
from compilers.plan.algorithm import Algorithm

WORD = dt.uint32
_Value: TypeAlias = Callable[[Index], Expr]
"""Of the element at a position."""


def packed_map(algorithm: Algorithm, gpu: GpuTarget, per_word: int) -> Kernel:
    """Elementwise work, without a name and parameters."""
    axes = algorithm.inner

    def value(at: Index) -> Expr:
        parts = ix.unflatten(at, tuple(axis.extent for axis in axes))
        guard = ex.bounded([(at, 0, algorithm.out.size)])
        return ex.Rewriter(dict(zip(axes, parts, strict=True)), guard=guard).expr(algorithm.value)

    return _by_words(algorithm.out, value, gpu, per_word)


def pack(name: str, out: Ref, words: Ref, gpu: GpuTarget, per_word: int) -> Kernel:
    """out[i] = the low bits of words[i]."""

    def value(at: Index) -> Expr:
        return _narrowed(ex.load(words, at, ex.bounded([(at, 0, out.size)])), out)

    made = _by_words(out, value, gpu, per_word)
    return replace(made, name=name, params=(out, words))


def _by_words(out: Ref, value: _Value, gpu: GpuTarget, per_word: int) -> Kernel:
    count = -(-out.size // per_word)
    item, whole = Var("g", count), out.size // per_word

    def stores(guarded: bool) -> tuple[Stmt, ...]:
        lane = Var("l", per_word)
        at = ix.var(item) * per_word + ix.var(lane)
        guard = ex.bounded([(at, 0, out.size)]) if guarded else ()
        return (Loop(lane, "vector", (Store(out, at, value(at), guard),)),)

    body = stores(False)
    if whole != count:
        number = ix.var(item)
        last = If(((number, whole, count),), stores(True))
        body = (If(((number, 0, whole),), body), last) if whole else stores(True)
    block = min(gpu.block, -(-count // gpu.team_lanes) * gpu.team_lanes)
    return Kernel("", (), (), Loop(item, "item", body), block)


def unpacked(kernel: Kernel, out: Ref) -> tuple[Kernel, Ref]:
    """The kernel with a word for each element of `out`, and those words."""
    words = replace(out, dtype=WORD)
    body = replace(kernel.body, body=_Unpacker(out, words).body(kernel.body.body))
    params = tuple(words if ref is out else ref for ref in kernel.params)
    return replace(kernel, params=params, body=body), words


class _Unpacker(StatementRewriter):
    def __init__(self, out: Ref, words: Ref) -> None:
        super().__init__({out: words}, {})
        self._out, self._words = out, words

    def _copy(self, expr: Expr) -> Expr:
        if expr.op != "load" or expr.arg.ref is not self._out:
            return super()._copy(expr)
        read: Load = expr.arg
        found = ex.load(self._words, self.index(read.index), self.valid(read.valid))
        return _narrowed(found, self._out)

    def statement(self, statement: Stmt) -> Stmt:
        made = super().statement(statement)
        if not isinstance(made, Store) or made.ref is not self._words:
            return made
        return replace(made, value=_word(made.value), streaming=False)


def _word(value: Expr) -> Expr:
    """The bits of a value, as a word."""
    if value.dtype is dt.bool_:
        return cast(value, WORD)
    return cast(bitcast(value, UNSIGNED[value.dtype.itemsize]), WORD)


def _narrowed(word: Expr, out: Ref) -> Expr:
    """The value of which a word has the bits."""
    if out.dtype is dt.bool_:
        return op("ne", word, 0)
    return bitcast(cast(word, UNSIGNED[out.dtype.itemsize]), out.dtype)

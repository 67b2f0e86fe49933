"""Floating-point expressions that compilers leave as they are.

WGSL lets a compiler reassociate and cancel (# src: WGSL, 15.7.3 "Reassociation and Fusion"), and
Mesa's does: (x + c) - c becomes x (src/compiler/nir/nir_opt_algebraic.py, "~fadd"). Rounding by a
large constant, arguments reduced in two parts and scaling in two steps depend on the order. So an
intermediate sum that is an operand of a sum goes through its bits, with a zero that no compiler
knows: bits of the length of a buffer that a buffer has not. So does a divisor that is a constant
zero: SPIR-V leaves such a quotient open.
# measured: Mesa 22.3.6, lavapipe, 2026-11: x / 0.0 of a known zero is 0, or what is in a register
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.render.common import Value
from compilers.wgsl.words import scalar, type_of

SUMS: Final = frozenset({"add", "sub"})
_CONSTANTS: Final = frozenset({"zero", "constant"})
_WORDS: Final = {dt.float32: dt.uint32, dt.float64: dt.uint64}
_UNKNOWN_BIT: Final = 31
"""Of a buffer's bytes: no buffer has 2 GiB (`drivers/webgpu/facts.py`), and no compiler knows it.
The bits above are 0 in a 32-bit size, which compilers do know."""


def is_literal(value: Value) -> bool:
    """Whether a value's text is a constant, or a vector of them."""
    return not value.text.startswith(("v", "at")) or value.text.startswith("vec")


class Exact:
    """What the values of one kernel were made of."""

    def __init__(self) -> None:
        self._ops: dict[str, str] = {}
        """Name of a value -> the op; "scaled" of a product with a constant."""
        self._zeros: dict[str, str] = {}
        """Zeros of a type that were used -> how they are declared."""

    def made(self, value: Value, op: str, args: Sequence[Value]) -> None:
        """Remember an op."""
        if value.dtype.kind == "f" and (op in SUMS or op == "mul"):
            constant = any(is_literal(one) or self._ops.get(one.text) in _CONSTANTS for one in args)
            self._ops[value.text] = "scaled" if op == "mul" and constant else op

    def spread(self, value: Value, one: Value) -> None:
        """Remember a vector of equal lanes."""
        if is_literal(one):
            self._ops[value.text] = "zero" if _is_zero(one) else "constant"
        else:
            self._ops[value.text] = self._ops.get(one.text, "")

    def operands(self, op: str, args: Sequence[Value]) -> Sequence[Value]:
        """Operands of an op, behind their bits where the order counts, or a known zero divides."""
        if op == "div" and args[0].dtype in _WORDS and self._is_zero(args[1]):
            return [args[0], self._held(args[1])]
        if args[0].dtype not in _WORDS or (op not in SUMS and op != "mul"):
            return args
        same = len(args) > 1 and args[0].text == args[1].text and op == "sub"
        return [
            self._held(arg) if self._counts(op, arg) or (same and place) else arg
            for place, arg in enumerate(args)
        ]

    def _counts(self, op: str, arg: Value) -> bool:
        made = self._ops.get(arg.text, "")
        if self._is_zero(arg):
            return True
        return made in ("mul", "scaled") if op == "mul" else made in SUMS or made == "scaled"

    def _is_zero(self, arg: Value) -> bool:
        return _is_zero(arg) or self._ops.get(arg.text) == "zero"

    def _held(self, value: Value) -> Value:
        """The value, through its bits."""
        word = _WORDS[value.dtype]
        zero, kind = self._zero(word, value.lanes), type_of(word, value.lanes)
        text = (
            f"bitcast<{type_of(value.dtype, value.lanes)}>(bitcast<{kind}>({value.text}) | {zero})"
        )
        return Value(text, value.dtype, value.lanes)

    def widened(self, op: str, dtype: DType, args: Sequence[Value], text: str) -> str:
        """The text of an op; of a cast to float16 or 64-bit integers with an unknown zero in it.

        # measured: Mesa 22.3.6, lavapipe, 2026-11: min(max(i, 0), n) of an i64 that was an i32 is
        # 0 for some i; unpack2x16float of pack2x16float is not rounded.
        """
        if op == "cast" and dtype is dt.float16:
            return f"({text} | {self._zero(dt.uint32, args[0].lanes)})"
        if op != "cast" or dtype not in (dt.int64, dt.uint64) or args[0].dtype.bits == dtype.bits:
            return text
        return f"({text} | {self._zero(dtype, args[0].lanes)})"

    def _zero(self, word: DType, lanes: int) -> str:
        name = f"zero_{scalar(word)}x{lanes}"
        self._zeros[name] = f"let {name} = {type_of(word, lanes)}({type_of(word)}(zero));"
        return name

    def opening(self, length: str, stride: int) -> list[str]:
        """Lines before the first use. `length`: elements of a buffer, of `stride` bytes."""
        if not self._zeros:
            return []
        shift = _UNKNOWN_BIT - (stride.bit_length() - 1)
        return [f"let zero = {length} >> {shift}u;", *self._zeros.values()]


def _is_zero(value: Value) -> bool:
    return value.text in ("0x0.0p+0f", "0.0lf", "bitcast<f32>(word_80000000_u32)")

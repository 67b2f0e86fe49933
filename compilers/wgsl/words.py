"""WGSL's types, literals and operators for the dtypes of kernels.

An integer of fewer than 32 bits is an i32 or u32 that holds its value; a bool is a bool. WGSL lets
a compiler assume that there is no NaN or infinity, and ignore the sign of zero
(# src: WGSL, 15.7.2 "Differences from IEEE-754"), so that comparisons are made of the bits, and
special values are not written as constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign, isfinite
from struct import pack, unpack
from typing import Final

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.graph import COMPARE
from compilers.render.common import Value, float32_word
from drivers.base.errors import Unsupported

OPERATORS: Final = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^",
    "shl": "<<", "shr": ">>", "idiv": "/", "imod": "%", "lt": "<", "le": "<=", "eq": "==",
    "ne": "!=",
}  # fmt: skip
FUNCTIONS: Final = {"abs": "abs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil",
                    "trunc": "trunc", "rint": "round", "fma": "fma"}  # fmt: skip
WRAPPING: Final = frozenset({"add", "sub", "mul", "shl", "neg", "idiv"})
"""Ops whose result may not fit an integer of fewer bits; the smallest divided by -1 does not."""
WORD_BITS: Final = 32
MAX_LANES: Final = 4
_SUFFIX: Final = {"i32": "i", "u32": "u", "i64": "li", "u64": "lu", "f64": "lf"}
_UNSIGNED: Final = {32: dt.uint32, 64: dt.uint64}
_LEAST_NORMAL: Final = 2.0**-126


def scalar(dtype: DType) -> str:
    """The type of a value: "f32"; of a float16, the word with its bits."""
    if dtype is dt.float16:
        return "u32"
    if dtype.kind == "b":
        return "bool"
    return f"{dtype.kind}{max(dtype.bits, WORD_BITS)}"


def type_of(dtype: DType, lanes: int = 0) -> str:
    """The same in lanes: "vec4<f32>"."""
    return f"vec{lanes}<{scalar(dtype)}>" if lanes else scalar(dtype)


class Words:
    """Spellings of one module, and the helpers that they need."""

    def __init__(self, features: frozenset[str], integers: str, doubles: str) -> None:
        self.features = features
        self.wide, self.double = integers in features, doubles in features
        self.declared: dict[str, str] = {}

    def check(self, dtype: DType) -> None:
        """Raises: Unsupported for a dtype that the adapter does not compute with."""
        if dtype.bits <= WORD_BITS or (self.double if dtype.kind == "f" else self.wide):
            return
        raise Unsupported(
            f"this WebGPU adapter computes nothing in {dtype.name}",
            hint="use another dtype or function, or the CPU",
        )

    # literals

    def literal(self, value: float, dtype: DType) -> str:
        """A constant."""
        self.check(dtype)
        if dtype.kind == "b":
            return "true" if value else "false"
        if dtype is dt.float32:
            return self._single(value)
        if dtype is dt.float64:
            return self._double(value)
        return self._integer(int(value), dtype)

    def _integer(self, value: int, dtype: DType) -> str:
        value &= (1 << dtype.bits) - 1  # -1 of uint8, as `~` has it, is 255
        if dtype.kind == "i" and value >> (dtype.bits - 1):
            value -= 1 << dtype.bits
        kind = scalar(dtype)
        bits = max(dtype.bits, WORD_BITS)
        value &= (1 << bits) - 1
        if dtype.kind == "i" and value >> (bits - 1):
            value -= 1 << bits
            if value == -(1 << (bits - 1)):
                return f"bitcast<{kind}>({value + (1 << bits)}{_SUFFIX['u' + kind[1:]]})"
        return f"({value}{_SUFFIX[kind]})" if value < 0 else f"{value}{_SUFFIX[kind]}"

    def _single(self, value: float) -> str:
        word = float32_word(value)
        rounded: float = unpack("<f", pack("<I", word))[0]
        if not isfinite(rounded) or (not rounded and word):  # Dawn drops a constant zero's sign
            return f"bitcast<f32>({self._variable(word, 'u32')})"
        if copysign(1, rounded) < 0 or (rounded and abs(rounded) < _LEAST_NORMAL):
            return f"bitcast<f32>({word:#x}u)"
        return f"{rounded.hex()}f"

    def _double(self, value: float) -> str:
        word: int = unpack("<Q", pack("<d", value))[0]
        if isfinite(value) and copysign(1, value) > 0 and repr(value).find("e") < 0:
            return f"{value!r}lf"
        return f"bitcast<f64>({self._variable(word, 'u64')})"

    def _variable(self, word: int, kind: str) -> str:
        """A word that no compiler may fold: a constant that is NaN or infinite is an error."""
        name = f"word_{word:x}_{kind}"
        text = f"var<private> {name}: {kind} = {word:#x}{_SUFFIX[kind]};"
        self.declared.setdefault(name, text)
        return name

    # operators

    def helper(self, name: str, text: str) -> str:
        """Declare a function once."""
        self.declared.setdefault(name, text)
        return name

    def operation(self, op: str, dtype: DType, args: Sequence[Value]) -> str:
        """The expression of an op. Raises: TypeError, Unsupported."""
        for one in (dtype, *(arg.dtype for arg in args)):
            self.check(one)
        lanes, texts = args[0].lanes, [arg.text for arg in args]
        if op == "cast" and dt.float16 in (dtype, args[0].dtype):
            return f"{self._half(dtype, lanes)}({texts[0]})"
        if op == "cast":
            return self._cast(args[0], dtype)
        if op == "bitcast":
            return self._bitcast(args[0], dtype)
        if op == "where":
            return f"select({texts[2]}, {texts[1]}, {texts[0]})"
        if op == "copysign":
            return self._copysign(dtype, lanes, texts)
        if op == "fma":
            return self._fma(dtype, lanes, texts)
        if op in FUNCTIONS and dtype.kind == "f":
            return f"{FUNCTIONS[op]}({', '.join(texts)})"
        if op == "neg":
            negated = (
                f"(-{texts[0]})"
                if dtype.kind != "u"
                else f"(~{texts[0]} + {self._one(dtype, lanes)})"
            )
            return self._wrapped(op, dtype, negated)
        if op not in OPERATORS:
            raise TypeError(f"WGSL: no {op} of {dtype.name}")
        return self._operator(op, dtype, args)

    def _one(self, dtype: DType, lanes: int) -> str:
        return f"{type_of(dtype, lanes)}({self.literal(1, dtype)})"

    def _operator(self, op: str, dtype: DType, args: Sequence[Value]) -> str:
        a, b = args
        if op in COMPARE and a.dtype.kind == "f":
            return f"{self._comparison(op, a.dtype, a.lanes)}({a.text}, {b.text})"
        if a.dtype.kind == "b" and op == "xor":
            return f"({a.text} != {b.text})"
        if op in ("shl", "shr"):
            amount = f"{type_of(dt.uint32, b.lanes)}({b.text})"
            return self._wrapped(op, dtype, f"({a.text} {OPERATORS[op]} {amount})")
        return self._wrapped(op, dtype, f"({a.text} {OPERATORS[op]} {b.text})")

    def _wrapped(self, op: str, dtype: DType, text: str) -> str:
        """The result of an op in the bits of its dtype."""
        if op in WRAPPING and dtype.kind in "iu" and dtype.bits < WORD_BITS:
            return f"extractBits({text}, 0u, {dtype.bits}u)"
        return text

    def _comparison(self, op: str, dtype: DType, lanes: int) -> str:
        """A function that compares by the bits: two floats are ordered as their keys are."""
        kind, name = type_of(dtype, lanes), f"{op}_{scalar(dtype)}x{lanes}"
        bits = dtype.bits
        word = type_of(_UNSIGNED[bits], lanes)
        signed = type_of(dt.BY_NAME[f"int{bits}"], lanes)
        mask = type_of(dt.bool_, lanes)
        half = f"{1 << (bits - 1):#x}{_SUFFIX[f'u{bits}']}"
        most = {32: 0x7F800000, 64: 0x7FF0000000000000}[bits]
        infinity = f"{word}({most:#x}{_SUFFIX[f'u{bits}']})"
        lines = [
            f"fn {name}(a: {kind}, b: {kind}) -> {mask} {{",
            f"let x = bitcast<{word}>(a); let y = bitcast<{word}>(b);",
            f"let m = {word}({half}) - {word}({self.literal(1, _UNSIGNED[bits])});",
            f"let number = ((x & m) <= {infinity}) & ((y & m) <= {infinity});",
        ]
        if op in ("eq", "ne"):
            zero = f"{word}({self.literal(0, _UNSIGNED[bits])})"
            equal = f"number & ((x == y) | (((x | y) & m) == {zero}))"
            lines.append(f"return {'!(' if op == 'ne' else '('}{equal});")
        else:
            for given, made in ("xp", "yq"):
                lines.append(
                    f"let {made} = select(bitcast<{signed}>({given}), "
                    f"bitcast<{signed}>(~{given} + {word}({self.literal(1, _UNSIGNED[bits])}) "
                    f"+ {word}({half})), ({given} & {word}({half})) != "
                    f"{word}({self.literal(0, _UNSIGNED[bits])}));"
                )
            lines.append(f"return number & (p {OPERATORS[op]} q);")
        return self.helper(name, "\n".join([*lines, "}"]))

    def _copysign(self, dtype: DType, lanes: int, texts: Sequence[str]) -> str:
        word = _UNSIGNED[dtype.bits]
        self.check(word)
        kind, half = type_of(word, lanes), 1 << (dtype.bits - 1)
        mask, sign = (f"{kind}({self.literal(one, word)})" for one in (half - 1, half))
        a, b = (f"bitcast<{kind}>({text})" for text in texts)
        return f"bitcast<{type_of(dtype, lanes)}>(({a} & {mask}) | ({b} & {sign}))"

    def _fma(self, dtype: DType, lanes: int, texts: Sequence[str]) -> str:
        """With one rounding, where there is float64: WGSL's own may round twice."""
        if dtype is dt.float32 and self.double:
            wide = type_of(dt.float64, lanes)
            a, b, c = (f"{wide}({text})" for text in texts)
            return f"{type_of(dtype, lanes)}({a} * {b} + {c})"
        return f"fma({', '.join(texts)})"

    # casts

    def _half(self, target: DType, lanes: int) -> str:
        """A function between float32 and the bits of float16, by lanes."""
        source, wide = (dt.uint32, dt.float32), target is dt.float32
        given, made = source if wide else source[::-1]
        parts = [f"x.{lane}" for lane in "xyzw"[:lanes]] or ["x"]
        call = "unpack2x16float({}).x" if wide else "pack2x16float(vec2<f32>({}, 0f))"
        texts = ", ".join(call.format(part) for part in parts)
        name, kind = f"{'widen' if wide else 'narrow'}_x{lanes}", type_of(made, lanes)
        head = f"fn {name}(x: {type_of(given, lanes)}) -> {kind}"
        return self.helper(name, f"{head} {{ return {kind}({texts}); }}")

    def _cast(self, value: Value, target: DType) -> str:
        kind, source = type_of(target, value.lanes), value.dtype
        if source.kind == "b":
            one, zero = (f"{kind}({self.literal(n, target)})" for n in (1, 0))
            return f"select({zero}, {one}, {value.text})"
        if target.kind == "b":
            zero = f"{type_of(source, value.lanes)}({self.literal(0, source)})"
            return f"({value.text} != {zero})"
        text = f"{kind}({value.text})" if scalar(source) != scalar(target) else value.text
        other_sign = source.kind in "iu" and target.kind in "iu" and source.kind != target.kind
        if other_sign and target.bits > WORD_BITS >= source.bits:  # naga extends by `kind`'s sign
            wide = type_of(dt.int64 if source.kind == "i" else dt.uint64, value.lanes)
            text = f"bitcast<{kind}>({wide}({value.text}))"
        if target.kind in "iu" and target.bits < WORD_BITS:
            narrower = source.kind == "f" or source.bits > target.bits or source.kind != target.kind
            return f"extractBits({text}, 0u, {target.bits}u)" if narrower else text
        return text

    def _bitcast(self, value: Value, target: DType) -> str:
        if target.kind == "b" or value.dtype.kind == "b":
            raise TypeError("WGSL: no bits of a bool")
        if scalar(value.dtype) == scalar(target):
            return value.text
        text = f"bitcast<{type_of(target, value.lanes)}>({value.text})"
        if target.bits < WORD_BITS:
            return f"extractBits({text}, 0u, {target.bits}u)"
        return text

    def bits_of(self, value: Value) -> str:
        """The bits of a narrow integer as a u32."""
        mask = (1 << value.dtype.bits) - 1
        return f"(u32({value.text}) & {mask:#x}u)"

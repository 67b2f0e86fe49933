"""Types and operators of languages with vectors of their own: OpenCL C, MSL.

A vector of float32 is `float4`, converted, selected and reinterpreted by functions whose names a
`Words` table has. No GNU extension is used, and nothing that is undefined where integers overflow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import copysign, isfinite, isnan

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.graph import COMPARE
from compilers.math.build import UNSIGNED
from compilers.render.c_ops import OPERATORS, Unit, scalar_type
from compilers.render.common import FUNCTIONS, Value, float32_word

WRAPPING = frozenset({"add", "sub", "mul", "shl"})
"""Of signed integers: computed as unsigned ones."""
WORD_BITS = 32
MAX_LANES = 16
"""Of a vector of OpenCL C; MSL has 4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A language's names. {kind}: the type's own name, {x} a value; {a} {b} {mask} of a choice."""

    names: Mapping[str, str]
    """Our scalar types -> the language's: {"i8": "char", "u32": "uint", "f32": "float", ...}."""
    header: tuple[str, ...] = ()
    convert: str
    """Values in another type: "convert_{kind}({x})"."""
    bits: str
    """The same bits as another type: "as_{kind}({x})"."""
    select: str
    """a where a lane of the mask is set, else b: "select({b}, {a}, {mask})"."""
    mask_of_width: bool
    """Whether the mask of `select` is integers as wide as the values, -1 or 0, which comparisons
    give, too; otherwise both are vectors of bool."""
    make: str
    """A vector of parts, or of one value: "({kind})({x})"."""
    lane: str
    """An element of a vector: "{x}.s{lane:x}"."""
    read: str
    """{lanes} elements from a pointer {place} on, aligned as one: "vload{lanes}(0, {place})"."""
    write: str
    """Their store, as a statement: "vstore{lanes}({x}, 0, {place});"."""
    functions: Mapping[str, str] = field(default_factory=lambda: dict(FUNCTIONS))
    """Op -> function of floats, of one or several lanes."""
    helper: str = "{result} {name}({params})"
    """The head of a function: MSL says "static inline"."""


class NativeUnit(Unit):
    """See the module. Lanes are at most MAX_LANES."""

    def __init__(self, features: frozenset[str], words: Words) -> None:
        super().__init__(features)
        self.words = words

    def header(self) -> list[str]:
        types = [f"typedef {native} {name};" for name, native in self.words.names.items()]
        return [*self.words.header, *types, *self.declared.values()]

    def native(self, dtype: DType, lanes: int = 0) -> str:
        """The type's own name: "float4"."""
        scalar = scalar_type(dtype)
        if scalar not in self.words.names:
            raise TypeError(f"no {dtype.name} here")
        return f"{self.words.names[scalar]}{lanes or ''}"

    def type(self, dtype: DType, lanes: int = 0) -> str:
        native = self.native(dtype, lanes)
        if not lanes:
            return scalar_type(dtype)
        if lanes > MAX_LANES:
            raise TypeError(f"no vector of {lanes} lanes here")
        name = f"{scalar_type(dtype)}x{lanes}"
        self.declared.setdefault(name, f"typedef {native} {name};")
        return name

    def memory(self, dtype: DType, lanes: int = 0, align: int = 0) -> str:
        return self.type(dtype)

    def helper(self, result: str, name: str, params: str, body: str) -> str:
        head = self.words.helper.format(result=result, name=name, params=params)
        self.declared.setdefault(name, f"{head} {{ {body} }}")
        return name

    def literal(self, value: float, dtype: DType) -> str:
        """A constant; a float by its bits, which no compiler rounds."""
        if dtype is dt.float32:
            return self._bits_of(value)
        if dtype.kind == "f":
            return f"({scalar_type(dtype)}){_floating(value)}"
        word = -bool(value) if dtype.kind == "b" else int(value)
        wide = dtype.bits > WORD_BITS
        return f"({scalar_type(dtype)}){word & ((1 << (64 if wide else 32)) - 1)}u{'l' * wide}"

    def _bits_of(self, value: float) -> str:
        whole = isfinite(value) and value == int(value) and abs(value) < 1 << 24
        if whole and copysign(1, value) > 0:
            return f"(f32){int(value)}.0f"
        word = float32_word(value)
        return self.words.bits.format(kind=self.native(dt.float32), x=f"{word:#010x}u")

    # vectors

    def numbers(self, dtype: DType, lanes: int) -> str:
        return self.vector_of(dtype, [self.literal(number, dtype) for number in range(lanes)])

    def splat(self, value: Value, lanes: int) -> str:
        return self.vector_of(value.dtype, [value.text] * lanes)

    def shuffle(self, a: Value, b: Value, order: Sequence[int]) -> str:
        lanes = a.lanes
        parts = [self.lane(a, n) if n < lanes else self.lane(b, n - lanes) for n in order]
        return self.vector_of(a.dtype, parts)

    def lane(self, value: Value, lane: int) -> str:
        return self.words.lane.format(x=value.text, lane=lane)

    def vector_of(self, dtype: DType, parts: Sequence[str]) -> str:
        self.type(dtype, len(parts))
        kind = self.native(dtype, len(parts))
        return self.words.make.format(kind=kind, x=", ".join(parts))

    def read(self, dtype: DType, lanes: int, align: int, space: str, place: str) -> str:
        kind = self.native(dtype, lanes)
        if not lanes:
            return f"*{place}"
        return self.words.read.format(lanes=lanes, place=place, space=space, kind=kind)

    def write(self, value: Value, align: int, space: str, place: str) -> str:
        if not value.lanes:
            return f"*{place} = {value.text};"
        kind = self.native(value.dtype, value.lanes)
        return self.words.write.format(
            lanes=value.lanes, place=place, x=value.text, space=space, kind=kind
        )

    # operators

    def operation(self, op: str, dtype: DType, args: Sequence[Value], name: str) -> str:
        texts = ", ".join(arg.text for arg in args)
        if op == "neg" and dtype.kind in "iu":
            zero = Value(self.literal(0, dtype), dtype, 0)
            zero = self._spread(zero, args[0].lanes)
            return self._operator("sub", zero, args[0])
        if op in self.words.functions and dtype.kind == "f":
            return f"{self.words.functions[op]}({texts})"
        if op in ("dot2", "call"):
            raise TypeError(f"no {op} {name} here")
        return super().operation(op, dtype, args, name)

    def _spread(self, value: Value, lanes: int) -> Value:
        text = self.splat(value, lanes) if lanes else value.text
        return Value(text, value.dtype, lanes)

    def _operator(self, op: str, a: Value, b: Value) -> str:
        if op in WRAPPING and a.dtype.kind == "i":
            unsigned = UNSIGNED[a.dtype.itemsize]
            x, y = (self._bits(value, unsigned) for value in (a, b))
            text = f"({x} {OPERATORS[op]} {y})"
            if not a.lanes and a.dtype.bits < WORD_BITS:
                return f"({scalar_type(a.dtype)}){text}"
            return self._bits(Value(text, unsigned, a.lanes), a.dtype)
        text = f"({a.text} {OPERATORS[op]} {b.text})"
        if op in COMPARE:
            return self._compared(text, a.lanes)
        return text if a.lanes else f"({scalar_type(a.dtype)}){text}"

    def _compared(self, text: str, lanes: int) -> str:
        """A bool of ours, 0 or -1, of a comparison."""
        kind = self.native(dt.bool_, lanes)
        if not lanes:
            return f"(i8)-{text}"
        if self.words.mask_of_width:
            return self.words.convert.format(kind=kind, x=text)
        zero, ones = (self.words.make.format(kind=kind, x=x) for x in ("0", "-1"))
        return self.words.select.format(a=ones, b=zero, mask=text)

    def _where(self, condition: Value, a: Value, b: Value) -> str:
        if not a.lanes:
            return f"{condition.text} ? {a.text} : {b.text}"
        wide = dt.BY_NAME[f"int{a.dtype.bits}"]
        mask = f"{condition.text} != {self._spread(Value('(i8)0', dt.bool_), a.lanes).text}"
        if self.words.mask_of_width:
            mask = self._cast(Value(condition.text, dt.int8, a.lanes), wide)
        return self.words.select.format(a=a.text, b=b.text, mask=mask)

    def _cast(self, value: Value, target: DType) -> str:
        text = value.text
        if value.dtype.kind == "b" and target.kind != "b":
            one = self._spread(Value("(i8)1", dt.bool_), value.lanes).text
            text = f"({text} & {one})"
        if not value.lanes:
            return f"({self.type(target)}){text}"
        self.type(target, value.lanes)
        return self.words.convert.format(kind=self.native(target, value.lanes), x=text)

    def _bitcast(self, value: Value, target: DType) -> str:
        self.type(target, value.lanes)
        return self._bits(value, target)

    def _bits(self, value: Value, target: DType) -> str:
        return self.words.bits.format(kind=self.native(target, value.lanes), x=value.text)


def _floating(value: float) -> str:
    if isnan(value):
        return "NAN"
    if not isfinite(value):
        return "-INFINITY" if value < 0 else "INFINITY"
    return float(value).hex()

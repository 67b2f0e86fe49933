"""C spellings: types, literals, operators, and the helpers that vectors need."""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign, isfinite, isnan

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.graph import COMPARE
from compilers.render.common import DOT2_LANES, FUNCTIONS, Value

PREAMBLE = (
    "#pragma STDC FP_CONTRACT OFF",
    "typedef unsigned char u8; typedef unsigned short u16;",
    "typedef unsigned int u32; typedef unsigned long long u64;",
    "typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;",
    "typedef float f32; typedef double f64;",
)
OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^",
             "shl": "<<", "shr": ">>", "idiv": "/", "imod": "%", "lt": "<", "le": "<=",
             "eq": "==", "ne": "!="}  # fmt: skip
MAX64 = (1 << 64) - 1
BF16_PAIRS = """#if __clang_major__ >= 16
#define BF16_PAIR __bf16
#else
#define BF16_PAIR int
#endif"""
"""The element type that clang's builtin for VDPBF16PS takes."""
EACH = '_Pragma("clang loop unroll(full)") for (int l = 0; l < '


def scalar_type(dtype: DType) -> str:
    """ "f32", "u8": a bool is an i8, 0 or -1."""
    return f"{'i' if dtype.kind == 'b' else dtype.kind}{dtype.bits}"


def literal_text(value: float, dtype: DType) -> str:
    """A constant; floats in hexadecimal."""
    if dtype.kind == "f":
        special = '__builtin_nan("")' if isnan(value) else "__builtin_inf()"
        text = float(value).hex() if isfinite(value) else special
        minus = "-" if copysign(1, value) < 0 and not isfinite(value) else ""
        return f"({scalar_type(dtype)}){minus}{text}"
    word = -bool(value) if dtype.kind == "b" else value
    return f"({scalar_type(dtype)}){int(word) & MAX64}ull"


def listed(pattern: str, count: int) -> str:
    """ "x0[l], x1[l]" of the pattern "x{}[l]" and 2."""
    return ", ".join(pattern.format(i) for i in range(count))


class Unit:
    """What a translation unit declares: vector types and helpers, in order of first use."""

    def __init__(self, features: frozenset[str]) -> None:
        self.features = features
        self.declared: dict[str, str] = {}

    def header(self) -> list[str]:
        """Everything that comes before the kernel."""
        return [*PREAMBLE, *self.declared.values()]

    def type(self, dtype: DType, lanes: int = 0) -> str:
        """A value's type."""
        base = scalar_type(dtype)
        if not lanes:
            return base
        name = f"{base}x{lanes}"
        self.declared.setdefault(
            name, f"typedef {base} {name} __attribute__((ext_vector_type({lanes})));"
        )
        return name

    def memory(self, dtype: DType, lanes: int = 0, align: int = 0) -> str:
        """The type of elements in memory: aligned as one element, aliasing anything."""
        base, align = self.type(dtype, lanes), align or dtype.itemsize
        name = f"{base}_at{align}"
        self.declared.setdefault(
            name, f"typedef {base} {name} __attribute__((may_alias, aligned({align})));"
        )
        return name

    def literal(self, value: float, dtype: DType) -> str:
        """A constant."""
        return literal_text(value, dtype)

    def numbers(self, dtype: DType, lanes: int) -> str:
        """The vector 0, 1, 2, ..."""
        return f"(({self.type(dtype, lanes)}){{{', '.join(map(str, range(lanes)))}}})"

    def splat(self, value: Value, lanes: int) -> str:
        """A scalar in every lane."""
        return f"({self.type(value.dtype, lanes)})({value.text})"

    def shuffle(self, a: Value, b: Value, order: Sequence[int]) -> str:
        """Lanes of a, then of b, by their numbers."""
        return f"__builtin_shufflevector({a.text}, {b.text}, {', '.join(map(str, order))})"

    def lane(self, value: Value, lane: int) -> str:
        """One element of a vector."""
        return f"{value.text}[{lane}]"

    def vector_of(self, dtype: DType, parts: Sequence[str]) -> str:
        """A vector of elements."""
        return f"{self.type(dtype, len(parts))}{{{', '.join(parts)}}}"

    def read(self, dtype: DType, lanes: int, align: int, space: str, place: str) -> str:
        """What lies at a pointer that is aligned to so many bytes; `space` names its memory."""
        return f"*(const {space}{self.memory(dtype, lanes, align)} *){place}"

    def write(self, value: Value, align: int, space: str, place: str) -> str:
        """The statement that stores a value there."""
        kind = f"{space}{self.memory(value.dtype, value.lanes, align)}"
        return f"*({kind} *){place} = {value.text};"

    def helper(self, result: str, name: str, params: str, body: str) -> str:
        """Declare a static function once."""
        self.declared.setdefault(
            name,
            f"static inline __attribute__((always_inline)) {result} {name}({params}) {{ {body} }}",
        )
        return name

    def operation(self, op: str, dtype: DType, args: Sequence[Value], name: str) -> str:
        """The expression of an op."""
        texts = ", ".join(arg.text for arg in args)
        if op == "cast":
            return self._cast(args[0], dtype)
        if op == "bitcast":
            return self._bitcast(args[0], dtype)
        if op == "where":
            return self._where(*args)
        if op == "call":
            return self._library(dtype, args, name)
        if op == "dot2":
            return self._dot2(args)
        if op == "neg":
            return f"-{texts}"
        if op in FUNCTIONS:
            return f"{self._builtin(op, args[0], len(args))}({texts})"
        return self._operator(op, *args)

    def _operator(self, op: str, a: Value, b: Value) -> str:
        text = f"{a.text} {OPERATORS[op]} {b.text}"
        if op not in COMPARE:
            return f"({self.type(a.dtype, a.lanes)})({text})"
        mask = self.type(dt.bool_, a.lanes)
        return f"__builtin_convertvector({text}, {mask})" if a.lanes else f"({mask})-({text})"

    def _where(self, condition: Value, a: Value, b: Value) -> str:
        mask = condition.text
        if a.lanes:
            kind = self.type(dt.BY_NAME[f"int{a.dtype.bits}"], a.lanes)
            mask = f"__builtin_convertvector({mask}, {kind})"
        return f"{mask} ? {a.text} : {b.text}"

    def _cast(self, value: Value, target: DType) -> str:
        kind = self.type(target, value.lanes)
        text = f"({value.text} & (i8)1)" if value.dtype.kind == "b" else value.text
        return f"__builtin_convertvector({text}, {kind})" if value.lanes else f"({kind}){text}"

    def _bitcast(self, value: Value, target: DType) -> str:
        kinds = (self.type(dtype, value.lanes) for dtype in (value.dtype, target))
        return "((union {{ {} from; {} to; }}){{{}}}).to".format(*kinds, value.text)

    def _builtin(self, op: str, like: Value, count: int) -> str:
        builtin = f"__builtin_{FUNCTIONS[op]}{'f' if like.dtype is dt.float32 else ''}"
        if not like.lanes:
            return builtin
        kind = self.type(like.dtype, like.lanes)
        body = f"{kind} r; {EACH}{like.lanes}; l++) r[l] = {builtin}({listed('x{}[l]', count)});"
        if op == "fma" and "fma" in self.features:
            body = f'_Pragma("clang fp contract(on)") {kind} r = x0 * x1 + x2;'
        return self.helper(
            kind, f"{op}_{kind}", listed(f"{kind} x{{}}", count), f"{body} return r;"
        )

    def _library(self, dtype: DType, args: Sequence[Value], name: str) -> str:
        """A C function in the lanes that the first operand names, else the second operand."""
        element, lanes, count = self.type(dtype), args[0].lanes, len(args) - 2
        self.declared.setdefault(
            name, f"{element} {name}({listed(element, count)}) __attribute__((const));"
        )
        texts = [arg.text for arg in args]
        if not lanes:
            return f"{texts[0]} ? {name}({', '.join(texts[2:])}) : {texts[1]}"
        kind, mask = self.type(dtype, lanes), self.type(dt.bool_, lanes)
        body = (
            f"for (int l = 0; l < {lanes}; l++) "
            f"if (m[l]) r[l] = {name}({listed('x{}[l]', count)}); return r;"
        )
        params = f"{mask} m, {kind} r, {listed(f'{kind} x{{}}', count)}"
        return f"{self.helper(kind, f'{name}x{lanes}', params, body)}({', '.join(texts)})"

    def _dot2(self, args: Sequence[Value]) -> str:
        """VDPBF16PS as a helper; a scalar uses the first of four lanes."""
        lanes = args[0].lanes
        width = lanes or DOT2_LANES
        nbytes = width * dt.float32.itemsize
        self.declared.setdefault("bf16_pairs", BF16_PAIRS)
        words, single = self.type(dt.uint32, width), self.type(dt.float32, width)
        cast = f"(__attribute__((vector_size({nbytes})))"
        body = (
            f"return ({single})__builtin_ia32_dpbf16ps_{nbytes * 8}({cast} float)c, "
            f"{cast} BF16_PAIR)a, {cast} BF16_PAIR)b);"
        )
        name = self.helper(single, f"dot2x{width}", f"{words} a, {words} b, {single} c", body)
        a, b, c = (arg.text for arg in args)
        call = f"{name}(({words})({a}), ({words})({b}), ({single})({c}))"
        return call if lanes else f"{call}[0]"

    def masked(self, op: str, dtype: DType, lanes: int) -> str:
        """A helper that accesses only the elements with their lane of the mask set."""
        kind, mask = self.type(dtype, lanes), self.type(dt.bool_, lanes)
        many, reads = op in {"gather", "scatter"}, op in {"load", "gather"}
        index = f"{self.type(dt.int64, lanes if many else 0)} i"
        place = "p[i[l]]" if many else "p[i + l]"
        pointer = f"{self.memory(dtype)} *p"
        each = f"{EACH}{lanes}; l++) if (m[l])"
        if reads:
            params, result = f"const {pointer}, {index}, {mask} m", kind
            body = f"{kind} r = ({kind})0; {each} r[l] = {place}; return r;"
        else:
            params, result = f"{pointer}, {index}, {kind} x, {mask} m", "void"
            body = f"{each} {place} = x[l];"
        return self.helper(result, f"{op}_{kind}", params, body)

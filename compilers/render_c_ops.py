"""C spellings: types, literals, operators, and the helpers that vectors need."""

from __future__ import annotations

from collections.abc import Sequence

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.graph import COMPARE
from compilers.render_common import DOT2_LANES, FUNCTIONS, Value, as_float

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
SIGN_MATTERS = frozenset({"shr", "idiv", "imod", "lt", "le"})
SIGNED = {1: dt.int8, 2: dt.int16, 4: dt.int32, 8: dt.int64}
BF16_PAIRS = """#if __clang_major__ >= 16
#define BF16_PAIR __bf16
#else
#define BF16_PAIR int
#endif"""
"""The element type that clang's builtin for VDPBF16PS takes."""
EACH = '_Pragma("clang loop unroll(full)") for (int l = 0; l < '


def literal_text(value: float, dtype: DType) -> str:
    """A constant; floats in hexadecimal."""
    if dtype.kind == "b":
        return "1" if value else "0"
    if dtype.kind != "f":
        return f"(u{dtype.bits}){int(value) & ((1 << dtype.bits) - 1)}ull"
    suffix = "f" if dtype is dt.float32 else ""
    value = as_float(value, dtype)
    if value != value:
        return f'__builtin_nan{suffix}("")'
    if abs(value) == float("inf"):
        return f"{'-' if value < 0 else ''}__builtin_inf{suffix}()"
    return value.hex() + suffix


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

    def type(self, dtype: DType, lanes: int = 0, *, signed: bool = False) -> str:
        """A value's type: integers are unsigned unless `signed`, bool lanes are 0 or -1."""
        letter = "f" if dtype.kind == "f" else "i" if signed and dtype.kind == "i" else "u"
        if not lanes:
            return f"{letter}{dtype.bits}"
        base = "i8" if dtype.kind == "b" else f"{letter}{dtype.bits}"
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
        kind = self.type(a.dtype, a.lanes)
        inner = self.type(a.dtype, a.lanes, signed=op in SIGN_MATTERS)
        if not a.lanes and inner in {"u8", "u16"}:
            inner = "u32"
        text = f"({inner}){a.text} {OPERATORS[op]} ({inner}){b.text}"
        if op not in COMPARE:
            return f"({kind})({text})"
        return (
            f"__builtin_convertvector({text}, {self.type(dt.bool_, a.lanes)})" if a.lanes else text
        )

    def _where(self, condition: Value, a: Value, b: Value) -> str:
        mask = condition.text
        if a.lanes:
            mask = f"__builtin_convertvector({mask}, {self._signed(a)})"
        return f"{mask} ? {a.text} : {b.text}"

    def _signed(self, like: Value) -> str:
        return self.type(SIGNED[like.dtype.itemsize], like.lanes, signed=True)

    def _cast(self, value: Value, target: DType) -> str:
        lanes = value.lanes
        wanted = self.type(target, lanes, signed=True)
        text = f"({self.type(value.dtype, lanes, signed=True)}){value.text}"
        if lanes:
            text = f"({text} & (i8)1)" if value.dtype.kind == "b" else text
            text = f"__builtin_convertvector({text}, {wanted})"
        return f"({self.type(target, lanes)})({wanted}){text}"

    def _bitcast(self, value: Value, target: DType) -> str:
        kind, source = (self.type(dtype, value.lanes) for dtype in (target, value.dtype))
        if kind == source or value.lanes:
            return f"({kind}){value.text}"
        body = f"{kind} r; __builtin_memcpy(&r, &x, sizeof r); return r;"
        return f"{self.helper(kind, f'{kind}_of_{source}', f'{source} x', body)}({value.text})"

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
        """VDPBF16PS as a helper; a scalar goes through the first of four lanes."""
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
        """A helper that touches only the elements whose lane of the mask is set."""
        kind, mask = self.type(dtype, lanes), self.type(dt.bool_, lanes)
        many, reads = op in {"gather", "scatter"}, op in {"load", "gather"}
        index = f"{self.type(dt.int64, lanes) if many else 'u64'} i"
        place = "p[(i64)i[l]]" if many else "p[(i64)i + l]"
        pointer = f"{self.memory(dtype)} *p"
        each = f"{EACH}{lanes}; l++) if (m[l])"
        if reads:
            params, result = f"const {pointer}, {index}, {mask} m", kind
            body = f"{kind} r = ({kind})0; {each} r[l] = {place}; return r;"
        else:
            params, result = f"{pointer}, {index}, {kind} x, {mask} m", "void"
            body = f"{each} {place} = x[l];"
        return self.helper(result, f"{op}_{kind}", params, body)

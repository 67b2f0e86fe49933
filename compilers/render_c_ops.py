"""C spellings: types, literals, operators, and the helpers that vectors need."""

from __future__ import annotations

from collections.abc import Sequence

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.graph import COMPARE
from compilers.math_build import as_float
from compilers.render_common import Value

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
ELEMENTWISE = {"abs": "abs", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
               "rint": "roundeven"}  # fmt: skip
FUNCTIONS = {"abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
             "rint": "rint", "copysign": "copysign", "fma": "fma"}  # fmt: skip
SCALAR_DOT_LANES = 4
BF16_PAIRS = """#if __clang_major__ >= 16
#define BF16_PAIR __bf16
#else
#define BF16_PAIR int
#endif"""
"""The element type that clang's builtin for VDPBF16PS takes."""
EACH = '_Pragma("clang loop unroll(full)") for (int l = 0; l < '


def scalar_name(dtype: DType, *, signed: bool = False) -> str:
    """ "f32", "u8", ...: integers are unsigned unless `signed` and of a signed dtype."""
    if dtype.kind == "f":
        return f"f{dtype.bits}"
    return f"{'i' if signed and dtype.kind == 'i' else 'u'}{dtype.bits}"


def literal_text(value: float, dtype: DType) -> str:
    """A constant; floats in hexadecimal."""
    if dtype.kind == "b":
        return "1" if value else "0"
    if dtype.kind != "f":
        word = int(value) & ((1 << dtype.bits) - 1)
        return f"({scalar_name(dtype)}){word}ull"
    suffix = "f" if dtype is dt.float32 else ""
    value = as_float(value, dtype)
    if value != value:
        return f'__builtin_nan{suffix}("")'
    if value in {float("inf"), float("-inf")}:
        return f"{'-' if value < 0 else ''}__builtin_inf{suffix}()"
    return value.hex() + suffix


class Unit:
    """What a translation unit declares: vector types and helpers, in order of first use."""

    def __init__(self, features: frozenset[str]) -> None:
        self.features = features
        self.declared: dict[str, str] = {}

    def header(self) -> list[str]:
        """Everything that comes before the kernel."""
        return [*PREAMBLE, *self.declared.values()]

    def type(self, dtype: DType, lanes: int = 0, *, signed: bool = False) -> str:
        """A value's type; bool lanes are signed bytes, 0 or -1."""
        if not lanes:
            return scalar_name(dtype, signed=signed)
        base = "i8" if dtype.kind == "b" else scalar_name(dtype, signed=signed)
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

    def helper(self, name: str, head: str, body: str) -> str:
        """Declare a static function once."""
        self.declared.setdefault(
            name, f"static inline __attribute__((always_inline)) {head} {{ {body} }}"
        )
        return name

    def operation(self, op: str, dtype: DType, args: Sequence[Value], name: str) -> str:
        """The expression of an op."""
        if op == "cast":
            return self._cast(args[0], dtype)
        if op == "bitcast":
            return self._bitcast(args[0], dtype)
        if op == "where":
            return self._where(args)
        if op in {"call", "patch"}:
            return self._library(op, dtype, args, name)
        if op == "dot2":
            return self._dot2(args)
        if op == "neg":
            return f"-{args[0].text}"
        if op in FUNCTIONS:
            return self._function(op, args)
        return self._operator(op, args)

    def _operator(self, op: str, args: Sequence[Value]) -> str:
        dtype, lanes = args[0].dtype, args[0].lanes
        symbol = OPERATORS[op]
        left, right = (arg.text for arg in args)
        signed = op in SIGN_MATTERS and dtype.kind == "i"
        if signed:
            kind = self.type(dtype, lanes, signed=True)
            left, right = f"({kind}){left}", f"({kind}){right}"
        elif not lanes and dtype.kind in "ui" and dtype.itemsize < dt.uint32.itemsize:
            left, right = f"(u32){left}", f"(u32){right}"
        text = f"{left} {symbol} {right}"
        if op in COMPARE:
            return self._to_mask(text, lanes) if lanes else text
        return f"({self.type(dtype, lanes)})({text})" if dtype.kind != "f" else text

    def _to_mask(self, text: str, lanes: int) -> str:
        return f"__builtin_convertvector({text}, {self.type(dt.bool_, lanes)})"

    def _where(self, args: Sequence[Value]) -> str:
        condition, a, b = args
        if not condition.lanes:
            return f"{condition.text} ? {a.text} : {b.text}"
        if a.dtype.itemsize == 1:
            return f"{condition.text} ? {a.text} : {b.text}"
        mask = self._sign_type(a.dtype, a.lanes)
        return f"__builtin_convertvector({condition.text}, {mask}) ? {a.text} : {b.text}"

    def _sign_type(self, dtype: DType, lanes: int) -> str:
        by_size = {1: dt.int8, 2: dt.int16, 4: dt.int32, 8: dt.int64}
        return self.type(by_size[dtype.itemsize], lanes, signed=True)

    def _cast(self, value: Value, target: DType) -> str:
        lanes, source = value.lanes, value.dtype
        signed = source.kind == "i"
        wanted = self.type(target, lanes, signed=target.kind == "i")
        final = self.type(target, lanes)
        if not lanes:
            text = f"({scalar_name(source, signed=True)}){value.text}" if signed else value.text
            return f"({final})({wanted})({text})"
        if source.kind == "b":
            text = f"({value.text} & (i8)1)"
        else:
            text = f"({self.type(source, lanes, signed=True)}){value.text}"
        converted = f"__builtin_convertvector({text}, {wanted})"
        return converted if wanted == final else f"({final}){converted}"

    def _bitcast(self, value: Value, target: DType) -> str:
        kind = self.type(target, value.lanes)
        source = self.type(value.dtype, value.lanes)
        if kind == source or value.lanes:
            return f"({kind}){value.text}"
        name = self.helper(
            f"{kind}_of_{source}",
            f"{kind} {kind}_of_{source}({source} x)",
            f"{kind} r; __builtin_memcpy(&r, &x, sizeof r); return r;",
        )
        return f"{name}({value.text})"

    def _function(self, op: str, args: Sequence[Value]) -> str:
        dtype, lanes = args[0].dtype, args[0].lanes
        builtin = f"__builtin_{FUNCTIONS[op]}{'f' if dtype is dt.float32 else ''}"
        texts = ", ".join(arg.text for arg in args)
        if not lanes:
            return f"{builtin}({texts})"
        if op in ELEMENTWISE:
            return f"__builtin_elementwise_{ELEMENTWISE[op]}({texts})"
        kind = self.type(dtype, lanes)
        name = f"{op}_{kind}"
        params = ", ".join(f"{kind} x{i}" for i in range(len(args)))
        lane = ", ".join(f"x{i}[l]" for i in range(len(args)))
        body = f"{kind} r; {EACH}{lanes}; l++) r[l] = {builtin}({lane}); return r;"
        if op == "fma" and "fma" in self.features:
            body = '_Pragma("clang fp contract(on)") return x0 * x1 + x2;'
        return f"{self.helper(name, f'{kind} {name}({params})', body)}({texts})"

    def _library(self, op: str, dtype: DType, args: Sequence[Value], name: str) -> str:
        """A C function, in every lane (call) or in the lanes its first operand names (patch)."""
        element, lanes = scalar_name(dtype), args[0].lanes
        rest = args if op == "call" else args[2:]
        self.declared.setdefault(
            name, f"{element} {name}({', '.join([element] * len(rest))}) __attribute__((const));"
        )
        texts = ", ".join(arg.text for arg in args)
        if not lanes:
            slow = f"{name}({', '.join(arg.text for arg in rest)})"
            return slow if op == "call" else f"{args[0].text} ? {slow} : {args[1].text}"
        kind, helper = self.type(dtype, lanes), f"{op}_{name}x{lanes}"
        params = ", ".join(f"{kind} x{i}" for i in range(len(rest)))
        one = f"r[l] = {name}({', '.join(f'x{i}[l]' for i in range(len(rest)))});"
        if op == "call":
            head, body = f"({params})", f"{kind} r; for (int l = 0; l < {lanes}; l++) {one}"
        else:
            mask = self.type(dt.bool_, lanes)
            head = f"({mask} m, {kind} r, {params})"
            body = f"for (int l = 0; l < {lanes}; l++) if (m[l]) {one}"
        self.helper(helper, f"{kind} {helper}{head}", f"{body} return r;")
        return f"{helper}({texts})"

    def _dot2(self, args: Sequence[Value]) -> str:
        """VDPBF16PS as a helper; a scalar goes through the first of four lanes."""
        lanes = args[0].lanes
        width = lanes or SCALAR_DOT_LANES
        nbytes = width * dt.float32.itemsize
        self.declared.setdefault("bf16_pairs", BF16_PAIRS)
        words, single = self.type(dt.uint32, width), self.type(dt.float32, width)
        name = f"dot2x{width}"
        cast = f"(__attribute__((vector_size({nbytes})))"
        self.helper(
            name,
            f"{single} {name}({words} a, {words} b, {single} c)",
            f"return ({single})__builtin_ia32_dpbf16ps_{nbytes * 8}({cast} float)c, "
            f"{cast} BF16_PAIR)a, {cast} BF16_PAIR)b);",
        )
        a, b, c = (arg.text for arg in args)
        if lanes:
            return f"{name}({a}, {b}, {c})"
        return f"{name}(({words}){a}, ({words}){b}, ({single}){c})[0]"

    def masked(self, op: str, dtype: DType, lanes: int) -> str:
        """A helper that touches only the elements whose lane of the mask is set."""
        kind, mask = self.type(dtype, lanes), self.type(dt.bool_, lanes)
        index = "u64" if op in {"load", "store"} else self.type(dt.int64, lanes)
        place = "p[(i64)i + l]" if index == "u64" else "p[(i64)i[l]]"
        name, pointer = f"{op}_{kind}", f"{self.memory(dtype)} *p"
        if op in {"load", "gather"}:
            head = f"{kind} {name}(const {pointer}, {index} i, {mask} m)"
            body = f"{kind} r = ({kind})0; {EACH}{lanes}; l++) if (m[l]) r[l] = {place}; return r;"
        else:
            head = f"void {name}({pointer}, {index} i, {kind} x, {mask} m)"
            body = f"{EACH}{lanes}; l++) if (m[l]) {place} = x[l];"
        return self.helper(name, head, body)

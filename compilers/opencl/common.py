"""What both OpenCL C renderers share: types, literals, address spaces."""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign, isfinite, isnan
from typing import Final

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.opencl.expand import FUNCTIONS
from compilers.render.c_ops import EACH, Unit, literal_text
from compilers.render.common import Value
from queues.cl.kernel_code import DOUBLE, HALF
from queues.cl.kernel_code import ENTRY as ENTRY

PREAMBLE: Final = (
    "#pragma OPENCL FP_CONTRACT OFF",
    "typedef uchar u8; typedef ushort u16; typedef uint u32; typedef ulong u64;",
    "typedef char i8; typedef short i16; typedef int i32; typedef long i64; typedef float f32;",
)
FLOATS: Final = {
    DOUBLE: ("f64", "double", "#pragma OPENCL EXTENSION cl_khr_fp64 : enable"),
    HALF: ("f16", "half", "#pragma OPENCL EXTENSION cl_khr_fp16 : enable"),
}
"""A device's feature -> our type, OpenCL C's, and what a program that uses it says first."""
STREAM: Final = "stream"
_STREAM_TEXT: Final = f"""#define {STREAM}(x, p) (*(p) = (x))
#ifdef __has_builtin
#if __has_builtin(__builtin_nontemporal_store)
#undef {STREAM}
#define {STREAM}(x, p) __builtin_nontemporal_store(x, p)
#endif
#endif"""
SPACES: Final = {
    "global": "__global ", "scratch": "__global ", "shared": "__local ", "register": "",
}  # fmt: skip


class ClUnit(Unit):
    """OpenCL C where it differs from C. Widths of vectors are clang's."""

    def header(self) -> list[str]:
        """Types and helpers."""
        extra = [FLOATS[name] for name in FLOATS if name in self.features]
        types = [f"{pragma}\ntypedef {kind} {name};" for name, kind, pragma in extra]
        return [*PREAMBLE, *types, *self.declared.values()]

    def literal(self, value: float, dtype: DType) -> str:
        """A constant; a float's has no double in it, which a device may not have."""
        return literal(value, dtype)

    def operation(self, op: str, dtype: DType, args: Sequence[Value], name: str) -> str:
        """OpenCL C's functions take vectors."""
        if op in FUNCTIONS:
            return f"{op}({', '.join(arg.text for arg in args)})"
        return super().operation(op, dtype, args, name)

    def streamed(self) -> str:
        """The name of what stores a value past the caches, where the compiler can."""
        self.declared.setdefault(STREAM, _STREAM_TEXT)
        return STREAM

    def masked_in(self, space: str, op: str, dtype: DType, lanes: int) -> str:
        """A helper that accesses only the elements with their lane of the mask set."""
        kind, mask = self.type(dtype, lanes), self.type(dt.bool_, lanes)
        many, reads = op in {"gather", "scatter"}, op in {"load", "gather"}
        index = f"{self.type(dt.int64, lanes if many else 0)} i"
        place = "p[i[l]]" if many else "p[i + l]"
        qualifier = SPACES[space]
        pointer = f"{self.memory(dtype)} *p"
        each = f"{EACH}{lanes}; l++) if (m[l])"
        if reads:
            params, result = f"const {qualifier}{pointer}, {index}, {mask} m", kind
            body = f"{kind} r = ({kind})0; {each} r[l] = {place}; return r;"
        else:
            params, result = f"{qualifier}{pointer}, {index}, {kind} x, {mask} m", "void"
            body = f"{each} {place} = x[l];"
        suffix = qualifier.strip(" _")
        return self.helper(result, f"{op}_{kind}_{suffix}", params, body)

    def _library(self, dtype: DType, args: Sequence[Value], name: str) -> str:
        raise TypeError(f"OpenCL C has no function {name} of the C library's accuracy")

    def helper(self, result: str, name: str, params: str, body: str) -> str:
        """Declare a function once. Not static: OpenCL C 1.2 reserves the word."""
        head = f"__attribute__((always_inline)) {result} {name}({params})"
        self.declared.setdefault(name, f"{head};\n{head} {{ {body} }}")
        return name


def literal(value: float, dtype: DType) -> str:
    """A constant; a float's has no double in it, which a device may not have."""
    if dtype is not dt.float32:
        return literal_text(value, dtype)
    if isfinite(value):
        return f"(f32){float(value).hex()}f"
    special = '__builtin_nanf("")' if isnan(value) else "__builtin_inff()"
    return f"(f32){'-' if copysign(1, value) < 0 else ''}{special}"

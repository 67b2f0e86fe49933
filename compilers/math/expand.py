"""Rewrite the expressions of a kernel into the few ops that every renderer prints.

Target ops: add sub mul (wrapping), div neg abs sqrt floor ceil trunc rint copysign fma mad on
float32 and float64, and or xor, shl shr by less than the width, idiv imod, lt le eq ne, where,
bitcast, cast (to integers: values in range only), dot2, const, index, valid, load, and
    call    src (condition, fast, a, ...), arg: name; the C function name(a, ...) in the lanes
            where the condition holds, else `fast`
    rarely  src (condition, usual), arg: an Expr of what these depend on; its value in the lanes
            where the condition holds, computed in a branch, else `usual`
After the rewrite float16 and bfloat16 values are their 16 bits (between two casts of a printer
that has float16 they are float16), and a bool is read from and written to memory as one byte.
"""

from __future__ import annotations

from math import isnan

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.expr import const, postorder
from compilers.graph import COMPARE
from compilers.ir import WAVE_OPS, Expr
from compilers.math.build import HALVES, MEMORY, bitcast, cast, op, where
from compilers.math.floating import float_op, next_after, saturate
from compilers.math.half import SHORT_NAN, half_bits, high_half, narrow, pair_product, to_odd, widen
from compilers.math.integer import bool_op, int_op
from compilers.math.poly import FAST
from compilers.math.soft import OWN, without_calls

EVERYWHERE = frozenset({"add", "sub", "mul", "and", "or", "xor", "idiv", "imod"}) | COMPARE
FLOATS = frozenset({"div", "neg", "abs", "sqrt", "floor", "ceil", "trunc", "rint", "copysign",
                    "fma"}) | EVERYWHERE - {"and", "or", "xor"}  # fmt: skip

HALF_OPS = frozenset({"add", "sub", "mul"}) | COMPARE
"""Of float16, exact or rounded once: the same as in float32, rounded."""


class Expander:
    """Rewrites expressions, sharing what is shared; `features` are the target's.

    `soft`: where there is no C library, its functions are rewritten too. `natives`: functions of
    float32 that the printer prints instead. `short_nans`: see `SHORT_NAN`. `native_half`: the
    printer casts to and from float16; `half_ops`: it has `HALF_OPS` of it, too, subnormal numbers
    among them.
    """

    def __init__(
        self,
        features: frozenset[str],
        *,
        native_half: bool,
        soft: bool = False,
        natives: frozenset[str] = frozenset(),
        short_nans: bool = True,
        half_ops: bool = False,
    ) -> None:
        self.half_ops = half_ops
        self.soft, self.natives, self.short_nans = soft, natives, short_nans
        self.fused, self.native = "fma" in features, native_half
        self.dot2 = {"avx512bf16", "avx512vl"} <= features
        self.own = OWN
        self._found: dict[Expr, Expr] = {}
        self._whole: dict[Expr, Expr] = {}
        """The 16 bits of a bfloat16 that was a small integer -> the same value in float32."""

    def __call__(self, root: Expr) -> Expr:
        """The rewritten value; equal objects in give equal objects out."""
        for expr in postorder(root, self._found.__contains__):
            self._found[expr] = self._rewrite(expr, [self._found[s] for s in expr.src])
        return self._found[root]

    def _rewrite(self, expr: Expr, src: list[Expr]) -> Expr:
        half = expr.dtype in HALVES
        if expr.op == "const":
            if half and isnan(expr.arg):
                return const(half_bits(float(expr.arg), expr.dtype), dt.uint16)
            if half:
                return self._cast(const(float(expr.arg), dt.float64), dt.float64, expr.dtype)
            return expr
        if expr.op == "load":
            found = Expr("load", MEMORY.get(expr.dtype, expr.dtype), (), expr.arg)
            return op("ne", found, 0) if expr.dtype is dt.bool_ else found
        if expr.op in {"index", "valid"}:
            return expr
        if expr.op == "cast":
            return self._cast(src[0], expr.src[0].dtype, expr.dtype)
        if expr.op == "bitcast":
            return bitcast(src[0], dt.uint16 if half else expr.dtype)
        if expr.op == "where":
            return where(*src)
        if expr.op == "swap":
            return Expr("swap", src[0].dtype, tuple(src), expr.arg)
        if expr.op in WAVE_OPS:
            return Expr(expr.op, expr.dtype, tuple(src))
        if expr.op == "dot2":
            return Expr("dot2", dt.float32, tuple(src)) if self.dot2 else pair_product(*src)
        if half or any(s.dtype in HALVES for s in expr.src):
            return self._half(expr, src)
        return self._plain(expr.op, src)

    def _half(self, expr: Expr, src: list[Expr]) -> Expr:
        """An op on 16-bit floats: in float32, rounded once; sign ops on the bits themselves."""
        if expr.op == "neg":
            return op("xor", src[0], 0x8000)
        if expr.op == "abs":
            return op("and", src[0], 0x7FFF)
        if expr.op == "copysign":
            return op("or", op("and", src[0], 0x7FFF), op("and", src[1], 0x8000))
        if self.half_ops and expr.op in HALF_OPS and expr.src[0].dtype is dt.float16:
            found = op(expr.op, *(bitcast(one, dt.float16) for one in src))
            return bitcast(found, dt.uint16) if found.dtype is dt.float16 else found
        wide = [self._cast(s, e.dtype, dt.float32) for s, e in zip(src, expr.src, strict=True)]
        if expr.op == "nextafter":
            return next_after(*wide, *src)
        if expr.op in {"max", "min"} and expr.dtype is dt.float16:
            wide.reverse()  # of equal float16 operands numpy takes the first
        result = self._plain(expr.op, wide)
        if self.short_nans and expr.dtype is dt.bfloat16 and expr.op in SHORT_NAN:
            return narrow(result, expr.dtype, native=self.native, short_nan=True)
        return self._cast(result, result.dtype, expr.dtype)

    def _plain(self, name: str, src: list[Expr]) -> Expr:
        dtype = src[0].dtype
        if dtype is dt.bool_:
            found = bool_op(name, src)
        elif dtype.kind == "f":
            if name in FLOATS or (dtype is dt.float32 and name in self.natives):
                return op(name, *src)
            fast = FAST.get(name) if dtype is dt.float32 else None
            found = fast(src[0]) if fast else float_op(name, src)
        else:
            found = op(name, *src) if name in EVERYWHERE else int_op(name, src)
        if found is None:
            raise TypeError(f"no op {name!r} for {dtype.name}")
        return without_calls(found, src, self.own) if self.soft else found

    def _cast(self, x: Expr, source: DType, target: DType) -> Expr:
        if source is target:
            return x
        if source in HALVES:
            wide = self._whole.get(x) or widen(x, source, native=self.native)
            return self._cast(wide, dt.float32, target)
        if target is dt.bool_:
            return op("ne", x, 0)
        if target in HALVES:
            single = to_odd(x) if source is dt.float64 else cast(x, dt.float32)
            if target is dt.bfloat16 and source.itemsize == 1:
                made = high_half(single)
                self._whole[made] = single
                return made
            return narrow(single, target, native=self.native)
        if source.kind == "f" and target.kind != "f":
            return saturate(x, target)
        return cast(x, target)

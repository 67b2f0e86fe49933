"""Rewrite the expressions of a kernel into the few ops that every renderer prints.

Target ops: add sub mul (wrapping), div neg abs sqrt floor ceil trunc rint copysign fma on float32
and float64, and or xor, shl shr by less than the width, idiv imod, lt le eq ne, where, bitcast,
cast (to integers: values in range only), call, patch, widen_half, narrow_half, const, index, valid
and load. After the rewrite float16 and bfloat16 values are their 16 bits, and a bool is read from
and written to memory as one byte.
"""

from __future__ import annotations

from collections.abc import Iterator

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.graph import COMPARE
from compilers.index import Div, Dyn, Index, Mod
from compilers.ir import Expr, Load, Valid
from compilers.math_build import HALVES, bitcast, cast, const, half_bits, like, op, where
from compilers.math_float import first_extreme, float_op, next_after, saturate
from compilers.math_half import narrow, op_dot2, pair_product, to_odd, widen
from compilers.math_int import bool_op, int_op
from compilers.math_poly import FAST

EVERYWHERE = frozenset({"add", "sub", "mul", "and", "or", "xor", "idiv", "imod"}) | COMPARE
FLOATS = frozenset({"div", "neg", "abs", "sqrt", "floor", "ceil", "trunc", "rint", "copysign",
                    "fma"}) | EVERYWHERE - {"and", "or", "xor"}  # fmt: skip


def dynamic(index: Index) -> Iterator[Dyn]:
    """Every Dyn in an index, also inside quotients."""
    for atom in index.terms:
        if isinstance(atom, Dyn):
            yield atom
        elif isinstance(atom, Div | Mod):
            yield from dynamic(atom.index)


def indices(expr: Expr) -> tuple[Index, ...]:
    """The indices an expression evaluates."""
    if expr.op == "load":
        load: Load = expr.arg
        return (load.index, *(index for index, _, _ in load.valid))
    if expr.op == "index":
        return (expr.arg,)
    return tuple(index for index, _, _ in expr.arg) if expr.op == "valid" else ()


def children(expr: Expr) -> tuple[Expr, ...]:
    """Operands, and the expressions inside its indices."""
    found = indices(expr)
    if not found:
        return expr.src
    return expr.src + tuple(dyn.expr for index in found for dyn in dynamic(index))


def postorder(root: Expr, done: dict[int, object]) -> Iterator[Expr]:
    """Everything below `root` that is not in `done`, operands first. Iterative."""
    stack = [(root, False)]
    while stack:  # each expression is pushed at most once for each of its users
        expr, ready = stack.pop()
        if id(expr) in done:
            continue
        if ready:
            yield expr
        else:
            stack.append((expr, True))
            stack.extend((child, False) for child in reversed(children(expr)))


class Expander:
    """Rewrites expressions, sharing what is shared; `features` are the target's."""

    def __init__(self, features: frozenset[str], *, native_half: bool) -> None:
        self.fused, self.native = "fma" in features, native_half
        self.dot2 = {"avx512bf16", "avx512vl"} <= features
        self._done: dict[int, object] = {}
        self._found: dict[int, Expr] = {}
        self._bytes: dict[int, Expr] = {}
        self._alive: list[Expr] = []

    def __call__(self, root: Expr) -> Expr:
        """The rewritten value; equal objects in give equal objects out."""
        for expr in postorder(root, self._done):
            self._found[id(expr)] = self._rewrite(expr, [self._found[id(s)] for s in expr.src])
            self._done[id(expr)] = None
            self._alive.append(expr)
        return self._found[id(root)]

    def stored(self, expr: Expr) -> Expr:
        """The value as it is written to memory."""
        found = self(expr)
        if found.dtype is not dt.bool_:
            return found
        return self._bytes.setdefault(id(found), cast(found, dt.uint8))

    def index(self, index: Index) -> Index:
        """An index whose Dyn atoms hold rewritten expressions."""
        if next(dynamic(index), None) is None:
            return index
        return index.substitute({}, lambda dyn: Dyn(self(dyn.expr), dyn.low, dyn.high))

    def valid(self, valid: Valid) -> Valid:
        """A predicate whose indices are rewritten."""
        return tuple((self.index(index), low, high) for index, low, high in valid)

    def _rewrite(self, expr: Expr, src: list[Expr]) -> Expr:
        half = expr.dtype in HALVES or any(s.dtype in HALVES for s in expr.src)
        if expr.op == "const":
            return self._const(expr)
        if expr.op == "load":
            return self._load(expr.arg)
        if expr.op == "index":
            return Expr("index", dt.int64, (), self.index(expr.arg))
        if expr.op == "valid":
            return Expr("valid", dt.bool_, (), self.valid(expr.arg))
        if expr.op == "cast":
            return self._cast(src[0], expr.src[0].dtype, expr.dtype)
        if expr.op == "bitcast":
            return bitcast(src[0], dt.uint16 if expr.dtype in HALVES else expr.dtype)
        if expr.op == "where":
            return where(*src)
        if expr.op == "dot2":
            return op_dot2(src) if self.dot2 else pair_product(src, self.fused)
        return self._half(expr, src) if half else self._plain(expr.op, src)

    @staticmethod
    def _const(expr: Expr) -> Expr:
        if expr.dtype in HALVES:
            return const(half_bits(float(expr.arg), expr.dtype), dt.uint16)
        return expr

    def _load(self, load: Load) -> Expr:
        load = Load(load.ref, self.index(load.index), self.valid(load.valid))
        if load.ref.dtype is dt.bool_:
            byte = Expr("load", dt.uint8, (), load)
            return op("ne", byte, like(byte, 0))
        return Expr("load", dt.uint16 if load.ref.dtype in HALVES else load.ref.dtype, (), load)

    def _half(self, expr: Expr, src: list[Expr]) -> Expr:
        """An op on 16-bit floats: in float32, rounded once; sign ops on the bits themselves."""
        if expr.op in {"neg", "abs"}:
            mask = 0x8000 if expr.op == "neg" else 0x7FFF
            return op("xor" if expr.op == "neg" else "and", src[0], like(src[0], mask))
        wide = [
            widen(s, e.dtype, native=self.native) if e.dtype in HALVES else s
            for s, e in zip(src, expr.src, strict=True)
        ]
        if expr.op == "nextafter":
            return next_after(wide[0], wide[1], src[0], src[1])
        if expr.op in {"max", "min"} and expr.dtype is dt.float16:
            result = first_extreme(expr.op, *wide)
        else:
            result = self._plain(expr.op, wide)
        return self._cast(result, result.dtype, expr.dtype)

    def _plain(self, name: str, src: list[Expr]) -> Expr:
        dtype = src[0].dtype
        if dtype is dt.bool_:
            found = bool_op(name, src)
        elif dtype.kind == "f":
            if name in FLOATS:
                return op(name, *src)
            fast = FAST.get(name) if dtype is dt.float32 else None
            found = fast(src[0], self.fused) if fast else float_op(name, src)
        else:
            found = op(name, *src) if name in EVERYWHERE else int_op(name, src)
        if found is None:
            raise TypeError(f"no op {name!r} for {dtype.name}")
        return found

    def _cast(self, x: Expr, source: DType, target: DType) -> Expr:
        if source is target:
            return x
        if target is dt.bool_:
            x = self._cast(x, source, dt.float32) if source in HALVES else x
            return op("ne", x, like(x, 0))
        if source in HALVES:
            return self._cast(widen(x, source, native=self.native), dt.float32, target)
        if target in HALVES:
            single = to_odd(x) if source is dt.float64 else cast(x, dt.float32)
            return narrow(single, target, native=self.native)
        if source.kind == "f" and target.kind != "f":
            return saturate(x, target)
        return cast(x, target)

"""Random expression graphs: interpreter, LLVM IR and C give the same bits, scalar and vector."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.graph import COMPARE
from compilers.index import Index, Var, var
from compilers.ir import Expr, Kernel, Loop, Ref, Store, Valid
from tests.ir_interpreter import Interpreter
from tests.share import part
from tests.unit.kernel_harness import by_all, float_bits, read, run

LANES, BLOCKS = 8, 3
COUNT = LANES * BLOCKS
DTYPES = (dt.uint8, dt.int8, dt.int16, dt.uint16, dt.int32, dt.uint32, dt.int64, dt.uint64,
          dt.float16, dt.float32, dt.float64)  # fmt: skip
INT_OPS = ("add", "sub", "mul", "max", "min", "and", "or", "xor", "floordiv", "mod", "shl", "shr")
FLOAT_OPS = ("add", "sub", "mul", "div", "max", "min", "copysign", "mod", "floordiv")
UNARY = {"f": ("neg", "abs", "sqrt", "floor", "rint"), "i": ("neg", "abs", "invert"),
         "u": ("neg", "invert")}  # fmt: skip


class Grower:
    """Draws expressions; earlier ones of a dtype are drawn again, so that graphs share."""

    def __init__(self, draw: st.DrawFn, refs: dict[DType, Ref], at: Index) -> None:
        self.draw, self.refs, self.at = draw, refs, at
        self.pool: dict[DType, list[Expr]] = {}

    def expr(self, dtype: DType, depth: int) -> Expr:
        pool = self.pool.setdefault(dtype, [])
        if pool and self.draw(st.integers(0, 3)) == 0:
            return self.draw(st.sampled_from(pool))
        made = self.leaf(dtype) if depth == 0 else self.branch(dtype, depth - 1)
        pool.append(made)
        return made

    def leaf(self, dtype: DType) -> Expr:
        if dtype is dt.bool_:
            return Expr("valid", dt.bool_, (), self.valid())
        if self.draw(st.booleans()):
            value = self.draw(st.sampled_from([0, 1, 2, 3, 100]))
            return Expr("const", dtype, (), float(value) if dtype.kind == "f" else value)
        index = self.draw(st.sampled_from([self.at, self.at * -1 + (COUNT - 1), self.at // 2,
                                           (self.at * 5) % COUNT, self.at % 4]))  # fmt: skip
        return read(self.refs[dtype], index, self.valid())

    def valid(self) -> Valid:
        options = ((), ((self.at, 3, 17),), ((self.at % 5, 1, 4), (self.at * 2 - 9, 0, 30)))
        return self.draw(st.sampled_from(options))

    def branch(self, dtype: DType, depth: int) -> Expr:
        if dtype is dt.bool_:
            return self.condition(depth)
        shape = self.draw(st.sampled_from(["unary", "binary", "binary", "where", "cast"]))
        if shape == "where":
            parts = (self.expr(dt.bool_, depth), self.expr(dtype, depth), self.expr(dtype, depth))
            return Expr("where", dtype, parts)
        if shape == "cast":
            sources = [d for d in (*DTYPES, dt.bool_) if d.kind != "f" or dtype.kind == "f"]
            source = self.draw(st.sampled_from(sources))
            return Expr("cast", dtype, (self.expr(source, depth),))
        if shape == "unary":
            op = self.draw(st.sampled_from(UNARY[dtype.kind]))
            return Expr(op, dtype, (self.expr(dtype, depth),))
        op = self.draw(st.sampled_from(FLOAT_OPS if dtype.kind == "f" else INT_OPS))
        return Expr(op, dtype, (self.expr(dtype, depth), self.expr(dtype, depth)))

    def condition(self, depth: int) -> Expr:
        if self.draw(st.booleans()):
            dtype = self.draw(st.sampled_from(DTYPES))
            op = self.draw(st.sampled_from(sorted(COMPARE)))
            return Expr(op, dt.bool_, (self.expr(dtype, depth), self.expr(dtype, depth)))
        op = self.draw(st.sampled_from(["and", "or", "xor"]))
        return Expr(op, dt.bool_, (self.expr(dt.bool_, depth), self.expr(dt.bool_, depth)))


@st.composite
def kernels(draw: st.DrawFn, kind: str) -> Kernel:
    """A kernel of a few outputs over one loop nest."""
    outputs = [draw(st.sampled_from((*DTYPES, dt.bool_))) for _ in range(4)]
    refs = {d: Ref(f"in_{d.name}", d, COUNT, "global", 4 + n) for n, d in enumerate(DTYPES)}
    outs = [Ref(f"out{n}", d, COUNT, "global", n) for n, d in enumerate(outputs)]
    block, lane = Var("i", BLOCKS), Var("l", LANES)
    at = var(block) * LANES + var(lane)
    grower = Grower(draw, refs, at)
    stores = [Store(ref, at, grower.expr(ref.dtype, 4), grower.valid()) for ref in outs]
    body = Loop(block, "grid", (Loop(lane, kind, tuple(stores)),))
    return Kernel("kernel", (*outs, *refs.values()), (), body)


def inputs(kernel: Kernel) -> list[np.ndarray]:
    """Random numbers with the extremes of their dtype among them."""
    random = np.random.default_rng(1)
    arrays = []
    for ref in kernel.params:
        storage = np.dtype(ref.dtype.storage)
        if ref.name.startswith("out"):
            arrays.append(np.zeros(COUNT, storage))
        elif ref.dtype.kind == "f":
            array = random.normal(scale=20, size=COUNT).astype(storage)
            array[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, np.finfo(storage).max]
            arrays.append(random.permutation(array))
        else:
            arrays.append(random.integers(0, 256, COUNT * ref.dtype.itemsize,
                                          np.uint8).view(storage))  # fmt: skip
            arrays[-1][:4] = [0, 1, np.iinfo(storage).min, np.iinfo(storage).max]
    return arrays


def written(kernel: Kernel, renderer: str) -> list[np.ndarray]:
    arrays = inputs(kernel)
    run(kernel, arrays, renderer)
    return arrays


def differ(kernel: Kernel) -> None:
    wanted = inputs(kernel)
    Interpreter(kernel, dict(zip(kernel.params, wanted, strict=True))).run()
    for renderer, got in by_all(lambda renderer: written(kernel, renderer)).items():
        for ref, a, b in zip(kernel.params, got, wanted, strict=True):
            bits = float_bits(a, ref.dtype), float_bits(b, ref.dtype)
            np.testing.assert_array_equal(*bits, f"{renderer} {ref.name} {ref.dtype.name}")


QUICK = settings(max_examples=part(12, 4), derandomize=True,
                 suppress_health_check=list(HealthCheck))  # fmt: skip


@QUICK
@given(kernel=kernels("vector"))
def test_vector_kernels(kernel: Kernel) -> None:
    differ(kernel)


@QUICK
@given(kernel=kernels("serial"))
def test_scalar_kernels(kernel: Kernel) -> None:
    differ(kernel)


@QUICK
@given(kernel=kernels("unroll"))
def test_unrolled_kernels(kernel: Kernel) -> None:
    differ(kernel)

"""Rows at the level of the tensor namespace: what a program sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import resnet
from benchmarks.context import MIB, Array, Builder, Context, expect_close
from benchmarks.measure import Case, Skipped, Timer, timer

STREAM_ITEMS = 256 * MIB // 4
ROWS_SIDE = 4096
TINY_ITEMS = 16
TINY_CALLS = 2000
TORCH_PRODUCTS = ("float32", "bfloat16")
"""torch multiplies float16 matrices on a CPU element by element: a minute for 2048 x 2048."""
LAYERNORM_EPS = 1e-5
LONGEST_S = 10.0
"""Of one product: where a processor plays a GPU's lanes the largest are skipped."""
FLOPS_SOFTMAX, FLOPS_LAYERNORM = 5, 8
"""Operations an element, an exponential counted as one."""


def _settled(context: Context, make: Callable[[], Any]) -> Callable[[], None]:
    """Compute `make()` and wait until the device is done; the result is dropped at once."""
    synchronize = context.device.synchronize

    def run() -> None:
        make().realize()
        synchronize()

    return run


def _torch_timer(
    context: Context, make: Callable[[Any], Callable[[], object]], calls: int = 1
) -> Timer | None:
    """The torch side of a row, or None where torch is not installed."""
    return timer(make(context.torch), calls) if context.torch is not None else None


def _rated(context: Context, dtype: str, flops: float, run: Timer) -> Timer:
    """A timer that leaves its rate for larger products."""

    def timed() -> float:
        taken_s = run()
        context.rates[dtype] = flops / taken_s
        return taken_s

    return timed


def _check_patience(context: Context, dtype: str, flops: float) -> None:
    """Raises: Skipped for a product that would take too long, by the last one's rate."""
    rate = context.rates.get(dtype)
    if rate and flops / rate > LONGEST_S:
        raise Skipped(f"one product would take {flops / rate:.0f} s, by the row before it")


def matmul(side: int, dtype: str, tolerance: float) -> Builder:
    """side x side times side x side; half precisions beside numpy's float32 of the same values."""

    def build(context: Context) -> Case | None:
        if not context.has(dtype):
            return None
        flops, nbytes = 2.0 * side**3, 3.0 * side * side * (4 if dtype == "float32" else 2)
        _check_patience(context, dtype, flops)
        xp = context.xp
        cast = [
            xp.astype(
                context.tensor(context.floats(key, side, side) - np.float32(0.5)),
                getattr(xp, dtype),
            ).realize()
            for key in "ab"
        ]
        a, b = (np.asarray(x.numpy(), dtype=np.float32) for x in cast)
        out = np.empty_like(a)
        expect_close(
            np.asarray((cast[0] @ cast[1]).numpy(), dtype=np.float64),
            a.astype(np.float64) @ b.astype(np.float64),
            tolerance,
        )

        def torch_side(torch: Any) -> Callable[[], object]:
            ta, tb = (torch.tensor(x).to(getattr(torch, dtype)) for x in (a, b))
            return lambda: torch.matmul(ta, tb)

        ours = timer(_settled(context, lambda: cast[0] @ cast[1]))
        return Case(
            "GFLOP/s",
            "np.matmul(out=), float32",
            _rated(context, dtype, flops, ours),
            timer(lambda: np.matmul(a, b, out=out)),
            work=flops,
            flops=flops,
            nbytes=nbytes,
            torch=_torch_timer(context, torch_side) if dtype in TORCH_PRODUCTS else None,
        )

    return build


def row_by_matrix(turned: bool) -> Builder:
    """One row of 4096 times 4096 x 4096, which is stored transposed where `turned`: it is read
    once, so that memory bounds it."""

    def build(context: Context) -> Case:
        a = context.floats("row", 1, ROWS_SIDE) - np.float32(0.5)
        w = context.floats("rows", ROWS_SIDE, ROWS_SIDE)
        out = np.empty_like(a)
        ta, tw = context.tensor(a), context.tensor(w)
        right, ours = (w.T, tw.T) if turned else (w, tw)
        wanted = a.astype(np.float64) @ right.astype(np.float64)
        expect_close((ta @ ours).numpy(), wanted, 1e-5)

        def torch_side(torch: Any) -> Callable[[], object]:
            x, y = torch.from_numpy(a), torch.from_numpy(w)
            y = y.T if turned else y
            return lambda: torch.matmul(x, y)

        return Case(
            "GB/s",
            "np.matmul(out=), float32",
            timer(_settled(context, lambda: ta @ ours)),
            timer(lambda: np.matmul(a, right, out=out)),
            work=float(w.nbytes),
            flops=2.0 * w.size,
            nbytes=float(w.nbytes),
            torch=_torch_timer(context, torch_side),
        )

    return build


def add_stream(context: Context) -> Case:
    """Two operands of 256 MiB; 768 MiB move."""
    a, b = context.floats("stream a", STREAM_ITEMS), context.floats("stream b", STREAM_ITEMS)
    ta, tb = context.tensor(a), context.tensor(b)
    out = context.kept("stream out", lambda: np.empty_like(a))
    np.add(a, b, out=out)
    expect_close((ta + tb).numpy(), out, 0.0)
    nbytes = 3.0 * a.nbytes

    def torch_side(torch: Any) -> Callable[[], object]:
        xs = [torch.from_numpy(x) for x in (a, b, out)]
        return lambda: torch.add(xs[0], xs[1], out=xs[2])

    return Case(
        "GB/s",
        "np.add(out=)",
        timer(_settled(context, lambda: ta + tb)),
        timer(lambda: np.add(a, b, out=out)),
        work=nbytes,
        flops=float(a.size),
        nbytes=nbytes,
        torch=_torch_timer(context, torch_side),
    )


def sum_stream(context: Context) -> Case:
    """One operand of 256 MiB to one number."""
    a = context.floats("stream a", STREAM_ITEMS)
    ta = context.tensor(a)
    expect_close(
        np.asarray(context.xp.sum(ta).numpy(), dtype=np.float64),
        np.asarray(np.sum(a, dtype=np.float64)),
        1e-5,
    )

    def torch_side(torch: Any) -> Callable[[], object]:
        x = torch.from_numpy(a)
        return lambda: torch.sum(x)

    return Case(
        "GB/s",
        "np.sum",
        timer(_settled(context, lambda: context.xp.sum(ta))),
        timer(lambda: np.sum(a)),
        work=float(a.nbytes),
        flops=float(a.size),
        nbytes=float(a.nbytes),
        torch=_torch_timer(context, torch_side),
    )


def numpy_softmax(x: Array) -> Array:
    """Over the last axis, as numpy users write it, with the intermediate updated in place."""
    e: Array = np.subtract(x, np.max(x, axis=-1, keepdims=True))
    np.exp(e, out=e)
    e /= np.sum(e, axis=-1, keepdims=True)
    return e


def numpy_layernorm(x: Array) -> Array:
    """Over the last axis, with the intermediate updated in place."""
    d: Array = np.subtract(x, np.mean(x, axis=-1, keepdims=True))
    d /= np.sqrt(np.mean(np.square(d), axis=-1, keepdims=True) + np.float32(LAYERNORM_EPS))
    return d


def _by_rows(
    ours: Callable[[Any, Any], Any],
    theirs: Callable[[Array], Array],
    torch_name: str,
    flops_per_item: int,
) -> Builder:
    def build(context: Context) -> Case:
        a = context.floats("rows", ROWS_SIDE, ROWS_SIDE)
        ta, xp = context.tensor(a), context.xp
        expect_close(ours(xp, ta).numpy(), theirs(a.astype(np.float64)), 1e-5)

        def torch_side(torch: Any) -> Callable[[], object]:
            x, functional = torch.from_numpy(a), torch.nn.functional
            if torch_name == "softmax":
                return lambda: functional.softmax(x, dim=-1)
            return lambda: functional.layer_norm(x, (ROWS_SIDE,))

        nbytes = 2.0 * a.nbytes
        return Case(
            "GB/s",
            f"numpy {torch_name}, in-place steps",
            timer(_settled(context, lambda: ours(xp, ta))),
            timer(lambda: theirs(a)),
            work=nbytes,
            flops=float(flops_per_item * a.size),
            nbytes=nbytes,
            torch=_torch_timer(context, torch_side),
        )

    return build


def eager_tiny(context: Context) -> Case:
    """(a + b).realize() of 16 numbers, the schedule cached: what a small step costs."""
    a = context.floats("tiny", TINY_ITEMS)
    ta, out = context.tensor(a), np.empty_like(a)
    expect_close((ta + ta).numpy(), a + a, 0.0)

    def torch_side(torch: Any) -> Callable[[], object]:
        x = torch.from_numpy(a)
        return lambda: x + x

    return Case(
        "us",
        "np.add(out=), same size",
        timer(lambda: (ta + ta).realize(), TINY_CALLS),
        timer(lambda: np.add(a, a, out=out), TINY_CALLS),
        torch=_torch_timer(context, torch_side, TINY_CALLS),
    )


def resnet18(batch: int) -> Builder:
    """Inference of a network of ResNet-18's shape on images of 224 x 224."""

    def build(context: Context) -> Case:
        xp, theirs = context.xp, resnet.numpys(batch)
        make = resnet.ours(xp, batch, context.device_name)
        expect_close(make().numpy(), theirs(), 1e-4)
        flops = 2.0 * resnet.multiplications(batch)
        return Case(
            "GFLOP/s",
            "numpy: windows and products",
            timer(_settled(context, make)),
            timer(theirs),
            work=flops,
            torch=_torch_timer(context, lambda torch: resnet.torchs(torch, batch)),
        )

    return build


MATMUL_SIDES = (512, 1024, 2048)
MATMUL_DTYPES = (("f32", "float32", 1e-5), ("bf16", "bfloat16", 5e-3), ("f16", "float16", 2e-3))
TENSOR_ROWS: dict[str, Builder] = {
    f"matmul_{short}_{side}": matmul(side, dtype, tolerance)
    for short, dtype, tolerance in MATMUL_DTYPES for side in MATMUL_SIDES
} | {
    "gemv_f32_4096": row_by_matrix(turned=False),
    "gemv_f32_4096_t": row_by_matrix(turned=True),
    "add_256MiB": add_stream,
    "sum_256MiB": sum_stream,
    "softmax_4096": _by_rows(lambda xp, x: xp.softmax(x, axis=-1), numpy_softmax, "softmax",
                             FLOPS_SOFTMAX),
    "layernorm_4096": _by_rows(lambda xp, x: xp.layer_norm(x, eps=LAYERNORM_EPS), numpy_layernorm,
                               "layer norm", FLOPS_LAYERNORM),
    "resnet18_2": resnet18(2),
}  # fmt: skip

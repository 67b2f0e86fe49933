"""The roofline of a device, from peaks measured in the same run, with the rows on it."""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.context import MIB, Context, as_bytes
from benchmarks.measure import Result, timer
from compilers import dtype as dt
from compilers import index, ir
from drivers.world.owned import new_file
from unbound.extras import install

CHAINS = 16
"""Independent accumulators: enough to hide the latency of a fused multiply-add."""
STEPS = 100_000
SAMPLES = 9
MARKERS = "osv^D*Pp<>hX"
STREAM_BYTES = 256 * MIB


def peak_kernel(lanes: int) -> ir.Kernel:
    """`CHAINS` vectors of `lanes` floats, each multiplied and added `STEPS` times."""
    items = CHAINS * lanes
    out = ir.Ref("out", dt.float32, items, "global", 0)
    acc = ir.Ref("acc", dt.float32, items, "register")

    def each(store: Any) -> ir.Loop:
        chain, lane = index.Var("chain", CHAINS), index.Var("lane", lanes)
        at = index.var(chain) * lanes + index.var(lane)
        return ir.Loop(chain, "unroll", (ir.Loop(lane, "vector", (store(at),)),))

    def load(ref: ir.Ref, at: index.Index) -> ir.Expr:
        return ir.Expr("load", dt.float32, (), ir.Load(ref, at))

    factor, term = (ir.Expr("const", dt.float32, (), value) for value in (0.5, 1.0))
    step = each(
        lambda at: ir.Store(acc, at, ir.Expr("fma", dt.float32, (load(acc, at), factor, term)))
    )
    body = (
        each(lambda at: ir.Store(acc, at, load(out, at))),
        ir.Loop(index.Var("step", STEPS), "serial", (step,)),
        each(lambda at: ir.Store(out, at, load(acc, at))),
    )
    return ir.Kernel("bench_peak", (out,), (acc,), ir.Loop(index.Var("g", 1), "grid", body))


def measure_peak(context: Context) -> float:
    """FLOP/s of float32 multiply-adds that touch no memory, on one thread."""
    device = context.device
    lanes = max(device.limits.vector_bytes // dt.float32.itemsize, 1)
    program = context.load(peak_kernel(lanes))
    start = np.zeros(CHAINS * lanes, dtype=np.float32)
    buffer = device.alloc(start.nbytes)
    device.copy_in(buffer, as_bytes(start))

    def run() -> None:
        device.launch(program, (buffer,), 1)
        device.synchronize()

    seconds: float = statistics.median(timer(run)() for _ in range(SAMPLES))
    return float(2.0 * CHAINS * lanes * STEPS / seconds)


def measure_bandwidth(context: Context) -> float:
    """Bytes a second, read and written, of a copy within the device."""
    device = context.device
    source, target = (device.alloc(STREAM_BYTES) for _ in range(2))
    device.copy_in(source, as_bytes(np.ones(STREAM_BYTES, dtype=np.uint8)))

    def run() -> None:
        device.copy_queue().copy(target, source, STREAM_BYTES).submit()
        device.synchronize()

    run()
    return 2.0 * STREAM_BYTES / statistics.median(timer(run)() for _ in range(SAMPLES))


def roofline(path: Path, context: Context, results: Sequence[Result]) -> str:
    """Draw the picture into `path` and say what is on it."""
    try:
        plt: Any = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        return f"no plot: matplotlib is missing. Install it with: {install('plot')}"
    points = [(result.name, *result.point) for result in results if result.point]
    if not points:
        return "no plot: none of the measured rows has a place on a roofline"
    peak = measure_peak(context)
    seen = max(rate / intensity for _, intensity, rate in points)
    bandwidth = max(seen, measure_bandwidth(context))
    plt.switch_backend("Agg")
    figure, axes = plt.subplots(figsize=(9, 6))
    low, high = min(p[1] for p in points) / 2, max(p[1] for p in points) * 2
    x = np.geomspace(low, high, 200)
    axes.loglog(
        x,
        np.minimum(peak, bandwidth * x) * 1e-9,
        color="black",
        label=f"roof: {peak * 1e-9:.0f} GFLOP/s float32, {bandwidth * 1e-9:.0f} GB/s",
    )
    for number, (name, intensity, rate) in enumerate(points):
        marker = MARKERS[number % len(MARKERS)]
        label = f"{name}: {rate * 1e-9:.3g} GFLOP/s"
        axes.loglog([intensity], [rate * 1e-9], marker, markersize=8, label=label)
    axes.legend(fontsize=8, loc="lower right")
    axes.set(
        xlabel="FLOP per byte of compulsory traffic",
        ylabel="GFLOP/s",
        title=f"{context.device.name}, {context.device.arch}, {context.threads} thread(s)",
    )
    axes.grid(visible=True, which="both", alpha=0.3)
    figure.tight_layout()
    with new_file(str(path)) as file:
        figure.savefig(file, dpi=120, format=path.suffix.removeprefix(".") or "png")
    plt.close(figure)
    return f"roofline of {len(points)} rows in {path}"

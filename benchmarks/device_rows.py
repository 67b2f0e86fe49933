"""Rows at the level of the driver: copies, launches, and replay of a recorded graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.context import MIB, Array, Builder, Context, as_bytes, expect_close
from benchmarks.measure import Case, timer
from compilers import dtype as dt
from compilers import index, ir
from drivers.base.contracts import Limits, Param

COPY_ITEMS = 256 * MIB // 4
TINY_ITEMS = 16
TINY_CALLS = 2000
REPLAY_KERNELS = 2000
"""Kernels in one timed sample of a replay row."""


def tiny_kernel(limits: Limits) -> ir.Kernel:
    """c = a + b over 16 floats: as little work as a kernel can have; on a GPU one wave."""
    a, b, c = (
        ir.Ref(name, dt.float32, TINY_ITEMS, "global", slot) for slot, name in enumerate("abc")
    )
    i = index.Var("i", TINY_ITEMS)
    loads = tuple(ir.Expr("load", dt.float32, (), ir.Load(ref, index.var(i))) for ref in (a, b))
    store = ir.Store(c, index.var(i), ir.Expr("add", dt.float32, loads))
    if limits.max_block > 1:
        block = max(limits.wave_lanes, TINY_ITEMS)
        return ir.Kernel("bench_tiny", (a, b, c), (), ir.Loop(i, "item", (store,)), block)
    vector = ir.Loop(i, "vector", (store,))
    return ir.Kernel("bench_tiny", (a, b, c), (), ir.Loop(index.Var("g", 1), "grid", (vector,)))


class Tiny:
    """The tiny kernel, loaded, and small buffers to run it on."""

    def __init__(self, context: Context) -> None:
        self.device = context.device
        self.program = context.load(tiny_kernel(self.device.limits))
        self.a, self.b = (context.floats(key, TINY_ITEMS) for key in ("tiny a", "tiny b"))
        self.out = np.zeros_like(self.a)

    def buffer(self, array: Array) -> Any:
        """A new buffer that holds `array`."""
        buffer = self.device.alloc(array.nbytes)
        self.device.copy_in(buffer, as_bytes(array))
        return buffer

    def prove(self, run: Callable[[], None], output: Any, expected: Array) -> None:
        """Raises: WrongResult unless `run` leaves `expected` in `output`."""
        self.device.copy_in(output, as_bytes(np.full_like(expected, np.nan)))
        run()
        self.device.synchronize()
        got = np.empty_like(expected)
        self.device.copy_out(as_bytes(got), output)
        expect_close(got, expected, 0.0)


def launch(*, wait: bool) -> Builder:
    """One kernel enqueued; with `wait`, until the device says that it is done."""

    def build(context: Context) -> Case:
        tiny: Tiny = context.kept("tiny kernel", lambda: Tiny(context))
        device, program = tiny.device, tiny.program
        a, b, out = tiny.a, tiny.b, tiny.out
        buffers = [tiny.buffer(array) for array in (a, b, out)]

        def enqueue() -> None:
            device.launch(program, buffers, 1)

        def enqueue_and_wait() -> None:
            device.launch(program, buffers, 1)
            device.synchronize()

        run = enqueue_and_wait if wait else enqueue
        tiny.prove(run, buffers[2], a + b)
        return Case(
            "us",
            "np.add(out=), same size",
            timer(run, TINY_CALLS),
            timer(lambda: np.add(a, b, out=out), TINY_CALLS),
        )

    return build


def record(tiny: Tiny, kernels: int) -> Any:
    """A graph of a chain: Param 0, plus b, plus b, ... into Param 1."""
    queue, b = tiny.device.compute_queue(), tiny.buffer(tiny.b)
    between = [tiny.buffer(tiny.out) for _ in range(2)]
    for number in range(kernels):
        source = between[number % 2] if number else Param(0)
        target = between[(number + 1) % 2] if number < kernels - 1 else Param(1)
        queue.exec(tiny.program, (source, b, target), (1, 1, 1))
    return queue.bind()


def replay(kernels: int) -> Builder:
    """A recorded chain of tiny kernels, replayed and waited for; time per kernel.

    Input and output alternate between two pairs of buffers, so every replay patches its arguments.
    """

    def build(context: Context) -> Case:
        tiny: Tiny = context.kept("tiny kernel", lambda: Tiny(context))
        graph, synchronize = record(tiny, kernels), tiny.device.synchronize
        pairs = [[tiny.buffer(array) for array in (tiny.a, tiny.out)] for _ in range(2)]

        def run() -> None:
            for pair in pairs:
                graph.replay(pair)
                synchronize()

        def by_numpy(
            add: Any = np.add, a: Array = tiny.a, b: Array = tiny.b, out: Array = tiny.out
        ) -> None:
            add(a, b, out=out)
            for _ in range(kernels - 1):
                add(out, b, out=out)

        by_numpy()
        for pair in pairs:
            tiny.prove(run, pair[1], tiny.out.copy())
        samples = REPLAY_KERNELS // kernels
        ours, theirs = timer(run, samples // 2), timer(by_numpy, samples)
        return Case(
            "us",
            "np.add(out=), same size and count",
            lambda: ours() / (2 * kernels),
            lambda: theirs() / kernels,
        )

    return build


def copy(direction: str) -> Builder:
    """256 MiB from the host, to the host, or within the device."""

    def build(context: Context) -> Case:
        device = context.device
        host = context.floats("stream a", COPY_ITEMS)
        back: Array = context.kept("stream out", lambda: np.empty_like(host))
        nbytes = host.nbytes
        one, two = (context.kept(f"copy {i}", lambda: device.alloc(nbytes)) for i in (1, 2))
        source, target = (as_bytes(x) for x in (host, back))

        def within() -> None:
            device.copy_queue().copy(two, one, nbytes).submit()
            device.synchronize()

        runs: dict[str, Callable[[], None]] = {
            "h2d": lambda: device.copy_in(one, source),
            "d2h": lambda: device.copy_out(target, one),
            "d2d": within,
        }
        device.copy_in(one, source)
        runs[direction]()
        back.fill(0)
        device.copy_out(target, two if direction == "d2d" else one)
        expect_close(back, host, 0.0)
        return Case(
            "GB/s",
            "np.copyto",
            timer(runs[direction]),
            timer(lambda: np.copyto(back, host)),
            work=float(nbytes),
        )

    return build


DEVICE_ROWS: dict[str, Builder] = {
    "copy_h2d": copy("h2d"),
    "copy_d2h": copy("d2h"),
    "copy_d2d": copy("d2d"),
    "launch": launch(wait=False),
    "launch_wait": launch(wait=True),
    "replay_1": replay(1),
    "replay_10": replay(10),
    "replay_100": replay(100),
}

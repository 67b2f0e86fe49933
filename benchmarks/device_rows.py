"""Rows at the level of the driver: copies, launches, and replay of a recorded graph."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.context import MIB, Array, Builder, Context, as_bytes, expect_close
from benchmarks.measure import Case, timer
from compilers import dtype as dt
from compilers import index, ir

COPY_ITEMS = 256 * MIB // 4
TINY_ITEMS = 16
TINY_CALLS = 2000
REPLAY_KERNELS = 2000
"""Kernels in one timed sample of a replay row."""


def tiny_kernel() -> ir.Kernel:
    """c = a + b over 16 floats: as little work as a kernel can have."""
    a, b, c = (
        ir.Ref(name, dt.float32, TINY_ITEMS, "global", slot) for slot, name in enumerate("abc")
    )
    i = index.Var("i", TINY_ITEMS)
    loads = tuple(ir.Expr("load", dt.float32, (), ir.Load(ref, index.var(i))) for ref in (a, b))
    store = ir.Store(c, index.var(i), ir.Expr("add", dt.float32, loads))
    return ir.Kernel(
        "bench_tiny",
        (a, b, c),
        (),
        ir.Loop(index.Var("g", 1), "grid", (ir.Loop(i, "vector", (store,)),)),
    )


class Tiny:
    """The tiny kernel, loaded, with its three buffers and what they must hold afterwards."""

    def __init__(self, context: Context) -> None:
        self.device = context.device
        toolchains = importlib.import_module("compilers.toolchains")
        binary = toolchains.build(
            tiny_kernel(), self.device.compilers[0], self.device.arch, self.device.limits.features
        )
        self.program = self.device.load(binary)
        self.a, self.b = (context.floats(key, TINY_ITEMS) for key in ("tiny a", "tiny b"))
        self.out = np.zeros_like(self.a)
        self.buffers = tuple(self.device.alloc(self.a.nbytes) for _ in range(3))
        for buffer, array in zip(self.buffers, (self.a, self.b, self.out), strict=True):
            self.device.copy_in(buffer, as_bytes(array))

    def check(self) -> None:
        """Raises: WrongResult unless the kernel ran."""
        self.device.synchronize()
        self.device.copy_out(as_bytes(self.out), self.buffers[2])
        expect_close(self.out, self.a + self.b, 0.0)

    def numpy(self) -> Callable[[], object]:
        """The reference: the same addition, its output preallocated."""
        return lambda: np.add(self.a, self.b, out=self.out)


def launch(*, wait: bool) -> Builder:
    """One kernel enqueued; with `wait`, until the device says that it is done."""

    def build(context: Context) -> Case:
        tiny: Tiny = context.kept("tiny kernel", lambda: Tiny(context))
        device, program, buffers = tiny.device, tiny.program, tiny.buffers

        def enqueue() -> None:
            device.launch(program, buffers, 1)

        def enqueue_and_wait() -> None:
            device.launch(program, buffers, 1)
            device.synchronize()

        enqueue()
        tiny.check()
        return Case(
            "us",
            "np.add(out=), same size",
            timer(enqueue_and_wait if wait else enqueue, TINY_CALLS),
            timer(tiny.numpy(), TINY_CALLS),
        )

    return build


def replay(kernels: int) -> Builder:
    """A recorded graph of `kernels` tiny kernels, replayed and waited for; time per kernel."""

    def build(context: Context) -> Case:
        tiny: Tiny = context.kept("tiny kernel", lambda: Tiny(context))
        queue = tiny.device.compute_queue()
        for _ in range(kernels):
            queue.exec(tiny.program, tiny.buffers, (1, 1, 1))
        graph, synchronize = queue.bind(), tiny.device.synchronize
        graph.replay()
        tiny.check()

        def run() -> None:
            graph.replay()
            synchronize()

        def by_numpy(
            add: Any = np.add, a: Array = tiny.a, b: Array = tiny.b, out: Array = tiny.out
        ) -> None:
            for _ in range(kernels):
                add(a, b, out=out)

        samples = REPLAY_KERNELS // kernels
        ours, theirs = timer(run, samples), timer(by_numpy, samples)
        return Case(
            "us",
            "np.add(out=), same size and count",
            lambda: ours() / kernels,
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

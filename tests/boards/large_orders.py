"""A scan and a sort of many elements on the machine-code executor, by hand: some take minutes.

    python -m tests.boards.large_orders                 2**14, 2**17, 2**20 and 2**24 elements
    python -m tests.boards.large_orders --bits 20 --arch gfx942

Each result is compared with numpy, with all strict checks on; printed are the instructions that
all waves executed, for each element. The tests of `test_gpu_scan.py` and `test_gpu_sort.py` do the
same for fewer elements.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from boards.amd.wave.types import Strict
from compilers import graph
from compilers.graph import Node
from tests.boards.kernel_runner import TARGETS, Ran, compute
from tests.compilers.lowering import leaf
from unbound import terminal

SIZES = (14, 17, 20, 24)
"""Powers of two of the elements."""


def scan(bits: int) -> tuple[Node, np.ndarray]:
    """A running sum of small whole numbers, which float32 holds exactly in any order."""
    x = np.random.default_rng(bits).integers(-4, 5, 1 << bits).astype(np.float32)
    return graph.scan("add", leaf(x), 0), x.cumsum()


def sort(bits: int) -> tuple[Node, np.ndarray]:
    """A stable argsort of float32, a quarter of them equal to others."""
    random = np.random.default_rng(bits)
    x = random.normal(size=1 << bits).astype(np.float32)
    x[::4] = random.integers(-3, 4, x[::4].size)
    return graph.argsort(leaf(x), 0, False), np.argsort(x, kind="stable")


WORK: dict[str, Callable[[int], tuple[Node, np.ndarray]]] = {"scan": scan, "sort": sort}


def line(name: str, bits: int, ran: Ran) -> str:
    """What one run executed."""
    steps = ran.plan.steps if ran.plan else ()
    grids = max(step.kernel.grid for step in steps)
    return (
        f"{name} of 2**{bits}: equal to numpy; {sum(ran.work) / (1 << bits):.3f} wave instructions "
        f"an element, {len(steps)} kernels of up to {grids} workgroups"
    )


def lines(sizes: Sequence[int], arch: str) -> Iterator[str]:
    """A line for each run. Raises: AssertionError where a result or a check is wrong."""
    for name, make in WORK.items():
        for bits in sizes:
            node, wanted = make(bits)
            ran = compute([node], arch, "LLVM", Strict())
            np.testing.assert_array_equal(ran.arrays[0], wanted)
            if ran.violations:
                raise AssertionError(f"{name} of 2**{bits}: {ran.violations[0]}")
            yield line(name, bits, ran)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.boards.large_orders")
    parser.add_argument("--bits", type=int, action="append", help="powers of two of the elements")
    parser.add_argument("--arch", default="gfx1100", choices=sorted(TARGETS))
    options = parser.parse_args(arguments)
    for text in lines(options.bits or SIZES, options.arch):
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    terminal.run(main)

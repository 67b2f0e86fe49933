"""Time and peak memory of ResNet-18's shape beside torch, one thread each.

    python -m benchmarks.inference 2 8        # batches

Times are medians of interleaved pairs, of the clock and of the processor. Peak memory is by how
much a fresh process grows in its first pass, its kernels compiled before (they are in the cache).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import resnet
from unbound import terminal

PAIRS = 7
CHILD_TIMEOUT_S = 300.0
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "CPU_THREADS")


def passes(side: str, batch: int) -> Callable[[], Any]:
    """A forward pass of "ours" or "torch" that ends with its class scores in memory."""
    if side == "ours":
        import tensor as xp

        make = resnet.ours(xp, batch)
        return lambda: make().numpy()
    import torch

    torch.set_num_threads(1)
    run = resnet.torchs(torch, batch)
    return lambda: run().numpy()


def peak_growth(run: Callable[[], Any]) -> int:
    """By how many bytes this process grows, at most, while `run` does."""
    status, clear = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    clear.write_text(
        "5"
    )  # the peak is from now on. # src: Linux, Documentation/filesystems/proc.rst
    before = int(status.read_text().split("VmHWM:")[1].split()[0])
    run()
    return (int(status.read_text().split("VmHWM:")[1].split()[0]) - before) << 10


def grown(side: str, batch: int) -> int:
    """The same of the first pass in a fresh process."""
    code = (
        f"from benchmarks import inference as i\nprint(i.peak_growth(i.passes({side!r}, {batch})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        timeout=CHILD_TIMEOUT_S,
    )  # fmt: skip
    return int(done.stdout)


def main(argv: Sequence[str]) -> None:
    """Print the table."""
    os.environ.update(dict.fromkeys(THREADS, "1"))
    print(f"{'batch':>5} {'side':<6}{'ms':>9}{'cpu ms':>9}{'ratio':>7}{'cpu':>6}{'peak MB':>9}")
    for batch in map(int, argv or ("2", "8")):
        sides = {side: passes(side, batch) for side in ("ours", "torch")}
        for run in sides.values():
            run()
        taken: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
        for pair in range(PAIRS):
            for side in sorted(sides, reverse=bool(pair % 2)):
                start = time.perf_counter(), time.process_time()
                sides[side]()
                taken[side].append((time.perf_counter() - start[0], time.process_time() - start[1]))
        pairs = list(zip(taken["ours"], taken["torch"], strict=True))
        ratios = [statistics.median(a[i] / b[i] for a, b in pairs) for i in range(2)]
        for side, times in taken.items():
            wall, cpu = (statistics.median(t[i] for t in times) * 1e3 for i in range(2))
            shown = f"{ratios[0]:7.2f}{ratios[1]:6.2f}" if side == "ours" else " " * 13
            print(
                f"{batch:>5} {side:<6}{wall:9.1f}{cpu:9.1f}{shown}{grown(side, batch) / 1e6:9.1f}"
            )


if __name__ == "__main__":
    terminal.run(main)

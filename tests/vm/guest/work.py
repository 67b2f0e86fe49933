"""A tensor program on the GPU, compared with numpy. `--forever` goes on until it is killed."""

from __future__ import annotations

import sys
import time

import numpy as np

import tensor as xp

SIDE = 64


def once(seed: int) -> float:
    """A sum and a matrix product; the largest difference from numpy's. Raises: SystemExit."""
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal((SIDE, SIDE), dtype=np.float32) for _ in range(2))
    left, right = xp.asarray(a), xp.asarray(b)
    if not np.array_equal((left + right).numpy(), a + b):
        raise SystemExit("the sum is wrong")
    apart = float(np.abs((left @ right).numpy() - a @ b).max())
    if not apart < 1e-3:
        raise SystemExit(f"the product is off by {apart}")
    return apart


def interrupts() -> int:
    """How many of the GPU's interrupts this machine has taken for VFIO since it was opened."""
    with open("/proc/interrupts", encoding="ascii") as table:
        lines = [line.split() for line in table if "vfio-msi" in line]
    return sum(int(word) for words in lines for word in words[1:] if word.isdigit())


def main() -> None:
    """Once, or until the end."""
    began = time.monotonic()
    apart = once(0)
    device = xp.asarray([1]).device
    seconds = time.monotonic() - began
    print(f"working on {device}", flush=True)
    for seed in range(1, 1_000_000 if "--forever" in sys.argv else 2):
        apart = max(apart, once(seed))
    compared = f"{SIDE}x{SIDE} on {device} within {apart:.1e} of numpy"
    print(f"{compared}, the first after {seconds:.1f} s, {interrupts()} interrupts")


if __name__ == "__main__":
    main()

"""`python -m tests.hardware.torch_bench FILE`: torch's times of a few rows of bench.py, on CUDA.

Beside the rows of the same size of `bench.py --device NV`: medians, after a warm-up.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SAMPLES = 21


def median_us(torch: Any, operation: Callable[[], object]) -> float:
    """Of one call and its end on the GPU."""
    taken = []
    for _ in range(SAMPLES):
        torch.cuda.synchronize()
        began = time.perf_counter()
        operation()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e6


def rows(torch: Any) -> dict[str, float]:
    """Microseconds by name."""
    found: dict[str, float] = {}
    for n in (256, 1024, 4096):
        for kind in (torch.float32, torch.float16):
            a = torch.ones((n, n), dtype=kind, device="cuda")
            name = f"matmul {str(kind).removeprefix('torch.')} {n}"
            found[name] = median_us(torch, lambda a=a: a @ a)
    x = torch.ones(1 << 24, dtype=torch.float32, device="cuda")
    found["add float32 16M"] = median_us(torch, lambda: x + x)
    found["sum float32 16M"] = median_us(torch, x.sum)
    small = torch.ones(64, dtype=torch.float32, device="cuda")
    found["add float32 64"] = median_us(torch, lambda: small + small)
    return found


def main(path: str) -> int:
    """Write the rows; 1 where torch or its CUDA is missing."""
    try:
        import torch
    except ImportError:
        print("torch is not installed")
        return 1
    if not torch.cuda.is_available():
        print("torch has no CUDA here")
        return 1
    found = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "us": rows(torch)}
    Path(path).write_text(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

"""Random kernels on the host: compiled by clang, run over random numbers, compared bit by bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cffi
import numpy as np

from tests.boards.c_kernel_maker import FLOATS_IN, FLOATS_OUT, INTEGERS_IN, INTEGERS_OUT, ITEMS
from tests.c_compiler import clang_command
from tests.support import check, run_limited

_TIMEOUT_S = 120
_COMMON = ["-O1", "-fwrapv", "-ffp-contract=off", "-fno-builtin", "-w", "-c", "-o"]


def compiled_c(source: Path, output: Path, *flags: str) -> bytes:
    """An object of a source. Raises: AssertionError with the compiler's log."""
    done = run_limited(
        [*clang_command(), *flags, *_COMMON, str(output), str(source)],
        capture_output=True, text=True, cpu_s=_TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode:
        raise AssertionError(f"clang refuses the kernels: {done.stderr}")
    return output.read_bytes()


def inputs(seed: int) -> tuple[Any, Any]:
    """Integers and floats of every size, with those at edges."""
    rng = np.random.default_rng(seed)
    integers = rng.integers(-(1 << 63), 1 << 63, (ITEMS, INTEGERS_IN))
    integers >>= rng.integers(0, 64, integers.shape)
    edges = np.array([0, 1, -1, 127, -128, 255, 1 << 31, -(1 << 31), 1 << 62], np.int64)
    at = np.asarray(rng.random(integers.shape) < 0.15)
    integers[at] = rng.choice(edges, int(at.sum()))
    floats = rng.standard_normal((ITEMS, FLOATS_IN)) * 2.0 ** rng.integers(
        -30, 30, (ITEMS, FLOATS_IN)
    )
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-310, 1e-40, 3e38, 1.0, -7.0])
    at = np.asarray(rng.random(floats.shape) < 0.15)
    floats[at] = rng.choice(special, int(at.sum()))
    return integers, floats


def results() -> tuple[Any, Any]:
    """Zeros that a kernel writes over."""
    return np.zeros((ITEMS, INTEGERS_OUT), np.int64), np.zeros((ITEMS, FLOATS_OUT), np.float64)


def run_on_host(address: int, integers: Any, floats: Any) -> tuple[Any, Any]:
    """What host code leaves."""
    ffi = cffi.FFI()
    out, fout = results()
    function = ffi.cast("void (*)(void *, void *, void *, void *)", address)
    function(*[ffi.cast("void *", a.ctypes.data) for a in (integers, floats, out, fout)])
    return out, fout


def compare(name: str, found: tuple[Any, Any], expected: tuple[Any, Any]) -> None:
    """Raises: AssertionError unless both are the same bits; of no numbers, any will do."""
    np.testing.assert_array_equal(found[0], expected[0], name)
    np.testing.assert_array_equal(found[1], expected[1], name)
    signs = np.signbit(found[1]) == np.signbit(expected[1])
    check((signs | np.isnan(expected[1])).all(), f"{name}: the sign of a zero differs")

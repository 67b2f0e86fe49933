"""Runs kernels of the corpus on the executor, and says how each ended."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from boards.nv.launch import EndlessGrid, SmException
from boards.nv.space import MmuFault
from drivers.base.errors import DeviceError
from tests.boards.nv_corpus.kernel import Kernel
from tests.boards.nv_warp_harness import compiled, run

RIGHT, REFUSED, WRONG, VIOLATION, FAULT = "right", "not executed", "wrong", "violation", "fault"
OUTCOMES: Final = (RIGHT, REFUSED, WRONG, VIOLATION, FAULT)
_NOT_EXECUTED: Final = "does not execute"


@dataclass(frozen=True)
class Outcome:
    """How a kernel ended on an architecture."""

    kind: str
    why: str = ""


def _compared(kernel: Kernel, got: list[Any]) -> str:
    """What differs from numpy; nothing if all is equal, or near where that is all one can ask."""
    with np.errstate(all="ignore"):
        wanted = kernel.expected(*kernel.args)
    each = wanted if isinstance(wanted, tuple) else (wanted,)
    for number, (one, want) in enumerate(zip(got, each, strict=False)):
        try:
            if kernel.rtol:
                np.testing.assert_allclose(
                    one.astype("f8"), np.asarray(want).astype("f8"), kernel.rtol, kernel.rtol
                )
            else:
                np.testing.assert_array_equal(one, np.asarray(want).astype(one.dtype))
        except AssertionError as error:
            return f"buffer {number}: {' '.join(str(error).split())[:300]}"
    return ""


def outcome(kernel: Kernel, arch: str) -> Outcome:
    """Compile a kernel for an architecture, run it, and compare."""
    try:
        code = compiled(kernel.text, arch)
    except DeviceError as error:
        return Outcome(REFUSED, f"load: {str(error)[:300]}")
    try:
        buffers, found = run(code, kernel.args, (kernel.grid, 1, 1), kernel.dim)
    except SmException as error:
        kind = REFUSED if _NOT_EXECUTED in str(error) else FAULT
        return Outcome(kind, str(error))
    except (MmuFault, EndlessGrid) as error:
        return Outcome(FAULT, f"{type(error).__name__} {error}")
    if found:
        return Outcome(VIOLATION, str(found[:3]))
    differs = _compared(kernel, buffers)
    return Outcome(WRONG, differs) if differs else Outcome(RIGHT)


def line(arch: str, counts: Counter[str]) -> str:
    """A row of the table."""
    return f"{arch:8} {sum(counts.values()):8}" + "".join(f" {counts[one]:12}" for one in OUTCOMES)


HEAD: Final = f"{'':8} {'kernels':>8}" + "".join(f" {one:>12}" for one in OUTCOMES)

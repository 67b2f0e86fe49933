"""HMMA: products of matrices of halves or bfloat16, summed in single precision.

src: PTX ISA, "Matrix Fragments for mma.m16n8k16" and m16n8k8: which lane holds what. How silicon
rounds is not published: here all products and the addend are summed in a double and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from boards.machine.arrays import Array
from boards.nv.warp.build import Action, Builder
from boards.nv.warp.fields import ZERO
from boards.nv.warp.floating import as_words
from boards.nv.warp.half import halves
from boards.nv.warp.state import Threads

_GROUPS, _IN_GROUP = 8, 4
_UPPER = np.uint32(16)


def _numbers(words: Array, *, brain: bool) -> Array:
    """Registers of a warp as (which, warp, group, thread of it, half)."""
    if brain:
        rows = np.stack([words << _UPPER, words & np.uint32(0xFFFF0000)])
        pair = rows.view(np.float32).astype(np.float64)
    else:
        pair = halves(words)
    shaped = pair.reshape(2, len(words), -1, _GROUPS, _IN_GROUP)
    return np.moveaxis(shaped, 0, -1)


def _rows(t: Threads, first: int, count: int) -> Array:
    if first == ZERO:
        return np.zeros((count, t.count), np.uint32)
    return t.registers[first : first + count]


def hmma(build: Builder, report: Callable[[str], None]) -> Action:
    """HMMA.16816.F32, HMMA.1688.F32, with halves or bfloat16."""
    build.only(76, 1, 1)
    deep, brain = build.take(75), bool(build.take(82))
    parts = 1 + deep
    one, two = build.gpr(24, 0, 2 * parts), build.gpr(32, 1, parts)
    three, result = build.gpr(64, 2, 4), build.gpr_out(count=4)
    build.latency = "mma"

    def run(t: Threads, mask: Array) -> None:
        if (t.whole_warps(mask) & ~mask).any():
            report("HMMA of a warp whose lanes do not all run it")
        a = _numbers(_rows(t, one, 2 * parts), brain=brain)
        b = _numbers(_rows(t, two, parts), brain=brain)
        shaped = a.reshape(parts, 2, *a.shape[1:])
        total = np.einsum("prwgth,pwcth->rwgc", shaped, b)
        added = _rows(t, three, 4).view(np.float32).reshape(2, 2, -1, _GROUPS, _IN_GROUP)
        columns = total.reshape(*total.shape[:3], _IN_GROUP, 2)
        values = np.moveaxis(columns, -1, 1) + added.astype(np.float64)
        words = as_words(values.astype(np.float32)).reshape(4, t.count)
        for place in range(4):
            t.put(result + place if result != ZERO else ZERO, words[place], mask)

    return run

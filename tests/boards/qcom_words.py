"""Kernels on words of memory: the board's waves run a text, and nothing is found."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from boards.machine.arrays import Words
from tests.boards.ir3_runner import BASE, LANES, execute
from tests.support import check

OUT: Final = 2048
"""The word that results begin at."""
SETS: Final = 1024
"""The word that descriptors begin at."""
CONSTANTS: Final = [BASE & 0xFFFFFFFF, BASE >> 32, (BASE & 0xFFFFFFFF) + OUT * 4, BASE >> 32]
HEAD: Final = """
mov.u32u32 r2.x, c0.x
mov.u32u32 r2.y, c0.y
mov.u32u32 r2.z, c0.z
mov.u32u32 r2.w, c0.w
mad.u24 r1.x, c1.x, r48.x, r0.x
(rpt5)nop
"""

STORE: Final = "\n(sy)(ss)(rpt5)nop\nstg.a.u32 g[r2.z+(r1.x)<<2], r4.x, 1"
"""What a kernel ends with: r4.x to the word of its lane."""


def random_words(seed: int = 1) -> Words:
    """16 KiB of them."""
    return np.random.default_rng(seed).integers(0, 1 << 32, 4096, np.uint32)


def run_kernel(text: str, words: Words, block: int = LANES, **more: Any) -> None:
    """Run it on `words`, which lie at BASE."""
    constants = [*CONSTANTS, block, 0, 0, 0, *more.pop("constants", [])]
    more.setdefault("shared_bytes", 2048)
    done = execute(HEAD + text + "\nend", constants, words, block=(block, 1, 1), **more)
    check(done.fault is None, str(done.fault))
    check(not done.violations, str([str(one) for one in done.violations[:3]]))

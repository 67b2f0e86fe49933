"""Instructions that nvrtc emits for Turing alone.

src: Mesa src/nouveau/compiler/nak/sm70_encode.rs (BMOV)
"""

from __future__ import annotations

from boards.machine.arrays import Array
from boards.nv.warp.build import Action, Builder
from boards.nv.warp.integer import out
from boards.nv.warp.state import Threads


def bmov(build: Builder) -> Action:
    """BMOV.32, BMOV.32.CLEAR: the lanes that meet at a convergence barrier, to a register."""
    number, clear = build.take(24, 4), bool(build.take(84))
    write = out(build, uniform=False)
    build.latency = "variable"

    def run(t: Threads, mask: Array) -> None:
        write(t, t.partners[number], mask)
        if clear:
            t.partners[number][mask] = 0

    return run

"""All kernels of the Turnip witness, by name."""

from __future__ import annotations

from tests.turnip import kernels_memory as memory
from tests.turnip import kernels_more as more
from tests.turnip import kernels_plain as plain
from tests.turnip.kernel import Kernels

KERNELS: Kernels = {
    **plain.ARITHMETIC, **plain.FLOW, **memory.SHARED, **memory.ATOMICS, **memory.GRIDS,
    **memory.TEXTURES, **memory.TILED, **memory.LOOKS, **memory.SUBGROUPS, **more.MORE,
}  # fmt: skip

"""Mappings of the GPU's memory for the host."""

from __future__ import annotations

from functools import partial
from typing import Final

from drivers.base.contracts import Region, World
from drivers.base.order import is_in_order
from drivers.base.undo import Step, Undo, run_all

PAGE_BYTES: Final = 1 << 14
"""What anonymous memory is a multiple of here: kernels have pages of 4 KiB, Android's also of 16.
# src: arch/arm64/Kconfig, ARM64_16K_PAGES"""


def map_memory(world: World, fd: int, nbytes: int, offset: int = 0) -> tuple[Region, Step]:
    """A mapping, and what unmaps it.

    In a recording it has reserved addresses: that makes it memory there, which can be compared.
    """
    if not is_in_order():
        region = world.mmap(fd, nbytes, offset)
        return region, region.close
    with Undo() as undo:
        space = world.reserve(nbytes)
        undo.add(space.close)
        region = world.mmap(fd, nbytes, offset, within=space)
    return region, partial(run_all, [region.close, space.close])

"""Where the texels of a tiled image are: TILE6_3 without compression.

Blocks of 256 bytes, in which the bits of both coordinates alternate; 2 x 4 blocks are a macrotile
of 2 KiB, whose blocks are mixed by exclusive or; the memory's banks mix rows of macrotiles.
src: Mesa 25.0.7, src/freedreno/fdl/fd6_tiled_memcpy.cc
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from boards.machine.arrays import Array

TILE_3: Final = 3
LEVELS: Final = 6
"""Bank swizzle levels of UBWC 2.0 and later. # src: Mesa 25.0.7, tu_knl_kgsl.cc"""
_FEW_CHANNELS_BANK: Final = 15
"""Chips whose highest bank bit this is have macrotile mode 0, 4 channels; others mode 1, 8.
# src: Mesa 25.0.7, tu_knl_kgsl.cc (UBWC 4.0), freedreno_devices.py"""
_BLOCK_BYTES: Final = 256
_MACROTILE_BYTES: Final = 2048
_SMALLEST_WIDTH: Final = 16
"""Narrower images are linear, unless TILE_ALL is set. # src: a6xx.xml, A6XX_TEX_CONST"""
_BLOCKS: Final = {1: (32, 8), 2: (32, 4), 4: (16, 4), 8: (8, 4), 16: (4, 4)}
"""Bytes of a texel -> width and height of a block."""
_WIDE_TEXEL: Final = 16


class Tiling(NamedTuple):
    """How the memory controller mixes, as the kernel sets it."""

    bank_bit: int
    levels: int = LEVELS

    @property
    def channels_8(self) -> bool:
        """The macrotile mode."""
        return self.bank_bit > _FEW_CHANNELS_BANK


def is_tiled(mode: int, width: int, *, everywhere: bool) -> bool:
    """Whether an image of a tile mode is tiled."""
    return mode == TILE_3 and (everywhere or width >= _SMALLEST_WIDTH)


def has_tiles(item_bytes: int) -> bool:
    """Whether texels of this size are known."""
    return item_bytes in _BLOCKS


def _pixel(x: Array, y: Array) -> Array:
    return (
        (x & 1) | (y & 1) << 1 | (x >> 1 & 1) << 2 | (y >> 1 & 1) << 3
        | (x >> 2 & 7) << 4 | (y >> 2 & 1) << 7
    )  # fmt: skip


def _bank_mask(stride: int, item_bytes: int, tiling: Tiling) -> int:
    """Which bits of a block's row go into the address."""
    more, mask = int(item_bytes == 1), 0
    for level, below, bit in ((2, 10, 4), (4, 9, 8), (1, 8, 16)):
        period = 1 << tiling.bank_bit - below + more
        if tiling.levels & level and not stride % period:
            mask |= bit
    return mask


def offsets(x: Array, y: Array, item_bytes: int, pitch_bytes: int, tiling: Tiling) -> Array:
    """Bytes from the image's start, of texels of one layer."""
    wide, high = _BLOCKS[item_bytes]
    stride = pitch_bytes // (wide * item_bytes)
    column, row = x // wide, y // high
    mixed = (column & 1) * 7 ^ (column >> 1) << 3
    turned = (row & 1) * 6 ^ (row >> 1 & 1) * 3
    if item_bytes < _WIDE_TEXEL:
        mixed = mixed ^ (column & (6 if tiling.channels_8 else 2))
        turned = turned ^ (row & 4 if tiling.channels_8 else 0)
    bank = (row & _bank_mask(stride, item_bytes, tiling)) << tiling.bank_bit - 3
    block = (mixed * _BLOCK_BYTES) ^ (turned * _BLOCK_BYTES | bank)
    start = (row >> 2) * (stride // 2 * _MACROTILE_BYTES) + block
    found: Array = np.asarray(start + _pixel(x % wide, y % high) * item_bytes)
    return found

"""Where the board has the texels of tiled images: as Mesa's own copy places them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cffi import FFI

from boards.qcom.tiling import Tiling, offsets
from tests.support import check
from tests.turnip.build import CannotRun, compile_tiles, installed

SIZES = ((1, 224, 96), (2, 160, 80), (4, 96, 80), (8, 104, 48), (16, 36, 40))
"""Bytes of a texel, width, height."""
BANKS = ((13, 6), (14, 7), (15, 6), (16, 6), (16, 7))
"""Highest bank bit, swizzle levels."""
Tile = Callable[..., None]


@pytest.fixture(scope="module")
def tile(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Mesa's copy."""
    turnip = installed()
    if turnip is None:
        pytest.skip("Turnip's tools are not built")
    target = tmp_path_factory.mktemp("tiles") / "tiles.so"
    try:
        compile_tiles(turnip, target)
    except CannotRun as reason:
        pytest.skip(str(reason))
    ffi = FFI()
    ffi.cdef("void tile(char *, const char *, unsigned, unsigned, unsigned, unsigned, unsigned,"
             " unsigned, unsigned);")  # fmt: skip
    library = ffi.dlopen(str(Path(target)))

    def run(tiled: np.ndarray, linear: np.ndarray, *numbers: int) -> None:
        library.tile(ffi.from_buffer(tiled), ffi.from_buffer(linear), *numbers)

    return run


@pytest.mark.parametrize("wide", [1, 4, 32])
@pytest.mark.parametrize(("bank", "levels"), BANKS)
@pytest.mark.parametrize(("item_bytes", "width", "height"), SIZES)
def test_texels_are_where_mesa_puts_them(
    tile: Tile, item_bytes: int, width: int, height: int, bank: int, levels: int, wide: int
) -> None:
    """A pitch that is a multiple of the banks' mixes them, too."""
    pitch = -(-width * item_bytes // 2048) * 2048 * wide
    tiling = Tiling(bank, levels)
    linear = np.random.default_rng(bank).integers(0, 256, (height, width, item_bytes), np.uint8)
    tiled = np.zeros(pitch * (height + 64) + (1 << bank + 2), np.uint8)
    tile(tiled, linear, item_bytes, width, height, pitch, bank, levels, int(tiling.channels_8))
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    at = offsets(x, y, item_bytes, pitch, tiling)
    check(np.unique(at).size == width * height, "texels lie on each other")
    np.testing.assert_array_equal(tiled[at[..., None] + np.arange(item_bytes)], linear)

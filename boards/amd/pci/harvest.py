"""Compute units that are fused off: what the shader arrays' registers say."""

from __future__ import annotations

from boards.amd.pci.board import Board
from boards.amd.pci.register_file import Block

_CONFIG = "CC_GC_SHADER_ARRAY_CONFIG"
_L2 = "CGTS_TCC_DISABLE"
"""Channels of L2 that are fused off: none. src: gfx_v11_0.c gfx_v11_0_get_tcc_info()"""
_CUS_PER_WGP = 2


class Harvest:
    """Spreads what is missing over the arrays, from the first on, the last unit of each."""

    def __init__(self, board: Board, blocks: list[Block]) -> None:
        self._board, self._blocks = board, blocks
        for block in blocks:
            block.read_only(_CONFIG, *([_L2] if block.has(_L2) else []))
        board.on_reset(self._fuse, core=True)

    def _fuse(self) -> None:
        chip, properties = self._board.chip, self._board.chip.properties
        per_engine, cus = properties["simd_arrays_per_engine"], properties["cu_per_simd_array"]
        arrays = properties["array_count"] // chip.xccs
        there = chip.cus - self._board.options.harvested_cus
        cut = (arrays * chip.xccs * cus - there) // chip.xccs
        by_cu = chip.family == "gfx9"
        units, missing = (cus, cut) if by_cu else (cus // _CUS_PER_WGP, cut // _CUS_PER_WGP)
        field = "INACTIVE_CUS" if by_cu else "INACTIVE_WGPS"
        for number in range(arrays):
            here = missing // arrays + (number < missing % arrays)
            mask = (1 << units) - (1 << units - here)
            for block in self._blocks:
                block.put_field(_CONFIG, field, mask, divmod(number, per_engine))

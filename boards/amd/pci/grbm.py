"""Selectors of the graphics block: GRBM_GFX_CNTL and GRBM_GFX_INDEX say which copy is meant."""

from __future__ import annotations

from collections.abc import Iterable

from boards.amd.pci.board import Board
from boards.amd.pci.register_file import Block

Queue = tuple[int, int, int]
"""Of one instance of the block: (micro engine, pipe, queue)."""
SELECT, INDEX = "GRBM_GFX_CNTL", "GRBM_GFX_INDEX"
_BROADCAST = 0xE000_0000
_PER_PIPE = (
    "CP_MEC_RS64_PRGRM_CNTR_START", "CP_MEC_RS64_PRGRM_CNTR_START_HI", "CP_PFP_PRGRM_CNTR_START",
    "CP_PFP_PRGRM_CNTR_START_HI", "CP_ME_PRGRM_CNTR_START", "CP_ME_PRGRM_CNTR_START_HI",
    "CPC_INT_CNTL",
)  # fmt: skip
_PER_VMID = ("SH_MEM_CONFIG", "SH_MEM_BASES", "SPI_GDBG_PER_VMID_CNTL")
_PER_ARRAY = ("CC_GC_SHADER_ARRAY_CONFIG", "GC_USER_SHADER_ARRAY_CONFIG")


class Grbm:
    """What is selected in one instance of the graphics block, and the registers it selects from."""

    def __init__(self, board: Board, block: Block) -> None:
        self._board, self._block = board, block
        self._family = board.chip.family
        queues = [name for name in block.table if name.startswith(("CP_HQD_", "CP_MQD_"))]
        block.bank([*queues, "SPI_COMPUTE_QUEUE_RESET"], self.queue)
        block.bank(self._known(_PER_PIPE), self.pipe)
        block.bank(self._known(_PER_VMID), self.vmid)
        block.bank(self._known(_PER_ARRAY), self._array, self._arrays)
        block.preset(INDEX, _BROADCAST)

    def _known(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self._block.has(name)]

    def _selected(self, field: str) -> int:
        return self._block.field(SELECT, field)

    def queue(self) -> Queue:
        """The queue whose HQD is seen."""
        return self._selected("MEID"), self._selected("PIPEID"), self._selected("QUEUEID")

    def pipe(self) -> tuple[int, int]:
        """The pipe whose registers are seen."""
        return self._selected("MEID"), self._selected("PIPEID")

    def vmid(self) -> int:
        """The VMID whose SH_MEM registers are seen."""
        return self._selected("VMID")

    # Shader engines and arrays

    def _index(self, field: str) -> int:
        low, high = self._block.table[INDEX].fields[field]
        return self._block.get(INDEX) >> low & (1 << high - low + 1) - 1

    @property
    def _array_field(self) -> str:
        return "SH_INDEX" if self._family == "gfx9" else "SA_INDEX"

    def _array(self) -> tuple[int, int]:
        """A read with broadcast on sees the first."""
        broadcast = self._index("SE_BROADCAST_WRITES")
        return (0, 0) if broadcast else (self._index("SE_INDEX"), self._index(self._array_field))

    def _arrays(self) -> list[tuple[int, int]]:
        if not self._index("SE_BROADCAST_WRITES"):
            return [self._array()]
        properties = self._board.chip.properties
        per_engine = max(1, properties.get("simd_arrays_per_engine", 1))
        engines = properties.get("array_count", 1) // per_engine // self._board.chip.xccs
        return [(engine, array) for engine in range(engines) for array in range(per_engine)]

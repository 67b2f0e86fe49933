"""NBIO: the size of VRAM, windows into VRAM and into registers beyond BAR5, HDP flushes."""

from __future__ import annotations

from functools import partial

from boards.amd.pci.board import Board
from boards.amd.pci.register_file import Block

MM_INDEX, MM_INDEX_HI, MM_DATA = (
    "BIF_BX_PF0_MM_INDEX",
    "BIF_BX_PF0_MM_INDEX_HI",
    "BIF_BX_PF0_MM_DATA",
)
MEMSIZE = "RCC_DEV0_EPF0_RCC_CONFIG_MEMSIZE"
REMAP_MEM, REMAP_REG = "BIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL", "BIF_BX0_REMAP_HDP_REG_FLUSH_CNTL"
FLUSH_MEM = "BIF_BX_PF0_HDP_MEM_COHERENCY_FLUSH_CNTL"
FLUSH_REG = "BIF_BX_PF0_HDP_REG_COHERENCY_FLUSH_CNTL"
FLUSH_REQ, FLUSH_DONE = "BIF_BX_PF0_GPU_HDP_FLUSH_REQ", "BIF_BX_PF0_GPU_HDP_FLUSH_DONE"
POSTED_SCRATCH, _POSTED = "BIF_BX0_BIOS_SCRATCH_7", 0x200
"""The boot ROM has run ASIC_Init. src: atomfirmware.h ATOM_S7_ASIC_INIT_COMPLETE_MASK, which
amdgpu_atombios_scratch_need_asic_init() asks for"""
_FUNCTION = "RCC_DEV0_EPF0_RCC_IOV_FUNC_IDENTIFIER"
"""Zero: no virtual function, and SR-IOV is off. src: amdgpu_virt.c amdgpu_detect_virtualization()
"""
_INDIRECT = (
    ("BIF_BX_PF0_RSMU_INDEX", "BIF_BX_PF0_RSMU_INDEX_HI", "BIF_BX_PF0_RSMU_DATA"),
    ("BIF_BX0_PCIE_INDEX2", "BIF_BX0_PCIE_INDEX2_HI", "BIF_BX0_PCIE_DATA2"),
)
"""src: nbio_v4_3.c and nbif_v6_3_1.c take RSMU, nbio_v7_9.c takes PCIE_INDEX2"""
_STRAP, _REVISION, _REVISION_942 = "RCC_STRAP0_RCC_DEV0_EPF0_STRAP0", "STRAP_ATI_REV_ID_DEV0_F0", 1
"""src: kfd_device.c kgd2kfd_probe(): GC 9.4.3 of revision 0 is gfx941, from 1 on gfx942;
nbio_v7_9.c nbio_v7_9_get_rev_id()"""
_VRAM_APERTURE = 1 << 31
"""Of MM_INDEX. src: amdgpu_device.c amdgpu_device_mm_access()"""
_WORD_BYTES, _ALL_ONES = 4, 0xFFFF_FFFF


class Nbio:
    """The bus interface's registers."""

    def __init__(self, board: Board, block: Block) -> None:
        self._board, self._block = board, block
        block.preset(MEMSIZE, board.vram.nbytes >> 20)
        block.read_only(MEMSIZE)
        block.read_only(_FUNCTION)
        block.preset(POSTED_SCRATCH, _POSTED)
        if board.chip.family == "gfx9":
            block.preset(_STRAP, block.table[_STRAP].put(0, _REVISION, _REVISION_942))
        block.on_read(MM_DATA, self._mm_read)
        block.on_write(MM_DATA, self._mm_write)
        for index, high, data in _INDIRECT:
            block.on_read(data, partial(self._indirect_read, index, high))
            block.on_write(data, partial(self._indirect_write, index, high))
        # src: nbio_v4_3.c set_reg_remap(): this is what amdgpu points the remap at when it keeps it
        block.preset(REMAP_MEM, block.address_dw(FLUSH_MEM) * _WORD_BYTES)
        block.preset(REMAP_REG, block.address_dw(FLUSH_REG) * _WORD_BYTES)
        block.on_write(FLUSH_MEM, lambda value: board.flush_hdp())
        block.on_read(FLUSH_MEM, lambda: 0)
        block.on_write(FLUSH_REQ, self._flush_request)
        block.read_only(FLUSH_DONE)
        block.on_read(FLUSH_DONE, self._flush_done)

    def remapped(self, off: int) -> bool:
        """Whether a dword of BAR5 is one that the HDP flush registers were moved to."""
        return off in (self._block.get(REMAP_MEM), self._block.get(REMAP_REG))

    def flush(self, off: int, value: int) -> None:
        """A write to such a dword: whoever listens hears of the register that it stands for."""
        memory = off == self._block.get(REMAP_MEM)
        watch = self._board.registers.watch
        if watch is not None:
            watch("write", f"{self._block}.{FLUSH_MEM if memory else FLUSH_REG}", value)
        if memory:
            self._board.flush_hdp()

    def _flush_request(self, clients: int) -> None:
        """An engine's own flush stands for no flush of the CPU's stores before a doorbell."""
        if not self._board.engine:
            self._board.flush_hdp()
        self._block.put(FLUSH_DONE, clients)

    def _flush_done(self) -> int:
        """A read over the bus ends the CPU's flush; an engine's ends none but its own."""
        if not self._board.engine:
            self._board.posted()
        return self._block.get(FLUSH_DONE)

    # MM_INDEX and MM_DATA: VRAM four bytes at a time, or a register

    def _mm_offset(self) -> int:
        low = self._block.get(MM_INDEX) & ~_VRAM_APERTURE
        return low | self._block.get(MM_INDEX_HI) << 31

    def _mm_is_vram(self) -> bool:
        return bool(self._block.get(MM_INDEX) & _VRAM_APERTURE)

    def _mm_read(self) -> int:
        if not self._mm_is_vram():
            return self._board.registers.read(self._block.get(MM_INDEX) // _WORD_BYTES)
        return int.from_bytes(self._board.host_read(self._mm_offset(), _WORD_BYTES), "little")

    def _mm_write(self, value: int) -> None:
        if not self._mm_is_vram():
            self._board.registers.write(self._block.get(MM_INDEX) // _WORD_BYTES, value)
            return
        self._board.host_write(self._mm_offset(), value.to_bytes(_WORD_BYTES, "little"))

    # Registers by index; the upper half says which base die

    def _indirect(self, index: str, high: str) -> int:
        return (self._block.get(index) | self._block.get(high) << 32) // _WORD_BYTES

    def _indirect_read(self, index: str, high: str) -> int:
        return self._board.registers.read(self._indirect(index, high))

    def _indirect_write(self, index: str, high: str, value: int) -> None:
        self._board.registers.write(self._indirect(index, high), value)

"""Memory hubs, interrupts, compute queues and copy engines of one GPU, put together."""

from __future__ import annotations

from boards.amd.pci import invalidation
from boards.amd.pci.board import Board
from boards.amd.pci.compute import Compute
from boards.amd.pci.doorbells import Doorbells
from boards.amd.pci.grbm import Grbm
from boards.amd.pci.hws import Hws
from boards.amd.pci.ih import Ih
from boards.amd.pci.interrupts import Interrupts
from boards.amd.pci.kernel_queues import KernelQueues
from boards.amd.pci.mec import Mec
from boards.amd.pci.mes import Mes
from boards.amd.pci.queue_host import Queues
from boards.amd.pci.register_file import Block
from boards.amd.pci.rlc import Rlc
from boards.amd.pci.sdma import Sdma
from boards.amd.pci.vm_faults import FaultRegisters
from boards.amd.pci.vm_hub import GFX, GFX9, MM, VmHub
from boards.amd.pci.xcc_queues import XccQueues

_ADDRESS_CONFIG = 0x545
"""GB_ADDR_CONFIG, which fuses set; amdgpu complains of 0. src: gc_11_0_0_sh_mask.h for the fields;
the value is made up: 32 pipes, 8 packers, 4 shader engines"""
_ALWAYS_UP = ("SCRATCH_REG", "GRBM_")


class Graphics:
    """What attaches itself to the registers of GC, MMHUB, OSSSYS and SDMA."""

    def __init__(self, board: Board, doorbells: Doorbells) -> None:
        self._board = board
        gfx9 = board.chip.family == "gfx9"
        blocks = board.registers.every("GC")
        self.gc_hub = VmHub(board, blocks, GFX9 if gfx9 else GFX, "GCHUB")
        memory = board.registers.every("MMHUB")
        self.mm_hub = VmHub(board, memory, GFX9 if gfx9 else MM, "MMHUB")
        for hub in (self.gc_hub, self.mm_hub):
            invalidation.attach(hub)
        self.ih = Ih(board, board.block("OSSSYS"), self.mm_hub)
        interrupts = Interrupts(
            board, self.ih, FaultRegisters(self.gc_hub), FaultRegisters(self.mm_hub)
        )
        self.running = Queues(board, (self.gc_hub, self.mm_hub))
        parts = [self._part(block) for block in blocks]
        self.compute = Compute(board, parts, self.gc_hub, self.running, interrupts)
        copies = board.registers.every("SDMA0") if gfx9 else blocks[:1]
        copy_hub = self.mm_hub if gfx9 else self.gc_hub
        self.sdma = Sdma(board, copies, copy_hub, self.running, interrupts)
        self.kernel_queues = KernelQueues(
            board, self.compute, self.sdma, (self.gc_hub, self.mm_hub), self.running, interrupts
        )
        self.xcc_queues: XccQueues | None = None
        self.mes = Mes(board, self.kernel_queues, self.compute, self.sdma)
        self._processes = self.mes.running
        if gfx9:
            hws = Hws(board, self.kernel_queues, self.compute, self.sdma)
            self.xcc_queues = XccQueues(
                board, self.compute, self.kernel_queues, self.running, interrupts, hws
            )
            self._processes = hws.running
        for number, block in enumerate(blocks):
            self._common(number, block)
            if board.chip.family != "gfx9":
                block.preset("GB_ADDR_CONFIG", _ADDRESS_CONFIG)
        doorbells.listen(self._doorbell)

    def _part(self, block: Block) -> tuple[Block, Grbm, Mec]:
        grbm = Grbm(self._board, block)
        Rlc(self._board, block)
        return block, grbm, Mec(self._board, block, grbm)

    def _common(self, number: int, block: Block) -> None:
        """Registers of a graphics block that concern several parts of it."""
        block.on_write("GRBM_SOFT_RESET", lambda value: self._soft_reset(number, block, value))
        block.on_read("GRBM_STATUS", lambda: self._status(block))
        block.read_only("GRBM_STATUS", "CP_STAT")
        block.is_up = self._is_up

    def _is_up(self, name: str) -> bool:
        """src: gfx_v11_0_hw_init(): it is powered once the RLC's autoload is complete, and only
        then gfx_v11_0_gfxhub_enable() and everything else write to it"""
        board = self._board
        autoloads = board.chip.family != "gfx9"
        return not autoloads or "RLC_AUTOLOAD" in board.loaded or name.startswith(_ALWAYS_UP)

    def _soft_reset(self, number: int, block: Block, value: int) -> None:
        """src: gfx_v11_0_soft_reset(), sdma_v6_0_soft_reset()"""
        layout = block.table["GRBM_SOFT_RESET"]
        bits = {name for name in layout.fields if layout.get(value, name)}
        if bits & {"SOFT_RESET_CP", "SOFT_RESET_CPC"}:
            self.compute.soft_reset(number)
        for engine in range(self._board.chip.sdma_engines):
            if f"SOFT_RESET_SDMA{engine}" in bits:
                self.sdma.reset_engine(engine)

    def _status(self, block: Block) -> int:
        layout, value = block.table["GRBM_STATUS"], 0
        if self.compute.busy:
            value = layout.put(layout.put(0, "GUI_ACTIVE", 1), "SPI_BUSY", 1)
        return value

    def _doorbell(self, target: str, index: int, nbytes: int, value: int) -> bool:
        if self.ih.doorbell(index, value):
            return True
        if target == "IH":
            return False
        if target == "SDMA":
            known = self.sdma.doorbell(index, nbytes, value)
            return known or self._processes.was_removed(index)
        if self.xcc_queues is not None and self.xcc_queues.doorbell(index, nbytes, value):
            return True
        if self.kernel_queues.doorbell(index, nbytes, value):
            return True
        if self.mes.doorbell(index, nbytes, value):
            return True
        if self.sdma.doorbell(index, nbytes, value, scheduled=True):
            return True
        return self.compute.doorbell(index, nbytes, value) or self._processes.was_removed(index)

"""The compute micro engine of one instance of the graphics block: does its firmware run."""

from __future__ import annotations

from boards.amd.pci.board import Board
from boards.amd.pci.grbm import Grbm
from boards.amd.pci.register_file import Block

COMPUTE_ME = 1
PIPES = 4
_START = "CP_MEC_RS64_PRGRM_CNTR_START"
_WORD_SHIFT = 2
"""Start addresses count dwords. src: gfx_v11_0_config_gfx_rs64()"""
# src: amdgpu/psp_gfx_if.h GFX_FW_TYPE_*
_FIRMWARE = {
    "gfx9": ("CP_MEC", "RLC_G", "REG_LIST"), "gfx11": ("RS64_MEC", "RLC_AUTOLOAD"),
    "gfx12": ("RS64_MEC", "RLC_AUTOLOAD"),
}  # fmt: skip


class Mec:
    """Halted after a reset; runs once it has firmware, an address to start at, and is let go."""

    def __init__(self, board: Board, block: Block, grbm: Grbm) -> None:
        self._board, self._block, self._grbm = board, block, grbm
        self._rs64 = board.chip.family != "gfx9"
        self._control = "CP_MEC_RS64_CNTL" if self._rs64 else "CP_MEC_CNTL"
        halt = "MEC_HALT" if self._rs64 else "MEC_ME1_HALT"
        layout = block.table[self._control]
        block.preset(self._control, layout.put(0, halt, 1))
        self._halt = halt
        self._latched: dict[int, int] = {}
        """Where each pipe starts: what was in its register when it came out of reset."""
        self._in_reset: set[int] = set()
        block.on_write(self._control, self._controlled)
        board.on_reset(self._forget, core=True)

    def _forget(self) -> None:
        self._latched.clear()
        self._in_reset.clear()

    def reset(self) -> None:
        """A soft reset of the command processor: it halts, and has to be started again."""
        layout = self._block.table[self._control]
        self._block.put(self._control, layout.put(0, self._halt, 1))
        self._forget()

    def _controlled(self, value: int) -> None:
        if not self._rs64:
            return
        layout = self._block.table[self._control]
        for pipe in range(PIPES):
            if layout.get(value, f"MEC_PIPE{pipe}_RESET"):
                self._in_reset.add(pipe)
            elif pipe in self._in_reset:
                self._in_reset.discard(pipe)
                self._latched[pipe] = self._start(pipe)
        if not layout.get(value, self._halt) and not self._in_reset:
            self._missing_is_a_violation()

    def _start(self, pipe: int) -> int:
        """src: gfx_v11_0_config_gfx_rs64(): the address is in dwords, a register for each pipe"""
        key = COMPUTE_ME, pipe
        return self._block.get(_START, key) | self._block.get(f"{_START}_HI", key) << 32

    def _missing_is_a_violation(self) -> None:
        why = self.why_not(0)
        if why:
            self._board.find("MEC", f"{self._block} is let go, and cannot run: {why}")

    def why_not(self, pipe: int) -> str:
        """What keeps a pipe from running; empty when it runs."""
        board, block = self._board, self._block
        if board.options.firmware:
            for name in _FIRMWARE[board.chip.family]:
                if name not in board.loaded:
                    return f"its firmware is not there ({name})"
        if block.field(self._control, self._halt):
            return "it is halted"
        if not self._rs64:
            return ""
        if block.field(self._control, f"MEC_PIPE{pipe}_RESET"):
            return f"pipe {pipe} is in reset"
        if not block.field(self._control, f"MEC_PIPE{pipe}_ACTIVE"):
            return f"pipe {pipe} is not active"
        start = self._latched.get(pipe)
        if not start:
            return f"pipe {pipe} did not come out of reset with a start address"
        begins = board.options.images.start("RS64_MEC") >> _WORD_SHIFT
        if board.options.firmware and start != begins:
            return f"pipe {pipe} starts at {start:#x}, where its firmware does not begin"
        return ""

    def serves(self, doorbell_dw: int) -> bool:
        """Whether a doorbell is in the range that the engine listens to."""
        # src: gfx_v11_0_cp_set_doorbell_range(), kiq_init_register(): bytes of the doorbell BAR
        low = self._block.field("CP_MEC_DOORBELL_RANGE_LOWER", "DOORBELL_RANGE_LOWER")
        high = self._block.field("CP_MEC_DOORBELL_RANGE_UPPER", "DOORBELL_RANGE_UPPER")
        return low <= doorbell_dw <= high

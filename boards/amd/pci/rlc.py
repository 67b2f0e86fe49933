"""The run list controller of one instance of the graphics block: autoload status, safe mode."""

from __future__ import annotations

from boards.amd.pci.board import Board
from boards.amd.pci.register_file import Block

_SAFE_MODE, _STATUS = "RLC_SAFE_MODE", "RLC_RLCS_BOOTLOAD_STATUS"
_FIRMWARE = {"gfx9": "RLC_G", "gfx11": "RLC_AUTOLOAD", "gfx12": "RLC_AUTOLOAD"}


class Rlc:
    """Answers once its firmware runs."""

    def __init__(self, board: Board, block: Block) -> None:
        self._board, self._block = board, block
        self._is_safe = False
        block.on_write(_SAFE_MODE, self._requested)
        if block.has(_STATUS):
            block.on_read(_STATUS, self._bootload)
            block.read_only(_STATUS)
        board.on_reset(self._forget, core=True)

    def _forget(self) -> None:
        self._is_safe = False

    @property
    def runs(self) -> bool:
        """Whether its firmware has arrived and it was not stopped."""
        if not self._board.options.firmware:
            return True
        return _FIRMWARE[self._board.chip.family] in self._board.loaded

    @property
    def _enabled(self) -> bool:
        """src: gfx_v9_4_3.c xcc_rlc_start(); from gfx11 on the firmware that loads it starts it"""
        by_firmware = self._board.chip.family != "gfx9"
        return by_firmware or bool(self._block.field("RLC_CNTL", "RLC_ENABLE_F32"))

    def _bootload(self) -> int:
        """src: gfx_v11_0_wait_for_rlc_autoload_complete()"""
        layout = self._block.table[_STATUS]
        if not self.runs:
            return 0
        return layout.put(layout.put(0, "GFX_INIT_DONE", 1), "BOOTLOAD_COMPLETE", 1)

    def _requested(self, value: int) -> None:
        """src: gfx_v11_0_set_safe_mode(): CMD goes back to 0 when the RLC has done it"""
        layout, block = self._block.table[_SAFE_MODE], self._block
        if not layout.get(value, "CMD"):
            return
        if not self.runs or not self._enabled:
            self._board.find("RLC", f"{block}: safe mode is asked for, and the RLC does not run")
            return
        enter = bool(layout.get(value, "MESSAGE"))
        if enter == self._is_safe:
            self._board.find("RLC", f"{block}: safe mode is {'entered' if enter else 'left'} twice")
        self._is_safe = enter
        block.put_field(_SAFE_MODE, "CMD", 0)

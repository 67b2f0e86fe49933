"""A mailbox of three registers: parameter, message, response."""

from __future__ import annotations

from collections.abc import Callable

from boards.amd.pci.board import Board
from boards.amd.pci.register_file import Block

# src: smu_v13_0_0_ppsmc.h PPSMC_Result_*
OK, FAILED, UNKNOWN, NOT_ALLOWED, BUSY = 0x1, 0xFF, 0xFE, 0xFD, 0xFC

Handler = Callable[[int, int], tuple[int, int]]
"""(message, parameter) -> (response, value put into the parameter register)."""


class Mailbox:
    """Answers when the controller runs; until then the response stays what the driver wrote."""

    def __init__(
        self,
        board: Board,
        block: Block,
        numbers: tuple[int, int, int],
        alive: Callable[[], bool],
        handle: Handler,
    ) -> None:
        self._board, self._block, self._alive, self._handle = board, block, alive, handle
        message, argument, response = numbers
        self._argument, self._response = self._name(argument), self._name(response)
        self._busy = False
        block.on_write(self._name(message), self._message)
        block.on_read(self._response, self._read)
        board.on_reset(self._reset)

    @staticmethod
    def _name(number: int) -> str:
        return f"MP1_SMN_C2PMSG_{number}"

    def _reset(self) -> None:
        self._busy = False

    def _read(self) -> int:
        self._board.delays.run()
        return self._block.get(self._response)

    def _message(self, message: int) -> None:
        if not self._alive():
            return
        if self._busy:
            self._board.find("SMU message before the last one was answered", f"{message:#x}")
            self._block.put(self._response, BUSY)
            return
        if self._block.get(self._response):
            # src: smu_cmn.c __smu_cmn_send_msg(): the response is cleared first
            self._board.find("SMU message with the old response in place", f"{message:#x}")
        self._busy = True
        argument = self._block.get(self._argument)
        self._board.delays.after(self._board.options.smu_s, lambda: self._answer(message, argument))

    def _answer(self, message: int, argument: int) -> None:
        self._busy = False
        response, value = self._handle(message, argument)
        if response == OK:
            self._block.put(self._argument, value)
        self._block.put(self._response, response)

"""The security processor's bootloader: stages through a mailbox, until SOS is alive."""

from __future__ import annotations

from boards.amd.pci.board import Board
from boards.amd.pci.mc_memory import McMemory
from boards.amd.pci.psp_names import READY, STAGES, required_stages
from boards.amd.pci.register_file import Block

_MIB_SHIFT = 20
_ORDER = tuple(STAGES.values())
ERROR_COMMAND, ERROR_ORDER, ERROR_ADDRESS, ERROR_IMAGE = 0x01, 0x02, 0x03, 0x04
"""Low byte of C2PMSG_35 after a failure, which since 13.0.6 is reported there (psp_v13_0.c); the
numbers are made up."""
_ALIVE = 0x0001
_SOS_VERSION = 0x0036_0260


class Bootloader:
    """C2PMSG_35 (command, ready), 36 (address in MiB), 81 (SOS's sign of life)."""

    def __init__(self, board: Board, block: Block, prefix: str, memory: McMemory) -> None:
        self._board, self._block, self._prefix = board, block, prefix
        self._memory = memory
        self._version = board.chip.ip["MP0"]
        self.alive = False
        self._waits_for_reader = False
        """SOS was started and nobody has looked for its sign of life since."""
        self._passed: list[str] = []
        self._busy = False
        block.on_read(self._name(35), self._status)
        block.on_write(self._name(35), self._command)
        block.on_read(self._name(81), self._life)
        block.read_only(self._name(81), self._name(33))
        # src: amdgpu_discovery.c: bit 31 says that memory is trained and discovery is in place
        block.preset(self._name(33), READY)
        board.on_reset(self._reset)

    def _name(self, number: int) -> str:
        return f"{self._prefix}_SMN_C2PMSG_{number}"

    def _reset(self) -> None:
        self.alive, self._passed, self._busy = False, [], False
        self._waits_for_reader = False
        self._result = READY

    def _status(self) -> int:
        self._board.delays.run()
        return 0 if self._busy or self.alive else self._result

    def _life(self) -> int:
        """The sign comes some time after the command, and only its change is an answer.

        psp_v13_0_bootloader_load_sos() waits 20 ms, reads, and waits for another value: silicon
        takes longer than that. Here the first read behind the command finds the old value.
        """
        self._board.delays.run()
        first, self._waits_for_reader = self._waits_for_reader, False
        return _ALIVE if self.alive and not first else 0

    def _command(self, command: int) -> None:
        if self.alive:
            self._board.find("PSP bootloader command after SOS started", f"{command:#x}")
            return
        if self._busy:
            self._board.find("PSP bootloader command while it is busy", f"{command:#x}")
            return
        self._busy = True
        self._board.delays.after(self._board.options.psp_s, lambda: self._done(command))

    def _done(self, command: int) -> None:
        error, why = self._load(command)
        self._busy = False
        self._result = READY | error
        if error:
            stage = STAGES.get(command, f"command {command:#x}")
            self._board.find("PSP bootloader refused", stage, why)

    def _load(self, command: int) -> tuple[int, str]:
        stage = STAGES.get(command)
        if stage is None:
            return ERROR_COMMAND, "no such command"
        if self._passed and _ORDER.index(stage) <= _ORDER.index(self._passed[-1]):
            return ERROR_ORDER, f"after {self._passed[-1]}"
        missing = [s for s in required_stages(self._version) if s not in self._passed]
        if stage == "SOS" and missing != ["SOS"]:
            return ERROR_ORDER, f"before {missing[0]}"
        why = self._image(stage)
        if why is None:
            return ERROR_ADDRESS, "the address is not in VRAM"
        if why:
            return ERROR_IMAGE, why
        self._passed.append(stage)
        if stage == "SOS":
            self.alive = self._waits_for_reader = True
            if self._block.has(self._name(58)):  # mp_14_0_2_offset.h has none
                self._block.put(self._name(58), _SOS_VERSION)
        return 0, ""

    def _image(self, stage: str) -> str | None:
        """What is wrong with the image in the message buffer; None: there is no buffer."""
        address = self._block.get(self._name(36)) << _MIB_SHIFT
        data = self._memory.read(address, 1 << _MIB_SHIFT)
        if data is None:
            return None
        if self._memory.in_vram(address, 1 << _MIB_SHIFT):
            self._board.launched("PSP bootloader", "PSP bootloader")
        else:  # the GART's entries are in VRAM, which the host writes through the BAR
            self._board.need_flushed("PSP bootloader")
        # src: psp_v13_0.c psp_v13_0_bootloader_load_spl() sends the key database
        kinds = ("KDB", "SPL") if stage == "SPL" and self._version[0] < 14 else (stage,)
        images = self._board.options.images
        return images.wrong(images.leading(data, *kinds), *kinds)

"""The ring of the secure OS: frames that point to command buffers, answers, fences."""

from __future__ import annotations

import struct
from collections.abc import Callable

from boards.amd.pci import psp_names as n
from boards.amd.pci.board import Board
from boards.amd.pci.mc_memory import McMemory
from boards.amd.pci.register_file import Block

# src: psp_gfx_if.h struct psp_gfx_rb_frame, struct psp_gfx_cmd_resp
_FRAME = struct.Struct("<IIIIIIII2B")
_FRAME_BYTES, _FRAME_DW = 64, 16
_COMMAND_BYTES, _ID_AT, _ARGUMENTS_AT, _ANSWER_AT = 1024, 8, 28, 864
_ANSWER = struct.Struct("<IIIII")
_PAGE_BYTES = 4096
_SMALLEST_RING, _LARGEST_RING = 4096, 1 << 20
_BAD_RING = 0x1

Command = Callable[[int, bytes], tuple[int, int, int]]
"""(command id, arguments) -> (status, address of the firmware in the TMR, size of the TMR)."""


class PspRing:
    """C2PMSG_64 (create, destroy), 67 (write pointer in dwords), 69 to 71 (address, bytes)."""

    def __init__(
        self, board: Board, block: Block, prefix: str, alive: Callable[[], bool], run: Command,
        memory: McMemory,
    ) -> None:  # fmt: skip
        self._board, self._block, self._prefix = board, block, prefix
        self._alive, self._run, self._memory = alive, run, memory
        self.session = 0
        """Of the trusted application that the last command loaded."""
        self._start, self._nbytes, self._rptr_dw = 0, 0, 0
        self._status, self._busy = 0, False
        self.asked_reset: Callable[[], None] = lambda: None
        block.on_read(self._name(64), self._read_status)
        block.on_write(self._name(64), self._control)
        block.on_write(self._name(67), self._advance)
        board.on_reset(self._forget)

    def _name(self, number: int) -> str:
        return f"{self._prefix}_SMN_C2PMSG_{number}"

    def _forget(self) -> None:
        self._start, self._nbytes, self._rptr_dw = 0, 0, 0
        self._status, self._busy = 0, False

    def adopt(self, start: int, nbytes: int) -> None:
        """There is a ring at an MC address, which somebody made before."""
        self._start, self._nbytes, self._rptr_dw = start, nbytes, 0

    @property
    def start(self) -> int:
        """Its MC address; 0 without a ring."""
        return self._start

    def _read_status(self) -> int:
        self._board.delays.run()
        if not self._alive() or self._busy:
            return 0
        return n.READY | self._status

    def _control(self, command: int) -> None:
        if not self._alive():
            self._board.find("PSP ring command before SOS is alive", f"{command:#x}")
            return
        self._busy = True
        self._board.delays.after(self._board.options.psp_s, lambda: self._controlled(command))

    def _controlled(self, command: int) -> None:
        self._busy = False
        if command == n.INIT_RING:
            self._create()
        elif command in (n.DESTROY_RINGS, n.DESTROY_GPCOM_RING):
            self._forget()
            self._block.put(self._name(71), 0)
        elif command == n.MODE1_RESET:
            self.asked_reset()
        else:
            self._status = n.UNKNOWN
            self._board.find("PSP ring command that is not known", f"{command:#x}")

    def _create(self) -> None:
        low, high, nbytes = (self._block.get(self._name(number)) for number in (69, 70, 71))
        start = low | high << 32
        fits = _SMALLEST_RING <= nbytes <= _LARGEST_RING and nbytes % _FRAME_BYTES == 0
        there = fits and self._memory.read(start, nbytes) is not None
        if self._nbytes or not there or start % _PAGE_BYTES:
            self._status = _BAD_RING
            why = "there is one" if self._nbytes else f"{nbytes:#x} bytes at {low | high << 32:#x}"
            self._board.find("PSP ring that cannot be", why)
            return
        self._start, self._nbytes, self._rptr_dw, self._status = start, nbytes, 0, 0
        self._block.put(self._name(67), 0)

    def _advance(self, wptr_dw: int) -> None:
        ring_dw = self._nbytes // 4
        if not ring_dw or wptr_dw % _FRAME_DW or wptr_dw > ring_dw:
            self._board.find("PSP write pointer that cannot be", f"{wptr_dw:#x} of {ring_dw:#x}")
            return
        if self._memory.in_vram(self._start, self._nbytes):
            self._board.launched("PSP ring", "PSP ring")
        else:  # the GART's entries are in VRAM, which the host writes through the BAR
            self._board.need_flushed("PSP ring")
        wptr_dw %= ring_dw
        for _ in range(ring_dw // _FRAME_DW):
            if self._rptr_dw == wptr_dw:
                break
            at = self._start + 4 * self._rptr_dw
            frame = self._memory.read(at, _FRAME_BYTES)
            self._rptr_dw = (self._rptr_dw + _FRAME_DW) % ring_dw
            if frame is None:
                self._board.find("PSP ring that is gone", f"{at:#x}")
                return
            self._frame(frame)

    def _frame(self, frame: bytes) -> None:
        low, high, size, fence_low, fence_high, fence, _, _, vmid, kind = _FRAME.unpack_from(frame)
        command, where = low | high << 32, fence_low | fence_high << 32
        read = self._memory.read
        gone = read(command, _COMMAND_BYTES) is None or read(where, 4) is None
        wrong = gone or command % _PAGE_BYTES or where % 4
        if wrong or vmid or kind or any(frame[34:]):
            self._board.find("PSP frame that cannot be", frame[:34].hex())
            return
        if size:  # src: amdgpu_psp.c psp_ring_cmd_submit() clears the frame and sets no size
            self._board.find("PSP frame with a size", f"cmd_buf_size is {size:#x}")
        delay = self._board.options.psp_s
        self._board.delays.after(delay, lambda: self._execute(command, where, fence))

    def _execute(self, at: int, fence_at: int, fence: int) -> None:
        buffer = self._memory.read(at, _COMMAND_BYTES)
        if buffer is None:
            self._board.find("PSP command that is gone", f"{at:#x}")
            return
        number = int.from_bytes(buffer[_ID_AT : _ID_AT + 4], "little")
        arguments = buffer[_ARGUMENTS_AT:_ANSWER_AT]
        status, address, tmr_bytes = self._run(number, arguments)
        low, high = address & 0xFFFF_FFFF, address >> 32
        answer = _ANSWER.pack(status, self.session, low, high, tmr_bytes)
        self._memory.write(at + _ANSWER_AT, answer)
        self._memory.write(fence_at, fence.to_bytes(4, "little"))

"""The security processor: bootloader, ring, trusted memory, and what firmware has arrived."""

from __future__ import annotations

import struct
from collections.abc import Callable

from boards.amd.pci import payload
from boards.amd.pci import psp_names as n
from boards.amd.pci.board import Board
from boards.amd.pci.mc_memory import McMemory
from boards.amd.pci.psp_boot import Bootloader
from boards.amd.pci.psp_ring import PspRing
from boards.amd.pci.psp_ta import TrustedApplications
from boards.amd.pci.register_file import Block
from boards.amd.pci.vram import Guarded

_TMR_BYTES = 0x130_0000
"""What LOAD_TOC answers. src: tinygrad, ip.py (max_tmr_size) is the largest it ever saw"""
_TMR_ALIGN = 1 << 20
"""src: amdgpu_psp.h PSP_TMR_ALIGNMENT"""
BOOT_TMR_FROM_END = 48 << 20
"""Where a TMR that the boot ROM set up lies. Made up; the VBIOS says so to drivers."""
BOOT_TMR = ((13, 0, 6), (14, 0, 2), (14, 0, 3))
"""Security processors that boot with one. src: amdgpu_psp.c psp_early_init(): boot_time_tmr"""
_LAST = "RLC_G"
"""src: amdgpu_ucode.h enum AMDGPU_UCODE_ID is the order; psp_load_non_psp_fw() starts the autoload
behind it"""
_PAGE_BYTES = 4096
_SLOT_BYTES = 1 << 16
_LARGEST_BYTES = 16 << 20
"""Of one piece of firmware; AMD's largest have 1 MiB."""
Answer = tuple[int, int, int]


class Psp:
    """The commands of the ring, and their order."""

    def __init__(self, board: Board, block: Block, mode1: Callable[[], None]) -> None:
        self._board = board
        self.memory = McMemory(board, "PSP")
        prefix = "MPASP" if block.has("MPASP_SMN_C2PMSG_35") else "MP0"
        self.boot = Bootloader(board, block, prefix, self.memory)
        self.tas = TrustedApplications(board, self._image)
        self.ring = PspRing(board, block, prefix, lambda: self.boot.alive, self._run, self.memory)
        self.ring.asked_reset = mode1
        self._boot_tmr = board.chip.ip["MP0"] in BOOT_TMR
        # src: amdgpu_psp.c psp_early_init()
        self._autoload = board.chip.ip["MP0"] != (13, 0, 6)
        # src: amdgpu_psp.c psp_check_pmfw_centralized_cstate_management(): where psp_hw_start()
        # sends the SMU's firmware before the TMR; elsewhere psp_load_non_psp_fw() does, behind it
        self._smu_first = board.chip.ip["MP0"] in ((13, 0, 0), (13, 0, 7))
        required = n.REQUIRED[board.chip.family]
        self._graphics = (*required, *n.RESTORE_LISTS) if required else ()
        self._commands: dict[int, Callable[[bytes], Answer]] = {
            n.LOAD_TOC: self._load_toc,
            n.SETUP_TMR: self._setup_tmr,
            n.DESTROY_TMR: self._destroy_tmr,
            n.LOAD_IP_FW: self._load_ip_fw,
            n.AUTOLOAD_RLC: self._autoload_rlc,
            n.SPATIAL_PART: self._spatial_part,
            n.BOOT_CFG: lambda arguments: (0, 0, 0),
            n.LOAD_TA: self.tas.load,
            n.UNLOAD_TA: self.tas.unload,
            n.INVOKE_CMD: self.tas.invoke,
            n.LOAD_ASD: self.tas.load_asd,
        }
        board.on_reset(self._reset)

    def _reset(self) -> None:
        self._toc, self._tmr, self._next = False, 0, 0
        self._board.partitions = 0
        if self._boot_tmr:
            self._guard(self._board.vram.nbytes - BOOT_TMR_FROM_END, _TMR_BYTES)
        if not self._board.options.firmware:
            self._board.loaded.update(n.KINDS.values(), ("RLC_AUTOLOAD",))

    def _guard(self, start: int, nbytes: int) -> None:
        self._board.vram.guarded.append(Guarded(start, start + nbytes))
        self._tmr = start

    def _run(self, number: int, arguments: bytes) -> Answer:
        self.check_guard()
        self._board.hardware.event("psp", command=number)
        command = self._commands.get(number)
        self.ring.session = 0
        if command is None:
            self._board.find("PSP command that is not known", f"{number:#x}")
            return n.UNKNOWN, 0, 0
        self.tas.session = 0
        answer = command(arguments)
        self.ring.session = self.tas.session
        return answer

    def _refuse(self, status: int, what: str, why: str) -> Answer:
        self._board.find("PSP refused", what, why)
        return status, 0, 0

    def check_guard(self) -> None:
        """BAR0 is not watched: that trusted memory was touched shows in its pages."""
        for area in self._board.vram.guarded:
            if self._board.vram.dirty_pages(area.start, area.end - area.start):
                self._board.find("trusted memory was touched", f"{area.start:#x}")

    # Commands

    def _image(self, low: int, high: int, nbytes: int, *kinds: str) -> str:
        """What is wrong with firmware in memory; "" when it may be taken."""
        address = low | high << 32
        data = self.memory.read(address, nbytes) if 0 < nbytes <= _LARGEST_BYTES else None
        if data is None or address % _PAGE_BYTES:
            return f"{nbytes:#x} bytes at {address:#x} are not a page's beginning in VRAM or GART"
        return self._board.options.images.wrong(data, *kinds)

    def _load_toc(self, arguments: bytes) -> Answer:
        low, high, nbytes = struct.unpack_from("<III", arguments)
        why = self._image(low, high, nbytes, "TOC")
        if why:
            return self._refuse(n.SECURITY, "TOC", why)
        self._toc = True
        return 0, 0, _TMR_BYTES

    def _setup_tmr(self, arguments: bytes) -> Answer:
        low, high, nbytes, flags, pa_low, pa_high = struct.unpack_from("<6I", arguments)
        if self._boot_tmr:
            if low | high | nbytes:
                return self._refuse(n.BAD_PARAMETERS, "SETUP_TMR", "the boot ROM has set it up")
            return 0, 0, 0
        if not self._toc:
            return self._refuse(n.BAD_STATE, "SETUP_TMR", "before LOAD_TOC")
        if self._smu_first and "SMU" not in self._board.loaded:
            return self._refuse(n.BAD_STATE, "SETUP_TMR", "before the SMU's firmware")
        off = self._board.vram_offset(low | high << 32, nbytes)
        if off is None or off % _TMR_ALIGN or nbytes < _TMR_BYTES or self._board.vram.guarded:
            why = f"{nbytes:#x} bytes at {low | high << 32:#x}"
            return self._refuse(n.BAD_PARAMETERS, "SETUP_TMR", why)
        if not flags >> 1 & 1 or pa_low | pa_high << 32 != off:
            return self._refuse(n.BAD_PARAMETERS, "SETUP_TMR", "physical and MC address disagree")
        self._guard(off, nbytes)
        self._board.vram.discard(off, nbytes)
        return 0, 0, 0

    def _destroy_tmr(self, arguments: bytes) -> Answer:
        if not self._boot_tmr:
            self._board.vram.guarded.clear()
            self._tmr = 0
        return 0, 0, 0

    def _load_ip_fw(self, arguments: bytes) -> Answer:
        low, high, nbytes, number = struct.unpack_from("<4I", arguments)
        kind = n.KINDS.get(number)
        if kind is None:
            return self._refuse(n.NOT_SUPPORTED, f"LOAD_IP_FW {number}", "no such kind")
        if not self._tmr and not (kind == "SMU" and self._smu_first):
            return self._refuse(n.BAD_STATE, kind, "before SETUP_TMR")
        if "RLC_AUTOLOAD" in self._board.loaded and kind in self._graphics:
            return self._refuse(n.BAD_STATE, kind, "after AUTOLOAD_RLC")
        if self._autoload and kind != "SMU" and "SMU" not in self._board.loaded:
            return self._refuse(n.BAD_STATE, kind, "before the SMU's firmware")
        sent = payload.sent_as(kind, self._board.chip.family)
        why = self._image(low, high, nbytes, sent)
        if why:
            return self._refuse(n.SECURITY, kind, why)
        loaded = self._board.loaded
        if _LAST in loaded and kind in self._graphics and kind != _LAST:
            self._board.find("firmware out of order", f"{kind} after {_LAST}")
        self._board.loaded.add(kind)
        place = self._tmr + self._next * _SLOT_BYTES if self._tmr else 0
        self._next += 1
        self._board.hardware.event("firmware", kind=kind, nbytes=nbytes)
        return 0, self._board.mc_base + place if place else 0, 0

    def _autoload_rlc(self, arguments: bytes) -> Answer:
        required = n.REQUIRED[self._board.chip.family]
        missing = [kind for kind in required if kind not in self._board.loaded]
        if not required or missing:
            why = f"{missing[0]} has not arrived" if missing else "this chip has no autoload"
            return self._refuse(n.BAD_STATE, "AUTOLOAD_RLC", why)
        for kind in n.RESTORE_LISTS:
            if kind not in self._board.loaded:
                self._board.find("autoload without a restore list", kind)
        self._board.loaded.add("RLC_AUTOLOAD")
        return 0, 0, 0

    def _spatial_part(self, arguments: bytes) -> Answer:
        mode = int.from_bytes(arguments[:4], "little")
        if self._board.chip.family != "gfx9" or not 1 <= mode <= self._board.chip.xccs:
            return self._refuse(n.BAD_PARAMETERS, "SRIOV_SPATIAL_PART", f"mode {mode}")
        self._board.partitions = mode
        return 0, 0, 0

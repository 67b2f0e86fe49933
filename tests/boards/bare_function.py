"""A PCI function of a board, driven with raw accesses as the notes' register traces have them."""

from __future__ import annotations

import struct

from boards.amd.chip_data import NUMBERS
from boards.amd.hardware import Hardware, Options
from boards.amd.pci.firmware_set import gpu as firmware_of
from boards.amd.pci.gpu import PciGpu, open_function
from boards.amd.pci.options import PciOptions
from tests.support import check

NAMES = ("gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201", "gfx942")
MIB = 1 << 20
VRAM_BYTES = 128 * MIB
MESSAGE, COMMAND, FENCE, RING, TMR = 1 * MIB, 0x4000, 0x5000, 0x10000, 2 * MIB
"""Offsets in VRAM."""
FLUSH_OFF = 0x7F000
"""Where the HDP flush is moved to. src: amdgpu.h MMIO_REG_HOLE_OFFSET"""
# src: amdgpu_psp.h enum psp_bootloader_cmd; the order of psp_hw_start() in amdgpu_psp.c
STAGES = (
    ("KDB", 0x80000), ("SPL", 0x10000000), ("SYS_DRV", 0x10000), ("SOC_DRV", 0xB0000),
    ("INTF_DRV", 0xD0000), ("DBG_DRV", 0xC0000), ("RAS_DRV", 0xE0000), ("SOS", 0x20000),
)  # fmt: skip


class Bare:
    """One function with memory decoding and bus mastering on."""

    def __init__(self, name: str, vram_bytes: int = VRAM_BYTES, **options: object) -> None:
        hardware = Hardware([], Options(gtt_bytes=1 << 20))
        self.name = name
        self.gpu: PciGpu = open_function(
            hardware, name, vram_bytes=vram_bytes, options=PciOptions(**options)
        )
        self.gpu.config.write(4, b"\x06\x00")
        self.mc = self.gpu.board.mc_base
        self.fence = 0

    def address(self, block: str, register: str) -> int:
        """Byte offset of a register in BAR5."""
        return 4 * self.gpu.board.block(block).address_dw(register)

    def read(self, block: str, register: str) -> int:
        return self.gpu.read(5, self.address(block, register), 4)

    def write(self, block: str, register: str, value: int) -> None:
        self.gpu.write(5, self.address(block, register), 4, value)

    def psp(self, number: int) -> str:
        return f"{'MPASP' if self.name.startswith('gfx12') else 'MP0'}_SMN_C2PMSG_{number}"

    def put(self, off: int, data: bytes) -> None:
        """Store to VRAM as through a mapped BAR0: nobody is told."""
        self.gpu.board.vram.place(off, data)

    def get(self, off: int, nbytes: int) -> bytes:
        return self.gpu.board.vram.bytes[off : off + nbytes].tobytes()

    def flush(self) -> None:
        self.write("NBIF", "BIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL", FLUSH_OFF)
        self.gpu.write(5, FLUSH_OFF, 4, 0)
        self.read("NBIF", "RCC_DEV0_EPF0_RCC_CONFIG_MEMSIZE")

    def found(self) -> list[str]:
        """Kinds of violations since the last call."""
        kinds = [violation.kind for violation in self.gpu.violations]
        self.gpu.hardware.forget_violations()
        return kinds

    # The security processor

    def pieces(self, block: str) -> dict[str, bytes]:
        return dict(firmware_of(self.name)[block].parts)

    def stage(self, command: int, data: bytes) -> int:
        """One command of the bootloader; what C2PMSG_35 says then."""
        self.put(MESSAGE, data)
        self.flush()
        self.write("MP0", self.psp(36), (self.mc + MESSAGE) >> 20)
        self.write("MP0", self.psp(35), command)
        return self.read("MP0", self.psp(35))

    def start_sos(self) -> None:
        pieces = self.pieces("PSP")
        pieces.setdefault("SPL", pieces["KDB"])
        for name, command in STAGES:
            if name in pieces:
                self.stage(command, pieces[name])
        # src: psp_v13_0.c psp_v13_0_bootloader_load_sos(): 20 ms later, it waits for a change
        check(self.read("MP0", self.psp(81)) == 0, "SOS is alive at once")
        check(self.read("MP0", self.psp(81)) != 0, f"SOS is dead: {self.gpu.violations}")

    def create_ring(self) -> int:
        for number, value in ((69, self.mc + RING), (70, (self.mc + RING) >> 32), (71, 0x10000)):
            self.write("MP0", self.psp(number), value & 0xFFFF_FFFF)
        self.write("MP0", self.psp(64), 0x20000)
        return self.read("MP0", self.psp(64))

    def submit(self, command: int, *arguments: int) -> tuple[int, int]:
        """A command through the ring: its status and, of LOAD_TOC, the size of the TMR."""
        self.fence += 1
        words = struct.pack(f"<{len(arguments)}I", *arguments)
        self.put(COMMAND, bytes(8) + command.to_bytes(4, "little") + bytes(16) + words)
        wptr = self.read("MP0", self.psp(67))
        address = self.mc + COMMAND
        fence = self.mc + FENCE
        halves = (address & 0xFFFF_FFFF, address >> 32, 0, fence & 0xFFFF_FFFF, fence >> 32)
        self.put(RING + 4 * wptr, struct.pack("<6I40x", *halves, self.fence))
        self.flush()
        self.write("MP0", self.psp(67), wptr + 16)
        check(self.get(FENCE, 4) == self.fence.to_bytes(4, "little"), "the fence is not there")
        status, _, _, _, tmr_bytes = struct.unpack("<5I", self.get(COMMAND + 864, 20))
        return status, tmr_bytes

    def load(self, kind: int, data: bytes, off: int = MESSAGE) -> int:
        """LOAD_IP_FW: its status."""
        self.put(off, data)
        low, high = (self.mc + off) & 0xFFFF_FFFF, (self.mc + off) >> 32
        return self.submit(0x6, low, high, len(data), kind)[0]

    def set_up_tmr(self) -> None:
        """TOC, SMU and TMR, as far as the chip wants them, in amdgpu's order.

        src: amdgpu_psp.c psp_check_pmfw_centralized_cstate_management(), psp_hw_start()
        """
        low, high = (self.mc + MESSAGE) & 0xFFFF_FFFF, (self.mc + MESSAGE) >> 32
        if self.name == "gfx942":
            check(self.submit(0x5, 0, 0, 0, 2, 0, 0)[0] == 0, "SETUP_TMR")
            return
        toc = self.pieces("PSP")["TOC"]
        self.put(MESSAGE, toc)
        status, nbytes = self.submit(0x20, low, high, len(toc))
        check((status, nbytes > 0) == (0, True), "LOAD_TOC")
        smu = self.pieces("SMU")["SMU"]
        if self.name in ("gfx1100", "gfx1102"):
            check(self.load(18, smu) == 0, "SMU")
        if self.name.startswith("gfx11"):
            at = self.mc + TMR
            halves = (at & 0xFFFF_FFFF, at >> 32)
            check(self.submit(0x5, *halves, nbytes, 2, TMR, 0)[0] == 0, "SETUP_TMR")
        if self.name not in ("gfx1100", "gfx1102"):
            check(self.load(18, smu) == 0, "SMU")

    # The power controller

    def smu(self, message: int, argument: int = 0) -> tuple[int, int]:
        """Response and parameter register after a message."""
        self.write("MP1", "MP1_SMN_C2PMSG_90", 0)
        self.write("MP1", "MP1_SMN_C2PMSG_82", argument)
        self.write("MP1", "MP1_SMN_C2PMSG_66", message)
        return self.read("MP1", "MP1_SMN_C2PMSG_90"), self.read("MP1", "MP1_SMN_C2PMSG_82")


def started(name: str, **options: object) -> Bare:
    """A function whose SOS, ring, TMR and SMU are there."""
    bare = Bare(name, **options)
    bare.start_sos()
    check(bare.create_ring() == 0x8000_0000, "no ring")
    bare.set_up_tmr()
    check(bare.gpu.violations == [], f"{bare.gpu.violations}")
    return bare


def family(name: str) -> str:
    return NUMBERS[name].family

"""A driver of few lines, to meet the board's registers without the product's: raw writes by name.

Orders and values as amdgpu has them (gfxhub_v3_0.c, gfx_v11_0.c, sdma_v6_0.c, ih_v6_0.c of Linux
6.12); firmware counts as loaded.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from tests.boards.pci_rig import VALID, VRAM_BYTES, PciRig

VMID = 8
IH_RING, MQD = 0x200_0000, 0x210_0000
IH_BYTES, IH_WPTR = 0x1000, 0x200_8000
RING_BYTES, COMPUTE_DOORBELL, SDMA_DOORBELL = 4096, 6, 0x200
CONTEXT_ON = {"gfx9": 0x1FFFE07, "gfx11": 0x1FFFE07, "gfx12": 0x1FFFC07}
"""Depth 3, all faults interrupt. src: notes section 3.2"""


class Bringup(PciRig):
    """What a boot does to a GPU."""

    # Blocks

    def flush(self, vmid: int = VMID) -> None:
        """src: gmc_v11_0_flush_gpu_tlb(), gmc_v9_0_get_invalidate_req(): engine 17"""
        request = 0x7C_0000 if self.family == "gfx9" else 0xF8_0000
        self.hdp()
        for block, instance, vm, _ in self.hubs():
            at = f"{vm}INVALIDATE_ENG17_"
            semaphore = block == "MMHUB" and self.family != "gfx9"
            if semaphore and self.read(block, at + "SEM", instance) != 1:
                raise AssertionError("the semaphore is taken")
            self.write(block, at + "REQ", request | 1 << vmid, instance)
            if not self.read(block, at + "ACK", instance) >> vmid & 1:
                raise AssertionError("no acknowledgement")
            if semaphore:
                self.write(block, at + "SEM", 0, instance)

    def memory_hubs(self) -> None:
        base = self.gpu.board.mc_base
        for block, instance, vm, mc in self.hubs():
            self.write(block, f"{mc}SYSTEM_APERTURE_LOW_ADDR", base >> 18, instance)
            self.write(block, f"{mc}SYSTEM_APERTURE_HIGH_ADDR", base + VRAM_BYTES >> 18, instance)
            self.write(block, f"{mc}MX_L1_TLB_CNTL", 0x1859, instance)
            for engine in range(18):
                at = f"{vm}INVALIDATE_ENG{engine}_ADDR_RANGE"
                self.pair(block, at, 0x1F_FFFF_FFFF, instance=instance)
        self.context(VMID, self.root | VALID)

    def context(self, vmid: int, root: int, control: int = 0) -> None:
        for block, instance, vm, _ in self.hubs():
            at = f"{vm}CONTEXT{vmid}_"
            self.pair(block, f"{at}PAGE_TABLE_START_ADDR", 0, instance=instance)
            self.pair(block, f"{at}PAGE_TABLE_END_ADDR", (1 << 36) - 1, instance=instance)
            self.pair(block, f"{at}PAGE_TABLE_BASE_ADDR", root, instance=instance)
            self.write(block, f"{at}CNTL", control or CONTEXT_ON[self.family], instance)

    def interrupts(self, nbytes: int = IH_BYTES, **more: int) -> None:
        base = self.gpu.board.mc_base
        self.words(IH_RING, np.zeros(nbytes // 4, np.uint32))
        self.words(IH_WPTR, np.zeros(1024, np.uint32))
        self.fields("OSSSYS", "IH_RB_CNTL", rb_enable=0)
        self.write("OSSSYS", "IH_RB_BASE", base + IH_RING >> 8)
        self.write("OSSSYS", "IH_RB_BASE_HI", base + IH_RING >> 40)
        self.pair("OSSSYS", "IH_RB_WPTR_ADDR", base + IH_WPTR, "_LO", "_HI")
        self.write("OSSSYS", "IH_RB_WPTR", 0)
        self.write("OSSSYS", "IH_RB_RPTR", 0)
        facts = {
            "mc_space": 4, "rb_size": (nbytes // 4).bit_length() - 1, "wptr_writeback_enable": 1,
            "wptr_overflow_enable": 1, "rptr_rearm": 1, "enable_intr": 1, "rb_enable": 1,
        }  # fmt: skip
        self.fields("OSSSYS", "IH_RB_CNTL", **(facts | more))

    def entries(self) -> list[tuple[int, ...]]:
        """What is in the interrupt ring, up to the write pointer in memory."""
        count = (self.word(IH_WPTR) & 0x3FFFC) // 32
        return [tuple(self.word(IH_RING + 32 * i + 4 * k) for k in range(8)) for i in range(count)]

    def select(self, me: int = 0, pipe: int = 0, queue: int = 0, vmid: int = 0, instance: int = 0):
        value = pipe | me << 2 | vmid << 4 | queue << 8
        self.write("GC", "GRBM_GFX_CNTL", value, instance)

    def graphics(self) -> None:
        """Memory of waves, doorbell range, and the compute engine let go."""
        for block in self.gpu.board.registers.every("GC"):
            self._graphics(block.instance)

    def _graphics(self, xcc: int) -> None:
        for vmid in range(16):
            self.select(vmid=vmid, instance=xcc)
            self.write("GC", "SH_MEM_CONFIG", 0x1118 if self.family == "gfx9" else 0xC00C, xcc)
            self.write("GC", "SH_MEM_BASES", 0x10002, xcc)
        self.select(instance=xcc)
        self.write("GC", "CP_MEC_DOORBELL_RANGE_LOWER", 0, xcc)
        self.write("GC", "CP_MEC_DOORBELL_RANGE_UPPER", 0xF8, xcc)
        self.write("GC", "CP_ME1_PIPE0_INT_CNTL", 1 << 26, xcc)
        if self.family == "gfx9":
            self.write("GC", "RLC_CNTL", 1, xcc)
            self.write("GC", "CP_MEC_CNTL", 0, xcc)
            return
        self.select(me=1, instance=xcc)
        self.write("GC", "CP_MEC_RS64_PRGRM_CNTR_START", 0xC00, xcc)
        self.write("GC", "CP_MEC_RS64_PRGRM_CNTR_START_HI", 0x1C000, xcc)
        self.select(instance=xcc)
        self.fields("GC", "CP_MEC_RS64_CNTL", xcc, mec_pipe0_reset=1)
        self.fields("GC", "CP_MEC_RS64_CNTL", xcc, mec_pipe0_reset=0)
        self.fields("GC", "CP_MEC_RS64_CNTL", xcc, mec_pipe0_active=1, mec_halt=0)

    def doorbells(self) -> None:
        """src: nbio_v4_3.c, nbif_v6_3_1.c, nbio_v7_9.c sdma_doorbell_range(), gc_doorbell_init()"""
        self.write("NBIF", "RCC_DEV0_EPF0_RCC_DOORBELL_APER_EN", 1)
        registers = self.gpu.board.registers
        if self.family == "gfx9":
            self.write("NBIF", "BIFC_DOORBELL_ACCESS_EN_PF", 0xFFFFF)
            for entry in range(1, 17):
                offset = SDMA_DOORBELL + (entry - 1) * 20
                name = f"DOORBELL0_CTRL_ENTRY_{entry}"
                at = f"bif_doorbell{entry}_range_"
                self.fields("NBIF", name, **{f"{at}offset_entry": offset, f"{at}size_entry": 20})
        prefix = "GDC_S2A0_S2A" if self.family == "gfx12" else "S2A"
        gc = ((0, 3), (3, 6)) if self.family != "gfx9" else ()
        ports = ((1, 0xE, 1), (2, 8, 2), (5, 9, 8), (6, 10, 9)) if self.family == "gfx9" else (
            (2, 0xE, 3), *((port, awid, 3) for port, awid in gc)
        )  # fmt: skip
        for die in registers.every("NBIF"):
            for port, awid, awaddr in ports:
                name, at = f"{prefix}_DOORBELL_ENTRY_{port}_CTRL", f"S2A_DOORBELL_PORT{port}_"
                layout = die.table[name]
                value = layout.put(layout.put(0, f"{at}ENABLE", 1), f"{at}AWID", awid)
                value = layout.put(value, f"{at}AWADDR_31_28_VALUE", awaddr)
                if self.family == "gfx9":
                    value = layout.put(value, f"{at}RANGE_OFFSET", awid)
                if (port, awid) == (2, 0xE):
                    value = layout.put(value, f"{at}RANGE_OFFSET", SDMA_DOORBELL)
                    value = layout.put(value, f"{at}RANGE_SIZE", 4)
                die.write(name, value)

    def boot(self) -> Bringup:
        self.memory_hubs()
        self.interrupts()
        self.graphics()
        self.doorbells()
        return self

    # Queues

    def compute(self, queue: int = 0, xccs=(0,), vmid: int = VMID, **changes: int):
        """A PM4 queue; (address, offset) of ring and pointers as `.ring`, `.pointers`."""
        ring, pointers, eop = self.buffer(RING_BYTES), self.buffer(), self.buffer()
        made = SimpleNamespace(ring=ring, pointers=pointers, put=0, queue=queue, eop=eop)
        for xcc in xccs:
            self.select(me=1, queue=queue, instance=xcc)
            self.hqd(made, vmid, queue, xcc, **changes)
            self.select(instance=xcc)
        return made

    def hqd(self, made, vmid: int, queue: int, xcc: int, **changes: int) -> None:
        mqd = self.gpu.board.mc_base + MQD + 0x1000 * (queue * 8 + xcc)
        rptr, wptr = made.pointers[0] + 128, made.pointers[0] + 56
        values = {
            "CP_MQD_BASE_ADDR": mqd, "CP_MQD_BASE_ADDR_HI": mqd >> 32, "CP_HQD_VMID": vmid,
            "CP_HQD_PQ_BASE": made.ring[0] >> 8, "CP_HQD_PQ_BASE_HI": made.ring[0] >> 40,
            "CP_HQD_PQ_RPTR_REPORT_ADDR": rptr, "CP_HQD_PQ_RPTR_REPORT_ADDR_HI": rptr >> 32,
            "CP_HQD_PQ_WPTR_POLL_ADDR": wptr, "CP_HQD_PQ_WPTR_POLL_ADDR_HI": wptr >> 32,
            "CP_HQD_PQ_DOORBELL_CONTROL": 1 << 30 | COMPUTE_DOORBELL + 2 * queue << 2,
            "CP_HQD_PQ_CONTROL": 0x500 | (RING_BYTES // 4).bit_length() - 2,
            "CP_HQD_EOP_BASE_ADDR": made.eop[0] >> 8, "CP_HQD_EOP_BASE_ADDR_HI": made.eop[0] >> 40,
            "CP_HQD_EOP_CONTROL": 9, "CP_HQD_PQ_WPTR_LO": 0, "CP_HQD_PQ_WPTR_HI": 0,
            "CP_HQD_PQ_RPTR": 0,
        } | changes  # fmt: skip
        block = self.block("GC", xcc)
        words = np.zeros(512, np.uint32)
        words[0] = 0xC0310800
        first = block.address_dw("CP_MQD_BASE_ADDR")
        for name, value in values.items():
            words[0x80 + block.address_dw(name) - first] = value & 0xFFFFFFFF
        self.words(mqd - self.gpu.board.mc_base, words)
        for name, value in values.items():
            self.write("GC", name, value, xcc)
        self.write("GC", "CP_HQD_ACTIVE", 1, xcc)

    def submit(self, made, words: list[int], *, flush: bool = True) -> None:
        ring = self.vram.bytes[made.ring[1] : made.ring[1] + RING_BYTES].view(np.uint32)
        for i, word in enumerate(words):
            ring[(made.put + i) % len(ring)] = word
        made.put += len(words)
        self.words(made.pointers[1] + 56, [made.put, 0])
        if flush:
            self.hdp()
        self.gpu.write(2, 4 * (COMPUTE_DOORBELL + 2 * made.queue), 8, made.put)

    def active(self, queue: int = 0, instance: int = 0) -> bool:
        self.select(me=1, queue=queue, instance=instance)
        found = self.read("GC", "CP_HQD_ACTIVE", instance)
        self.select(instance=instance)
        return bool(found & 1)

    def dequeue(self, request: int, queue: int = 0, instance: int = 0) -> None:
        self.select(me=1, queue=queue, instance=instance)
        self.write("GC", "CP_HQD_DEQUEUE_REQUEST", request, instance)
        self.select(instance=instance)

    def sdma(self, engine: int = 0, vmid: int = VMID):
        """A copy queue on the first ring of an engine."""
        ring, pointers = self.buffer(RING_BYTES), self.buffer()
        gfx9 = self.family == "gfx9"
        block, at = ("SDMA0", "SDMA_GFX_") if gfx9 else ("GC", f"SDMA{engine}_QUEUE0_")
        instance, own = (engine, "SDMA_") if gfx9 else (0, f"SDMA{engine}_")
        if gfx9:
            self.write(block, "SDMA_CNTL", 3, instance)
        else:
            control = f"{own}{'MCU' if self.family == 'gfx12' else 'F32'}_CNTL"
            self.write("GC", control, 0)
            self.write("GC", f"{own}CNTL", 1)
        index = SDMA_DOORBELL + engine * 20
        for name in ("RB_RPTR", "RB_RPTR_HI", "RB_WPTR", "RB_WPTR_HI"):
            self.write(block, at + name, 0, instance)
        self.pair(block, f"{at}RB_BASE", ring[0] >> 8, "", "_HI", instance)
        self.pair(block, f"{at}RB_RPTR_ADDR", pointers[0] + 128, "_LO", "_HI", instance)
        self.pair(block, f"{at}RB_WPTR_POLL_ADDR", pointers[0] + 56, "_LO", "_HI", instance)
        self.write(block, f"{at}DOORBELL_OFFSET", index << 2, instance)
        self.write(block, f"{at}DOORBELL", 1 << 28, instance)
        size = (RING_BYTES // 4).bit_length() - 1
        self.write(block, f"{at}RB_CNTL", 1 | size << 1 | 1 << 12 | vmid << 24, instance)
        return SimpleNamespace(
            ring=ring, pointers=pointers, put=0, index=index, block=block, at=at, engine=instance
        )

    def copy(self, made, words: list[int]) -> None:
        ring = self.vram.bytes[made.ring[1] : made.ring[1] + RING_BYTES].view(np.uint32)
        ring[made.put // 4 : made.put // 4 + len(words)] = words
        made.put += 4 * len(words)
        self.words(made.pointers[1] + 56, [made.put, 0])
        self.hdp()
        self.gpu.write(2, 4 * made.index, 8, made.put)


def release(va: int, value: int, *, event: int = 0, family: str = "gfx11") -> list[int]:
    """RELEASE_MEM of 64 bits; an interrupt when there is an event. src: nvd.h, soc15d.h"""
    control = 0x514 | (1 << 15 if family == "gfx9" else 1 << 21)
    select = 2 << 29 | (2 << 24 if event else 0)
    return [
        0xC0064900, control, select, va & 0xFFFFFFFF, va >> 32, value & 0xFFFFFFFF, value >> 32,
        event,
    ]  # fmt: skip


def write_data(va: int, value: int) -> list[int]:
    """WRITE_DATA of a dword to memory, confirmed. src: nvd.h PACKET3_WRITE_DATA"""
    return [0xC0033700, 5 << 8 | 1 << 20, va & 0xFFFFFFFF, va >> 32, value]

"""A memory hub: sixteen contexts as registers, what each VMID reaches through them, their caches.

A graphics hub of which there are several (one for each XCC) counts as one: walks use the first,
and a translation is only forgotten once every one of them was ordered to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from boards.amd.memory.pages import FORMATS, MTYPE_UC, READABLE, VALID, WRITEABLE, Format, Leaf
from boards.amd.memory.space import AgentSpace, Shared
from boards.amd.pci.board import Board
from boards.amd.pci.hub_tlb import HubTlb
from boards.amd.pci.page_walk import RANGE, Context, Missing, Walker
from boards.amd.pci.register_file import Block
from boards.machine.arrays import Array
from boards.machine.pool import Pool

VMIDS = 16
_FB_SHIFT, _SYSTEM_SHIFT, _PAGE_SHIFT = 24, 18, 12
"""src: gmc_v11_0.c, gfxhub_v3_0.c: FB_LOCATION counts 16 MiB, SYSTEM_APERTURE 256 KiB"""
_CHUNK_BYTES = 1 << 16
"""Of the frame buffer's aperture, cached as one."""
_ENTRY_BYTES = 8


@dataclass(frozen=True, slots=True)
class HubNames:
    """How one generation calls the registers of a hub."""

    vm: str
    mc: str


GFX, MM, GFX9 = (
    HubNames("GCVM_", "GCMC_VM_"),
    HubNames("MMVM_", "MMMC_VM_"),
    HubNames("VM_", "MC_VM_"),
)


class _HubWalker(Walker):
    """A walk that first reads the context's registers, as they are now; VMID 0's apertures."""

    def __init__(self, hub: VmHub, vmid: int, fmt: Format) -> None:
        super().__init__(fmt, hub.read_table, hub.find)
        self._hub, self._vmid = hub, vmid

    def walk(self, va: int, *, alone: bool = False) -> Leaf | None:
        hub = self._hub
        if not hub.set_up():
            hub.find(
                "hub not set up", f"VMID {self._vmid} is used before MX_L1_TLB_CNTL is written"
            )
        if self._vmid == 0 and hub.in_system_aperture(va):
            leaf = hub.frame_buffer(va)
            if leaf is None:
                self.missing = Missing(RANGE, f"{va:#x} is in the system aperture and no VRAM")
            return leaf
        self.context = hub.context(self._vmid)
        return super().walk(va, alone=alone)


class VmHub:
    """The contexts of one hub."""

    def __init__(self, board: Board, blocks: Sequence[Block], names: HubNames, name: str) -> None:
        self.board, self.blocks, self.names, self.name = board, tuple(blocks), names, name
        self.first = self.blocks[0]
        self.is_core = self.first.name == "GC"
        """Whether it is powered with the graphics core."""
        self.format = FORMATS[board.chip.family]
        self._spaces: dict[int, tuple[HubTlb, AgentSpace]] = {}
        self._resets = 0
        for block in self.blocks:
            top = board.mc_base + board.vram.nbytes - 1
            block.preset(f"{names.mc}FB_LOCATION_BASE", board.mc_base >> _FB_SHIFT)
            block.preset(f"{names.mc}FB_LOCATION_TOP", top >> _FB_SHIFT)
            for vmid in range(VMIDS):
                block.preset(f"{names.vm}CONTEXT{vmid}_CNTL", self._control_at_reset())
        board.on_reset(self._forget, core=self.is_core)

    def _forget(self) -> None:
        for _, space in self._spaces.values():
            space.lose()
        self._spaces.clear()
        self._resets += 1

    def find(self, kind: str, what: str) -> None:
        """A rule of the hub that was broken."""
        self.board.find(kind, f"{self.name}: {what}")

    # Registers

    def _control_at_reset(self) -> int:
        """Each kind of fault is reported and redirected; amdgpu changes fields of this, and MES
        gets the result for the contexts of processes.

        Retries of faults are off here, also on hubs where silicon begins with them on (bit 7 of
        the second value): no fault is retried on a board, and a driver that leaves them on is not
        noticed.
        src: gc_11_0_0_default.h regGCVM_CONTEXT1_CNTL_DEFAULT 0x01fffe00, mmhub_2_0_0_default.h
        mmMMVM_CONTEXT1_CNTL_DEFAULT 0x007ffe80; gc_12 and gc_9_4_3 have no such header
        """
        layout, value = self.first.table[f"{self.names.vm}CONTEXT0_CNTL"], 0
        for field in layout.fields:
            value = layout.put(value, field, 1) if "_FAULT_ENABLE_" in field else value
        return value

    def vm(self, register: str) -> int:
        """A register of the VM, without its prefix."""
        return self.first.get(self.names.vm + register)

    def mc(self, register: str) -> int:
        """A register of the memory controller, without its prefix."""
        return self.first.get(self.names.mc + register)

    def _pair(self, register: str) -> int:
        return self.vm(f"{register}_LO32") | self.vm(f"{register}_HI32") << 32

    def control(self, vmid: int, field: str) -> int:
        """A field of CONTEXTn_CNTL, which all have CONTEXT0's fields."""
        layout = self.first.table[f"{self.names.vm}CONTEXT0_CNTL"]
        return layout.get(self.vm(f"CONTEXT{vmid}_CNTL"), field)

    def set_up(self) -> bool:
        """Whether the L1 TLBs are on and know of the apertures. src: gfxhub_v3_0_init_tlb_regs()"""
        name = f"{self.names.mc}MX_L1_TLB_CNTL"
        fields = ("ENABLE_L1_TLB", "ENABLE_ADVANCED_DRIVER_MODEL")
        return all(self.first.field(name, field) for field in fields)

    def context(self, vmid: int) -> Context | None:
        """What the registers of a VMID say; None: it is not enabled."""
        if not self.control(vmid, "ENABLE_CONTEXT"):
            return None
        at = f"CONTEXT{vmid}_PAGE_TABLE"
        last_page = self._pair(f"{at}_END_ADDR")
        return Context(
            root=self._pair(f"{at}_BASE_ADDR"),
            first_va=self._pair(f"{at}_START_ADDR") << _PAGE_SHIFT,
            last_va=(last_page + 1 << _PAGE_SHIFT) - 1,
            depth=self.control(vmid, "PAGE_TABLE_DEPTH"),
            block_bits=self.control(vmid, "PAGE_TABLE_BLOCK_SIZE"),
        )

    def in_system_aperture(self, va: int) -> bool:
        """Whether VMID 0 reaches an address without a table: VRAM's aperture, or around it."""
        fb, top = self.mc("FB_LOCATION_BASE"), self.mc("FB_LOCATION_TOP")
        if fb <= va >> _FB_SHIFT <= top:
            return True
        low, high = self.mc("SYSTEM_APERTURE_LOW_ADDR"), self.mc("SYSTEM_APERTURE_HIGH_ADDR")
        return low <= va >> _SYSTEM_SHIFT < high

    def frame_buffer(self, va: int) -> Leaf | None:
        """The piece of VRAM's aperture around an address."""
        base = self.mc("FB_LOCATION_BASE") << _FB_SHIFT
        start = va & -_CHUNK_BYTES
        if not 0 <= start - base < self.board.vram.nbytes:
            return None
        pa = start - base + self.vram_pa
        entry = self.format.pte(pa, READABLE | WRITEABLE | VALID, MTYPE_UC)
        return Leaf(start, _CHUNK_BYTES, pa, entry)

    @property
    def vram_pa(self) -> int:
        """What entries call VRAM's byte 0. src: gfxhub_v3_0_get_mc_fb_offset()"""
        return self.mc("FB_OFFSET") << _FB_SHIFT

    # Memory

    def read_table(self, pa: int, on_bus: bool, first: int, count: int) -> Array | None:
        """Entries of a table that lies in VRAM or on the bus."""
        nbytes, address = count * _ENTRY_BYTES, pa + first * _ENTRY_BYTES
        if on_bus:
            found = self.board.dma(address, nbytes, write=False)
        else:
            off = address - self.vram_pa
            outside = off < 0 or off + nbytes > self.board.vram.nbytes
            found = None if outside else (self.board.vram, off)
        if found is None:
            return None
        pool, off = found
        pool.prepare(off, nbytes)
        entries: Array = pool.bytes[off : off + nbytes].view("<u8").copy()
        return entries

    def tlb(self, vmid: int) -> HubTlb:
        """What the hub has cached of a VMID."""
        return self._made(vmid)[0]

    def space(self, vmid: int) -> AgentSpace:
        """A VMID's addresses."""
        return self._made(vmid)[1]

    def _made(self, vmid: int) -> tuple[HubTlb, AgentSpace]:
        made = self._spaces.get(vmid)
        if made is None:
            board, hardware = self.board, self.board.hardware
            walker = _HubWalker(self, vmid, self.format)
            tlb = HubTlb(walker, board.vram, self.vram_pa, self._decode)
            who = f"{self.name} VMID {vmid}"
            shared = Shared(
                tlb, hardware.coherence, hardware.options.checks, hardware.find,
                lambda va: f"{who} {va & -1 << _PAGE_SHIFT:#x}", f"{who} #{self._resets} ",
            )  # fmt: skip
            made = self._spaces[vmid] = tlb, AgentSpace(shared, "VMID")
        return made

    def _decode(self, address: int, nbytes: int, write: bool) -> tuple[Pool, int] | None:
        """Where memory is on the bus, without touching it: no violation yet."""
        return self.board.bus.decode(address, nbytes, write) if self.board.bus_master_on() else None

    def invalidate(self, vmid: int) -> None:
        """Forget the translations of a VMID."""
        if vmid in self._spaces:
            self._spaces[vmid][0].flush()

    # Around running queues

    def before_queues_run(self) -> None:
        """Host memory may have been unmapped since."""
        for tlb, _ in self._spaces.values():
            tlb.ask_bus_again()

    def after_queues_ran(self) -> None:
        """Report translations that were used although the tables no longer say so."""
        for vmid, (tlb, _) in self._spaces.items():
            for run in tlb.stale():
                where = f"VMID {vmid} used {run.start:#x}, which its tables no longer map there"
                self.find("stale translation", where)

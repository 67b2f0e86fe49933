"""Hardware queue descriptors: what the registers of a compute queue say, and whether it can be."""

from __future__ import annotations

from dataclasses import dataclass

from boards.amd.cp.engine_types import QueueSpec
from boards.amd.pci.grbm import Queue
from boards.amd.pci.queue_host import mapped
from boards.amd.pci.register_file import Block
from boards.amd.pci.vm_hub import VmHub

_WORD_BITS = 32
MQD_HEADER, MQD_BYTES = 0xC031_0800, 2048
"""src: gfx_v11_0_compute_mqd_init(); v11_structs.h, v9_structs.h: 512 dwords"""
_FIRST_DW = 0x80
"""Of an MQD, what CP_MQD_BASE_ADDR holds. src: v11_structs.h cp_mqd_base_addr_lo"""
_SLOT_BASED = 2
"""src: kfd_mqd_manager_v11.c update_mqd(): SLOT_BASED_WPTR of AQL queues"""
_UNALIGNED = 3
"""src: SH_MEM_ALIGNMENT_MODE_UNALIGNED"""
_CONFIG_NAMES = ("CP_MQD_BASE_ADDR", "CP_HQD_PQ_BASE", "CP_HQD_PQ_CONTROL", "CP_HQD_VMID")


@dataclass(frozen=True, slots=True)
class Hqd:
    """The registers of one queue on one instance of the graphics block."""

    block: Block
    key: Queue

    def get(self, name: str) -> int:
        """A register."""
        return self.block.get(name, self.key)

    def field(self, name: str, field: str) -> int:
        """A field of one."""
        return self.block.field(name, field, self.key)

    def pair(self, low: str, high: str) -> int:
        """An address in two registers."""
        return self.get(low) | self.get(high) << _WORD_BITS

    @property
    def active(self) -> bool:
        """CP_HQD_ACTIVE."""
        return bool(self.field("CP_HQD_ACTIVE", "ACTIVE"))

    @property
    def vmid(self) -> int:
        """CP_HQD_VMID."""
        return self.field("CP_HQD_VMID", "VMID")

    @property
    def doorbell_dw(self) -> int:
        """The doorbell it listens to, counted in dwords; -1 for none."""
        name = "CP_HQD_PQ_DOORBELL_CONTROL"
        return self.field(name, "DOORBELL_OFFSET") if self.field(name, "DOORBELL_EN") else -1

    @property
    def is_aql(self) -> bool:
        """src: kfd_mqd_manager_v11.c init_mqd(): CONTROL0 is set for AQL"""
        return bool(self.field("CP_HQD_AQL_CONTROL", "CONTROL0"))

    def spec(self, queue_id: int) -> QueueSpec:
        """What the engines are told. Sizes are powers of two. src: gfx_v11_0_compute_mqd_init()"""
        ring_bytes = 8 << self.field("CP_HQD_PQ_CONTROL", "QUEUE_SIZE")
        written = self.pair("CP_HQD_PQ_WPTR_LO", "CP_HQD_PQ_WPTR_HI")
        poll = self.pair("CP_HQD_PQ_WPTR_POLL_ADDR", "CP_HQD_PQ_WPTR_POLL_ADDR_HI")
        return QueueSpec(
            queue_id=queue_id,
            kind="aql" if self.is_aql else "pm4",
            ring_va=self.pair("CP_HQD_PQ_BASE", "CP_HQD_PQ_BASE_HI") << 8,
            ring_bytes=ring_bytes,
            rptr_va=self.pair("CP_HQD_PQ_RPTR_REPORT_ADDR", "CP_HQD_PQ_RPTR_REPORT_ADDR_HI"),
            wptr_va=poll & ~7,
            eop_va=self.pair("CP_HQD_EOP_BASE_ADDR", "CP_HQD_EOP_BASE_ADDR_HI") << 8,
            eop_bytes=8 << self.field("CP_HQD_EOP_CONTROL", "EOP_SIZE"),
            start=written,
        )

    def problems(self, hub: VmHub, *, compute: bool = True, chosen_vmid: bool = False) -> list[str]:
        """What a driver has got wrong about a queue that it activates.

        Those of the schedulers have no EOP buffer. src: mes_v11_0.c mes_v11_0_queue_init(). With
        `chosen_vmid` a scheduler has chosen the VMID of a process's queue: it is not the MQD's.
        """
        spec, vmid = self.spec(0), self.vmid
        found = []
        if vmid and hub.context(vmid) is None:
            found.append(f"VMID {vmid} is not enabled")
        for what, va, nbytes, write in (
            ("ring", spec.ring_va, spec.ring_bytes, False),
            ("read pointer", spec.rptr_va, 8, True),
            ("EOP buffer", spec.eop_va, spec.eop_bytes, True),
            ("write pointer", spec.wptr_va, 8, False),
        ):
            if what == "EOP buffer" and not (compute and (va or self._needs_eop(hub))):
                continue
            why = mapped(hub, vmid, va, nbytes, write=write) if va else "address 0"
            if why:
                found.append(f"the {what}: {why}")
        read = self.get("CP_HQD_PQ_RPTR")
        if not self.is_aql and (read - spec.start) % (spec.ring_bytes // 4):
            found.append(f"it starts with read pointer {read} and write pointer {spec.start}")
        if self.is_aql and self.field("CP_HQD_PQ_CONTROL", "SLOT_BASED_WPTR") != _SLOT_BASED:
            found.append("AQL without SLOT_BASED_WPTR 2")
        return found + self._mqd_problems(hub, chosen_vmid=chosen_vmid)

    def _needs_eop(self, hub: VmHub) -> bool:
        """AQL queues of gfx942 do without an EOP buffer. src: ROCR-Runtime libhsakmt/src/queues.c,
        eop_buffer_size of GFX_VERSION_AQUA_VANJARAM"""
        return not (self.is_aql and hub.board.chip.family == "gfx9")

    def _mqd_problems(self, hub: VmHub, *, chosen_vmid: bool) -> list[str]:
        """The MQD in memory is what the processor saves to and loads from."""
        va = self.pair("CP_MQD_BASE_ADDR", "CP_MQD_BASE_ADDR_HI")
        vmid = self.field("CP_MQD_CONTROL", "VMID")
        why = mapped(hub, vmid, va, MQD_BYTES, write=True)
        if why:
            return [f"the MQD: {why}"]
        words = hub.space(vmid).agent("CP").read(va, MQD_BYTES)
        found = []
        if int.from_bytes(words[:4], "little") != MQD_HEADER:
            found.append("the MQD in memory has no header")
        first = self.block.address_dw(_CONFIG_NAMES[0])
        for name in _CONFIG_NAMES[:-1] if chosen_vmid else _CONFIG_NAMES:
            at = 4 * (_FIRST_DW + self.block.address_dw(name) - first)
            if int.from_bytes(words[at : at + 4], "little") != self.get(name):
                found.append(f"the MQD in memory has another {name} than the register")
        return found

    def waves_problem(self) -> str:
        """Why waves of its VMID would not find their memory; empty when they do."""
        mode = self.block.field("SH_MEM_CONFIG", "ALIGNMENT_MODE", self.vmid)
        if mode != _UNALIGNED:
            return f"SH_MEM_CONFIG of VMID {self.vmid} has alignment mode {mode}"
        if not self.block.get("SH_MEM_BASES", self.vmid):
            return f"SH_MEM_BASES of VMID {self.vmid} are not set"
        if self.block.field("SH_MEM_CONFIG", "ADDRESS_MODE", self.vmid):
            return f"SH_MEM_CONFIG of VMID {self.vmid} has 32-bit addresses"
        return ""

    def apertures(self) -> tuple[int, int]:
        """Flat addresses of LDS and scratch. src: kfd_flat_memory.c MAKE_LDS_APP_BASE_V9"""
        bases = self.block.table["SH_MEM_BASES"]
        value = self.block.get("SH_MEM_BASES", self.vmid)
        return bases.get(value, "SHARED_BASE") << 48, bases.get(value, "PRIVATE_BASE") << 48

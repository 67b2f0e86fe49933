"""PM4 type-3 packets of the compute micro-engine (MEC), and how chip families differ, as data.

Word 0 is `3<<30 | (words - 2)<<16 | opcode<<8`. Names are the vendor's, in lower case.
# src: Linux 6.12 drivers/gpu/drm/amd/amdgpu/{nvd,soc15d}.h (opcodes, cache controls);
# src: Mesa src/amd/packets/cp_pm4_table_data_gfx{11,12}.json, engine "mec" (every field);
# src: ROCR-Runtime libhsakmt/tests/kfdtest/include/pm4_pkt_struct_{common,ai,nv}.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from drivers.base.errors import Unsupported
from queues.amd.generation import Generation, entry_of
from queues.packet_layout import WordLayout, replace

TYPE3: Final = 3 << 30
IDENTITY_MASK: Final = 0xFFFFFF00
"""Type, count and opcode of word 0."""
COUNT_SHIFT: Final = 16
OPCODE_SHIFT: Final = 8
COUNT_MAX: Final = 0x3FFF
"""A NOP with this count is one word long. # src: gfx_v11_0.c, `.nop` of the ring functions"""
ANY: Final = range(COUNT_MAX + 1)
DATA: Final = range(1, COUNT_MAX)
_HEADER: Final = "predicate 0  shader_type 1"

SH_REG_BASE: Final = 0x2C00
SH_REG_END: Final = 0x3000
UCONFIG_REG_BASE: Final = 0xC000
UCONFIG_REG_END: Final = 0x10000
"""Dword addresses. # src: nvd.h; the end of uconfig space: Mesa sid.h, CIK_UCONFIG_REG_END / 4"""


class Compare(IntEnum):
    """How a polled value is compared with the reference (also SDMA's)."""

    ALWAYS, LT, LE, EQ, NE, GE, GT = range(7)


class MemSpace(IntEnum):
    """What WAIT_REG_MEM polls."""

    REGISTER, MEMORY = range(2)


class WaitOperation(IntEnum):
    """WR_WAIT_WR_REG writes the reference to one register, then polls the other."""

    WAIT_REG_MEM, WR_WAIT_WR_REG, WAIT_MEM_PREEMPTABLE = 0, 1, 3


class WriteDst(IntEnum):
    """Where WRITE_DATA writes."""

    MEM_MAPPED_REGISTER, TC_L2, MEMORY = 0, 2, 5


class CopySrc(IntEnum):
    """Where COPY_DATA reads."""

    MEM_MAPPED_REGISTER, MEMORY, TC_L2, PERFCOUNTERS, IMMEDIATE_DATA = 0, 1, 2, 4, 5
    ATOMIC_RETURN_DATA, GPU_CLOCK_COUNT, SYSTEM_CLOCK_COUNT = 6, 9, 10


class CopyDst(IntEnum):
    """Where COPY_DATA writes."""

    MEM_MAPPED_REGISTER, TC_L2, PERFCOUNTERS, MEMORY = 0, 2, 4, 5


class DataSel(IntEnum):
    """What RELEASE_MEM writes; the clock counts at 100 MHz."""

    NONE, SEND_32_BIT_LOW, SEND_64_BIT_DATA, SEND_GPU_CLOCK_COUNTER = range(4)
    SEND_SYSTEM_CLOCK_COUNTER = 4


class IntSel(IntEnum):
    """When RELEASE_MEM interrupts."""

    NONE, SEND_INTERRUPT_ONLY, SEND_INTERRUPT_AFTER_WRITE_CONFIRM = range(3)
    SEND_DATA_AFTER_WRITE_CONFIRM = 3


class EventType(IntEnum):
    """VGT_EVENT_TYPE. # src: Linux include/soc21_enum.h; the same numbers in vega10_enum.h"""

    CS_PARTIAL_FLUSH = 0x07
    CACHE_FLUSH_AND_INV_TS_EVENT = 0x14
    BOTTOM_OF_PIPE_TS = 0x28
    THREAD_TRACE_MARKER = 0x35
    THREAD_TRACE_FINISH = 0x37


class EventIndex(IntEnum):
    """The family of an event."""

    OTHER, CS_PARTIAL_FLUSH, END_OF_PIPE, SHADER_DONE = 0, 4, 5, 6


class CachePolicy(IntEnum):
    """L2 policy of the access (gfx12 calls it "temporal": RT, NT, HT, LU)."""

    LRU, STREAM, NOA, BYPASS = range(4)


class Atomic(IntEnum):
    """TC_OP numbers for ATOMIC_MEM and SDMA. # src: Linux include/soc21_enum.h, TC_OP_ATOMIC_*"""

    SWAP_RTN_32, CMPSWAP_RTN_32, ADD_RTN_32, SUB_RTN_32 = 0x07, 0x08, 0x0F, 0x10
    AND_RTN_32, OR_RTN_32, XOR_RTN_32 = 0x15, 0x16, 0x17
    SWAP_RTN_64, CMPSWAP_RTN_64, ADD_RTN_64, SUB_RTN_64 = 0x27, 0x28, 0x2F, 0x30
    AND_RTN_64, OR_RTN_64, XOR_RTN_64 = 0x35, 0x36, 0x37

    @property
    def nbytes(self) -> int:
        """Size, and alignment, of what it changes."""
        return 8 if self.name.endswith("_64") else 4


class AtomicCommand(IntEnum):
    """Whether ATOMIC_MEM repeats, and what the engine waits for."""

    SINGLE_PASS_ATOMIC, LOOP_UNTIL_COMPARE_SATISFIED = range(2)
    WAIT_FOR_WRITE_CONFIRMATION, SEND_AND_CONTINUE = 2, 3


ENUMS: Final[Mapping[str, type[IntEnum]]] = {
    "function": Compare,
    "mem_space": MemSpace,
    "operation": WaitOperation,
    "src_sel": CopySrc,
    "data_sel": DataSel,
    "int_sel": IntSel,
    "event_type": EventType,
    "event_index": EventIndex,
    "cache_policy": CachePolicy,
    "src_cache_policy": CachePolicy,
    "dst_cache_policy": CachePolicy,
    "atomic": Atomic,
    "command": AtomicCommand,
}


def _packet(
    name: str,
    opcode: int,
    *words: str,
    tail: str = "",
    tail_words: range = range(1),
    dst_sel: type[IntEnum] | None = None,
) -> WordLayout:
    fixed = TYPE3 | opcode << OPCODE_SHIFT
    enums = ENUMS if dst_sel is None else {**ENUMS, "dst_sel": dst_sel}
    return WordLayout(name, fixed, IDENTITY_MASK, (_HEADER, *words), tail, tail_words, enums)


NOP: Final = _packet("NOP", 0x10, tail="data", tail_words=ANY)
DISPATCH_DIRECT: Final = _packet(
    "DISPATCH_DIRECT", 0x15, "dim_x 31:0", "dim_y 31:0", "dim_z 31:0", "dispatch_initiator 31:0"
)
DISPATCH_INDIRECT: Final = _packet(
    "DISPATCH_INDIRECT", 0x16, "addr/4 63:0", "", "dispatch_initiator 31:0"
)
ATOMIC_MEM: Final = _packet(
    "ATOMIC_MEM",
    0x1E,
    "atomic 6:0  command 11:8  cache_policy 26:25",
    *("addr/4 63:0", "", "src_data 63:0", "", "cmp_data 63:0", "", "loop_interval 12:0"),
)
PRED_EXEC: Final = _packet("PRED_EXEC", 0x23, "exec_count 13:0  virtual_xcc_id_select 31:24")
WRITE_DATA: Final = _packet(
    "WRITE_DATA",
    0x37,
    "dst_sel 11:8  addr_incr 16  wr_confirm 20  cache_policy 26:25",
    "dst_mmreg_addr?dst_sel=0 17:0  dst_mem_addr/4?dst_sel=2|5 63:0",
    "",
    tail="data",
    tail_words=DATA,
    dst_sel=WriteDst,
)
WAIT_REG_MEM: Final = _packet(
    "WAIT_REG_MEM",
    0x3C,
    "function 2:0  mem_space 5:4  operation 7:6  cache_policy 26:25",
    "mem_poll_addr/4?mem_space=1 63:0  reg_poll_addr?mem_space=0&operation=0 17:0"
    "  reg_write_addr1?mem_space=0&operation=1 17:0",
    "reg_write_addr2?mem_space=0&operation=1 17:0",
    *("reference 31:0", "mask 31:0", "poll_interval 15:0  optimize_ace_offload_mode 31"),
)
INDIRECT_BUFFER: Final = _packet(
    "INDIRECT_BUFFER",
    0x3F,
    # The upper 16 bits exist from gfx11 on, and no 48-bit page table reaches them.
    *("ib_base/4 47:0", ""),
    "ib_size 19:0  chain 20  offload_polling 21  valid 23  vmid 27:24  cache_policy 29:28",
)
COPY_DATA: Final = _packet(
    "COPY_DATA",
    0x40,
    "src_sel 3:0  dst_sel 11:8  src_cache_policy 14:13  count_sel 16  wr_confirm 20"
    "  dst_cache_policy 26:25  pq_exe_status 29",
    "src_reg_offset?src_sel=0|4 17:0  src_addr/4?src_sel=1|2 63:0  imm_data?src_sel=5 63:0",
    "",
    "dst_reg_offset?dst_sel=0|4 17:0  dst_addr/4?dst_sel=2|5 63:0",
    "",
    dst_sel=CopyDst,
)
EVENT_WRITE: Final = _packet(
    "EVENT_WRITE",
    0x46,
    "event_type 5:0  event_index 11:8  offload_enable 31",
    tail="address",
    tail_words=range(0, 3, 2),
)
_RELEASED: Final = (
    "dst_sel 17:16  int_sel 26:24  data_sel 31:29",
    "addr/4?data_sel=0|1|5|6|7 63:0  addr/8?data_sel=2|3|4 63:0",
    *("", "data 63:0", "", "int_ctxid 31:0"),
)
RELEASE_MEM_GFX9: Final = _packet(
    "RELEASE_MEM",
    0x49,
    "event_type 5:0  event_index 11:8  tcl1_vol_action_ena 12  tc_vol_action_ena 13"
    "  tc_wb_action_ena 15  tcl1_action_ena 16  tc_action_ena 17  tc_nc_action_ena 19"
    "  tc_wc_action_ena 20  tc_md_action_ena 21  cache_policy 26:25  eop_exec 28",
    *_RELEASED,
)
RELEASE_MEM_GFX10: Final = _packet(
    "RELEASE_MEM",
    0x49,
    "event_type 5:0  event_index 11:8  glm_wb 12  glm_inv 13  glv_inv 14  gl1_inv 15  gl2_us 16"
    "  gl2_range 18:17  gl2_discard 19  gl2_inv 20  gl2_wb 21  seq 23:22  cache_policy 26:25"
    "  pq_exe_status 28",
    *_RELEASED,
)
RELEASE_MEM_GFX11: Final = replace(
    RELEASE_MEM_GFX10, {1: RELEASE_MEM_GFX10.words[1] + "  glk_wb 24  glk_inv 30"}
)
ACQUIRE_MEM_GFX9: Final = _packet(
    "ACQUIRE_MEM",
    0x58,
    "tc_nc_action_ena 3  tc_wc_action_ena 4  tc_inv_metadata_action_ena 5"
    "  tcl1_vol_action_ena 15  tc_wb_action_ena 18  tcl1_action_ena 22  tc_action_ena 23"
    "  cb_action_ena 25  db_action_ena 26  sh_kcache_action_ena 27  sh_kcache_vol_action_ena 28"
    "  sh_icache_action_ena 29  sh_kcache_wb_action_ena 30  engine_sel 31",
    *("coher_size 55:0", "", "coher_base 55:0", "", "poll_interval 15:0"),
)
ACQUIRE_MEM_GFX10: Final = _packet(
    "ACQUIRE_MEM",
    0x58,
    *("", "coher_size 55:0", "", "coher_base 55:0", "", "poll_interval 15:0"),
    "gli_inv 1:0  gl1_range 3:2  glm_wb 4  glm_inv 5  glk_wb 6  glk_inv 7  glv_inv 8  gl1_inv 9"
    "  gl2_us 10  gl2_range 12:11  gl2_discard 13  gl2_inv 14  gl2_wb 15  seq 17:16"
    "  range_is_pa 18",
)
_SET_REG: Final = "reg_offset 15:0  vmid_shift 27:23  index 31:28"
SET_SH_REG: Final = _packet("SET_SH_REG", 0x76, _SET_REG, tail="values", tail_words=DATA)
SET_UCONFIG_REG: Final = _packet("SET_UCONFIG_REG", 0x79, _SET_REG, tail="values", tail_words=DATA)

_NAMED_ONLY: Final = {
    0x22: "COND_EXEC", 0x50: "DMA_DATA", 0x95: "HDP_FLUSH", 0x98: "INVALIDATE_TLBS",
    0xA0: "SET_RESOURCES", 0xA1: "MAP_PROCESS", 0xA2: "MAP_QUEUES", 0xA3: "UNMAP_QUEUES",
    0xA4: "QUERY_STATUS", 0xA5: "RUN_LIST",
}  # fmt: skip
"""Opcodes never sent here to a user queue: a dump shows their name and words."""
_COMMON: Final = (
    *(NOP, DISPATCH_DIRECT, DISPATCH_INDIRECT, ATOMIC_MEM, WRITE_DATA, WAIT_REG_MEM, COPY_DATA),
    *(INDIRECT_BUFFER, EVENT_WRITE, SET_SH_REG, SET_UCONFIG_REG),
    *(_packet(name, op, tail="body", tail_words=DATA) for op, name in _NAMED_ONLY.items()),
)


@dataclass(frozen=True, slots=True)
class Flavour:
    """The packets of a chip family, and which of its caches a launch works on.

    `acquire_all` makes everything visible, code too; `acquire_data` what earlier kernels of this
    queue wrote; `release_all` pushes a kernel's results out to memory.
    """

    name: str
    packets: Mapping[str, WordLayout]
    acquire_all: Mapping[str, int]
    acquire_data: Mapping[str, int]
    release_all: Mapping[str, int]

    def layout(self, name: str) -> WordLayout:
        """A packet's layout on this family. Raises: Unsupported."""
        if name not in self.packets:
            raise Unsupported(f"{self.name} has no {name} packet")
        return self.packets[name]


def _named(*own: WordLayout) -> dict[str, WordLayout]:
    return {layout.name: layout for layout in (*_COMMON, *own)}


def _on(names: str) -> dict[str, int]:
    return dict.fromkeys(names.split(), 1)


_GCR_DATA: Final = "glm_wb glm_inv glk_wb glk_inv glv_inv gl1_inv"
_GCR_RELEASE: Final = "glm_wb glm_inv glv_inv gl1_inv gl2_inv gl2_wb seq"
_GCR: Final = (_on(f"gli_inv {_GCR_DATA} gl2_inv gl2_wb"), _on(_GCR_DATA), _on(_GCR_RELEASE))
# src: tinygrad ops_amd.py acquire_mem, release_mem (known to run on silicon), and
# src: Linux gfx_v{9_4_3,10_0,11_0,12_0}_emit_mem_sync for "all"; gfx_v9_4_3_ring_emit_fence for
# src: gfx9's release: with TC_NC only lines of MTYPE NC would be written back (Mesa ac_cmdbuf_cp),
# src: and KFD maps a card's own memory RW on gfx942 (gmc_v9_0_get_coherence_flags).
GFX9: Final = Flavour(
    "gfx9",
    _named(ACQUIRE_MEM_GFX9, RELEASE_MEM_GFX9, PRED_EXEC),
    _on("sh_icache_action_ena sh_kcache_action_ena tcl1_action_ena tc_action_ena tc_wb_action_ena"),
    _on("sh_kcache_action_ena tcl1_action_ena"),
    _on("tcl1_action_ena tc_action_ena tc_wb_action_ena tc_md_action_ena"),
)
GFX10: Final = Flavour("gfx10", _named(ACQUIRE_MEM_GFX10, RELEASE_MEM_GFX10), *_GCR)
GFX11: Final = Flavour("gfx11", _named(ACQUIRE_MEM_GFX10, RELEASE_MEM_GFX11), *_GCR)
GFX12: Final = Flavour("gfx12", _named(ACQUIRE_MEM_GFX10, RELEASE_MEM_GFX11), *_GCR)

FLAVOURS: Final[Mapping[Generation, Flavour]] = {
    (9, 0): GFX9, (9, 4): GFX9, (9, 5): GFX9, (10, 3): GFX10, (11, 0): GFX11, (11, 5): GFX11,
    (12, 0): GFX12,
}  # fmt: skip


def flavour_of(chip: str) -> Flavour:
    """The packets of a chip ("gfx1100"). Raises: Unsupported."""
    return entry_of(FLAVOURS, chip)

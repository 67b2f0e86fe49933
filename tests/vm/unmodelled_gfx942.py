"""Registers that amdgpu accesses on gfx942 alone and no board models: see unmodelled.py."""

from __future__ import annotations

from tests.vm.unmodelled import Unmodelled

_XCCS, _AIDS, _ENGINES, _DAGBS = range(8), range(4), range(16), range(5)
_FIRST_SNOOP, _AID_DW, _DAGB_DW = 0x2_4060, 0x1000, 0x80
"""Of the first memory hub's first DAGB. src: mmhub_1_8_0_offset.h and the board's discovery
(boards/amd/pci/ip_blocks.py)"""
_FIRST_CPC, _XCC_DW = 0x30B4, 0x1_0000
"""src: gc_9_4_3_offset.h regCPC_INT_CNTL 0x10b4 of segment 0"""
_SNOOP = "whether copies probe the host's caches: the board's host memory is coherent without"
_CLOCKS = "memory sleep of the command processor, which changes neither results nor registers"
_PARTITION = "compute and memory partitions: zeros are one partition (SPX, NPS1), as the board is"
_SHARE = "shares of waves between graphics and compute pipes: the board runs one packet at a time"


def _dagb(aid: int, dagb: int, name: str, offset: int) -> str:
    """As the board calls it: Linux names the first two, and counts on from them."""
    if (dagb, offset) in ((0, 0), (0, 1), (1, 0)):
        return f"MMHUB[{aid}].DAGB{dagb}_{name}"
    return f"dword {_FIRST_SNOOP + aid * _AID_DW + dagb * _DAGB_DW + offset:#x}"


GFX942 = (
    *(
        Unmodelled(_dagb(aid, dagb, name, offset), "read|write", _SNOOP,
                   "mmhub_v1_8.c mmhub_v1_8_init_snoop_override_regs()", early=2)
        for aid in _AIDS for dagb in _DAGBS
        for offset, name in enumerate(("WRCLI_GPU_SNOOP_OVERRIDE",
                                       "WRCLI_GPU_SNOOP_OVERRIDE_VALUE"))
    ),
    *(
        Unmodelled(f"dword {_FIRST_CPC + xcc * _XCC_DW:#x}", "write",
                   "CPC_INT_CNTL: time stamp and opcode error interrupts of a pipe, which the "
                   "board always sends",
                   "amdgpu_amdkfd_gfx_v9.c kgd_gfx_v9_init_interrupts()")
        for xcc in _XCCS
    ),
    *(
        Unmodelled(f"GC[{xcc}].{name}", how, reason, f"gfx_v9_4_3.c {function}()")
        for xcc in _XCCS
        for name, how, reason, function in (
            ("CP_MEM_SLP_CNTL", "read", _CLOCKS,
             "gfx_v9_4_3_xcc_update_medium_grain_clock_gating"),
            ("RLC_SERDES_CU_MASTER_BUSY", "read", "0: the RLC's bus to the compute units is idle",
             "gfx_v9_4_3_xcc_wait_for_rlc_serdes"),
            ("RLC_SERDES_NONCU_MASTER_BUSY", "read", "0: the same bus to other blocks is idle",
             "gfx_v9_4_3_xcc_wait_for_rlc_serdes"),
        )
    ),
    Unmodelled("GC[0].CP_HYP_XCP_CTL", "read", _PARTITION,
               "gfx_v9_4_3.c gfx_v9_4_3_get_xccs_per_xcp()"),
    *(
        Unmodelled(f"GC[0].SPI_WCL_PIPE_PERCENT_{pipe}", "write", _SHARE,
                   "gfx_v9_4_3.c gfx_v9_4_3_emit_wave_limit()")
        for pipe in ("GFX", "CS1", "CS2", "CS3")
    ),
    *(
        Unmodelled(f"SDMA0[{engine}].SDMA_SEM_WAIT_FAIL_TIMER_CNTL", "write",
                   "0 switches the time limit of semaphores off, of which the board has none",
                   "sdma_v4_4_2.c sdma_v4_4_2_inst_start()")
        for engine in _ENGINES
    ),
    Unmodelled("NBIF[0].BIF_BX0_BACO_CNTL", "read", "0: the chip is not in BACO",
               "nbio_v7_9.c nbio_v7_9_init_registers()", early=4),
    *(
        Unmodelled(f"NBIF[0].BIF_BX_PF0_PARTITION_{name}", "read", _PARTITION,
                   f"nbio_v7_9.c nbio_v7_9_get_{function}_partition_mode()", early=early)
        for name, function, early in (
            ("MEM_CAP", "memory", 1), ("MEM_STATUS", "memory", 2), ("COMPUTE_STATUS", "compute", 0),
        )
    ),
    Unmodelled("SMUIO[0].SMUIO_MCM_CONFIG", "read", "0: the first socket and die, as the board is",
               "smuio_v13_0_3.c smuio_v13_0_3_get_die_id()", early=2),
    Unmodelled("dword 0x160bf", "read",
               "MP0_SMN_C2PMSG_127: 0 is a chip without RAS, which the board does not have",
               "psp_v13_0.c psp_v13_0_get_ras_capability()", early=1),
    Unmodelled("dword 0xec4024", "read",
               "regMP1_PUB_SCRATCH0, the power firmware's version: 0 asks for the older SOS, which "
               "the made-up firmware has too",
               "psp_v13_0.c psp_v13_0_is_aux_sos_load_required()", early=1),
)  # fmt: skip

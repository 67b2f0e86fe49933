"""What gfx12's mnemonics mean in the words of the shared tables, and names of its registers."""

from __future__ import annotations

from collections.abc import Iterable

from boards.amd.isa.table import Entries

# src: RDNA4 ISA, chapter 16: renamed, with the operation that RDNA3 had under the other name.
_RENAMED = {
    "s_add_co_u32": "s_add_u32", "s_sub_co_u32": "s_sub_u32", "s_add_co_i32": "s_add_i32",
    "s_sub_co_i32": "s_sub_i32", "s_add_co_ci_u32": "s_addc_u32", "s_sub_co_ci_u32": "s_subb_u32",
    "s_addk_co_i32": "s_addk_i32", "s_wait_alu": "s_waitcnt_depctr",
    "v_mad_co_u64_u32": "v_mad_u64_u32", "v_mad_co_i64_i32": "v_mad_i64_i32",
    "atomic_sub_clamp_u32": "atomic_csub_u32", "ds_sub_clamp_u32": "ds_csub_u32",
    "ds_sub_clamp_rtn_u32": "ds_csub_rtn_u32", "inv": "buffer_gl0_inv", "wb": "buffer_gl0_inv",
    "wbinv": "buffer_gl0_inv", "s_singleuse_vdst": "s_nop",
}  # fmt: skip
_NUMBER = "_num_"
"""gfx11's min and max, which prefer a number to a NaN."""
_MATRIX = "v_wmma_"


def meanings(tables: Iterable[Entries], dual: Iterable[str]) -> dict[str, str]:
    """Mnemonic -> the mnemonic under which the shared tables define it."""
    names = [entry.name for table in tables for entry in table.values()]
    names += [f"v_{name}" for name in dual]
    found = {name: name.replace(_NUMBER, "_") for name in names if _NUMBER in name}
    found |= {name: f"v_wmma12_{name[len(_MATRIX) :]}" for name in names if _MATRIX in name}
    return found | _RENAMED


# src: the AMDGPU disassembler of LLVM 19.1.7, asked for every register of gfx1201.
HWREGS = {
    1: "HW_REG_MODE", 2: "HW_REG_STATUS", 4: "HW_REG_STATE_PRIV", 5: "HW_REG_GPR_ALLOC",
    6: "HW_REG_LDS_ALLOC", 7: "HW_REG_IB_STS", 10: "HW_REG_PERF_SNAPSHOT_DATA",
    11: "HW_REG_PERF_SNAPSHOT_PC_LO", 12: "HW_REG_PERF_SNAPSHOT_PC_HI",
    15: "HW_REG_PERF_SNAPSHOT_DATA1", 16: "HW_REG_PERF_SNAPSHOT_DATA2",
    17: "HW_REG_EXCP_FLAG_PRIV", 18: "HW_REG_EXCP_FLAG_USER", 19: "HW_REG_TRAP_CTRL",
    20: "HW_REG_SCRATCH_BASE_LO", 21: "HW_REG_SCRATCH_BASE_HI", 23: "HW_REG_HW_ID1",
    24: "HW_REG_HW_ID2", 29: "HW_REG_SHADER_CYCLES_LO", 30: "HW_REG_SHADER_CYCLES_HI",
    31: "HW_REG_DVGPR_ALLOC_LO", 32: "HW_REG_DVGPR_ALLOC_HI",
}  # fmt: skip
MESSAGES = {
    1: "MSG_INTERRUPT", 2: "MSG_HS_TESSFACTOR", 3: "MSG_DEALLOC_VGPRS", 9: "MSG_GS_ALLOC_REQ",
    128: "MSG_RTN_GET_DOORBELL", 129: "MSG_RTN_GET_DDID", 130: "MSG_RTN_GET_TMA",
    131: "MSG_RTN_GET_REALTIME", 132: "MSG_RTN_SAVE_WAVE", 133: "MSG_RTN_GET_TBA",
    134: "MSG_RTN_GET_TBA_TO_PC", 135: "MSG_RTN_GET_SE_AID_ID",
}  # fmt: skip

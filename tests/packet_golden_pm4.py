"""PM4 packets and the vendor's macros."""

from __future__ import annotations

from queues.amd import pm4
from tests.packet_golden import HI, LO, MEMORY, Golden

GFX9, GFX10 = pm4.flavour_of("gfx942"), pm4.flavour_of("gfx1030")
GFX11, GFX12 = pm4.flavour_of("gfx1100"), pm4.flavour_of("gfx1201")

PM4 = [
    Golden("nop", lambda: pm4.nop(), "nvd.h", "PACKET3(PACKET3_NOP, 0x3FFF)"),
    Golden("nop_4", lambda: pm4.nop(words=4), "nvd.h", "PACKET3(PACKET3_NOP, 2), 0, 0, 0"),
    Golden(
        "dispatch_direct",
        lambda: pm4.dispatch_direct(dim_x=7, dim_y=8, dim_z=9, dispatch_initiator=0x8005),
        "nvd.h",
        "PACKET3(PACKET3_DISPATCH_DIRECT, 3), 7, 8, 9, 0x8005",
    ),
    Golden(
        "dispatch_indirect",
        lambda: pm4.dispatch_indirect(addr=MEMORY, dispatch_initiator=5),
        "soc15d.h",
        f"PACKET3(PACKET3_DISPATCH_INDIRECT, 2), {LO}, {HI}, 5",
    ),
    Golden(
        "atomic_mem",
        lambda: pm4.atomic_mem(
            atomic=pm4.Atomic.SWAP_RTN_64, addr=MEMORY, src_data=0x1122334455667788
        ),
        "amd_gpu_pm4.h",
        "PM4_HDR(PM4_HDR_IT_OPCODE_ATOMIC_MEM, 9, 9),"
        "PM4_ATOMIC_MEM_DW1_ATOMIC(PM4_ATOMIC_MEM_GL2_OP_ATOMIC_SWAP_RTN_64),"
        f"PM4_ATOMIC_MEM_DW2_ADDR_LO({LO}), PM4_ATOMIC_MEM_DW3_ADDR_HI({HI}),"
        "PM4_ATOMIC_MEM_DW4_SRC_DATA_LO(0x55667788), PM4_ATOMIC_MEM_DW5_SRC_DATA_HI(0x11223344),"
        "0, 0, 0",
    ),
    Golden(
        "pred_exec",
        lambda: pm4.pred_exec(GFX9, virtual_xcc_id_select=0xA5, exec_count=77),
        "amd_gpu_pm4.h",
        "PM4_HDR(PM4_HDR_IT_OPCODE_PRED_EXEC, 2, 9),"
        "PM4_PRED_EXEC_DW2_EXEC_COUNT(77) | PM4_PRED_EXEC_DW2_VIRTUALXCCID_SELECT(0xA5)",
    ),
    Golden(
        "write_data_memory",
        lambda: pm4.write_data(dst=MEMORY, data=[1, 0xFFFFFFFF]),
        "nvd.h",
        f"PACKET3(PACKET3_WRITE_DATA, 4), WRITE_DATA_DST_SEL(5) | WR_CONFIRM, {LO}, {HI}, 1, ~0u",
    ),
    Golden(
        "write_data_l2",
        lambda: pm4.write_data(dst=MEMORY, data=[3], dst_sel=pm4.WriteDst.TC_L2),
        "amd_gpu_pm4.h",
        "PM4_HDR(PM4_HDR_IT_OPCODE_WRITE_DATA, 5, 9), PM4_WRITE_DATA_DW1("
        "PM4_WRITE_DATA_DST_SEL_TC_L2 | PM4_WRITE_DATA_WR_CONFIRM_WAIT_CONFIRMATION),"
        f"PM4_WRITE_DATA_DW2_DST_MEM_ADDR_LO({LO}), PM4_WRITE_DATA_DW3_DST_MEM_ADDR_HI({HI}),"
        "PM4_WRITE_DATA_DW4_DATA(3)",
    ),
    Golden(
        "write_data_register",
        lambda: pm4.write_data(
            dst=0x1234,
            data=[5, 6],
            dst_sel=pm4.WriteDst.MEM_MAPPED_REGISTER,
            addr_incr=1,
            cache_policy=pm4.CachePolicy.STREAM,
        ),
        "soc15d.h",
        "PACKET3(PACKET3_WRITE_DATA, 4), WRITE_DATA_DST_SEL(0) | WR_CONFIRM | WR_ONE_ADDR |"
        " WRITE_DATA_CACHE_POLICY(1), 0x1234, 0, 5, 6",
    ),
    Golden(
        "wait_mem",
        lambda: pm4.wait_mem(addr=MEMORY, reference=17),
        "nvd.h",
        "PACKET3(PACKET3_WAIT_REG_MEM, 5), WAIT_REG_MEM_FUNCTION(5) | WAIT_REG_MEM_MEM_SPACE(1) |"
        f" WAIT_REG_MEM_OPERATION(0) | WAIT_REG_MEM_ENGINE(0), {LO}, {HI}, 17, ~0u, 4",
    ),
    Golden(
        "wait_reg",
        lambda: pm4.wait_reg(reg=0x1234, reference=1, mask=0xFF, poll_interval=0x20),
        "soc15d.h",
        "PACKET3(PACKET3_WAIT_REG_MEM, 5), WAIT_REG_MEM_FUNCTION(3) | WAIT_REG_MEM_MEM_SPACE(0),"
        " 0x1234, 0, 1, 0xff, 0x20",
    ),
    Golden(
        "write_wait_reg",
        lambda: pm4.write_wait_reg(write_reg=0xE26, poll_reg=0xE27),
        "nvd.h",
        "PACKET3(PACKET3_WAIT_REG_MEM, 5), WAIT_REG_MEM_FUNCTION(5) | WAIT_REG_MEM_OPERATION(1),"
        " 0xe26, 0xe27, ~0u, ~0u, 4",
    ),
    Golden(
        "indirect_buffer",
        lambda: pm4.indirect_buffer(
            ib_base=MEMORY, ib_size=0xFEDCB, cache_policy=pm4.CachePolicy.NOA
        ),
        "nvd.h",
        f"PACKET3(PACKET3_INDIRECT_BUFFER, 2), {LO}, {HI},"
        " INDIRECT_BUFFER_VALID | 0xfedcb | INDIRECT_BUFFER_CACHE_POLICY(2)",
    ),
    Golden(
        "copy_data_atomic_result",
        lambda: pm4.copy_data(
            src_sel=pm4.CopySrc.ATOMIC_RETURN_DATA,
            dst_sel=pm4.CopyDst.TC_L2,
            dst=MEMORY,
            count_sel=1,
        ),
        "amd_gpu_pm4.h",
        "PM4_HDR(PM4_HDR_IT_OPCODE_COPY_DATA, 6, 9), PM4_COPY_DATA_DW1("
        "PM4_COPY_DATA_SRC_SEL_ATOMIC_RETURN_DATA | PM4_COPY_DATA_DST_SEL_TC_12 |"
        " PM4_COPY_DATA_COUNT_SEL | PM4_COPY_DATA_WR_CONFIRM), 0, 0,"
        f"PM4_COPY_DATA_DW4_DST_ADDR_LO({LO}), PM4_COPY_DATA_DW5_DST_ADDR_HI({HI})",
    ),
    Golden(
        # src: gfx_v11_0_ring_emit_rreg: source 0 is a register, destination 5 memory.
        "copy_data_register",
        lambda: pm4.copy_data(
            src_sel=pm4.CopySrc.MEM_MAPPED_REGISTER,
            dst_sel=pm4.CopyDst.MEMORY,
            src=0x1234,
            dst=MEMORY,
        ),
        "nvd.h",
        f"PACKET3(PACKET3_COPY_DATA, 4), 0 | (5 << 8) | (1 << 20), 0x1234, 0, {LO}, {HI}",
    ),
    Golden(
        "event_write",
        lambda: pm4.event_write(),
        "nvd.h",
        "PACKET3(PACKET3_EVENT_WRITE, 0), EVENT_TYPE(7) | EVENT_INDEX(4)",
    ),
    Golden(
        # src: gfx_v9_4_3_ring_emit_fence
        "release_mem_gfx9",
        lambda: pm4.release_mem(
            GFX9,
            addr=MEMORY,
            data=0x100000002,
            data_sel=pm4.DataSel.SEND_64_BIT_DATA,
            int_sel=pm4.IntSel.SEND_INTERRUPT_AFTER_WRITE_CONFIRM,
            caches=GFX9.release_all,
        ),
        "soc15d.h",
        "PACKET3(PACKET3_RELEASE_MEM, 6), EVENT_TYPE(0x14) | EVENT_INDEX(5) |"
        " EOP_TCL1_ACTION_EN | EOP_TC_ACTION_EN | EOP_TC_WB_ACTION_EN | EOP_TC_MD_ACTION_EN,"
        " DATA_SEL(2) | INT_SEL(2),"
        f" {LO}, {HI}, 2, 1, 0",
    ),
    Golden(
        "release_mem_gfx9_every_cache",
        lambda: pm4.release_mem(
            GFX9,
            caches=dict.fromkeys(
                [
                    "tcl1_vol_action_ena",
                    "tc_vol_action_ena",
                    "tc_wb_action_ena",
                    "tcl1_action_ena",
                    "tc_action_ena",
                    "tc_nc_action_ena",
                    "tc_md_action_ena",
                ],
                1,
            ),
        ),
        "soc15d.h",
        "PACKET3(PACKET3_RELEASE_MEM, 6), EVENT_TYPE(0x14) | EVENT_INDEX(5) |"
        " EOP_TCL1_VOL_ACTION_EN | EOP_TC_VOL_ACTION_EN | EOP_TC_WB_ACTION_EN |"
        " EOP_TCL1_ACTION_EN | EOP_TC_ACTION_EN | EOP_TC_NC_ACTION_EN | EOP_TC_MD_ACTION_EN,"
        " 0, 0, 0, 0, 0, 0",
    ),
    *[
        Golden(
            f"release_mem_{flavour.name}",
            lambda flavour=flavour: pm4.release_mem(
                flavour,
                addr=MEMORY,
                data=2,
                data_sel=pm4.DataSel.SEND_32_BIT_LOW,
                int_sel=pm4.IntSel.SEND_INTERRUPT_AFTER_WRITE_CONFIRM,
                int_ctxid=33,
                caches=flavour.release_all,
            ),
            "nvd.h",
            "PACKET3(PACKET3_RELEASE_MEM, 6), PACKET3_RELEASE_MEM_EVENT_TYPE(0x14) |"
            " PACKET3_RELEASE_MEM_EVENT_INDEX(5) | PACKET3_RELEASE_MEM_GCR_GLM_WB |"
            " PACKET3_RELEASE_MEM_GCR_GLM_INV | PACKET3_RELEASE_MEM_GCR_GLV_INV |"
            " PACKET3_RELEASE_MEM_GCR_GL1_INV | PACKET3_RELEASE_MEM_GCR_GL2_INV |"
            " PACKET3_RELEASE_MEM_GCR_GL2_WB | PACKET3_RELEASE_MEM_GCR_SEQ,"
            " PACKET3_RELEASE_MEM_DATA_SEL(1) | PACKET3_RELEASE_MEM_INT_SEL(2),"
            f" {LO}, {HI}, 2, 0, 33",
        )
        for flavour in (GFX10, GFX11, GFX12)
    ],
    Golden(
        "release_mem_clock",
        lambda: pm4.release_mem(
            GFX11,
            addr=MEMORY,
            data_sel=pm4.DataSel.SEND_GPU_CLOCK_COUNTER,
            caches={"gl2_us": 1, "gl2_discard": 1, "cache_policy": 3, "pq_exe_status": 1},
            event_type=pm4.EventType.BOTTOM_OF_PIPE_TS,
        ),
        "nvd.h",
        "PACKET3(PACKET3_RELEASE_MEM, 6), PACKET3_RELEASE_MEM_EVENT_TYPE(0x28) |"
        " PACKET3_RELEASE_MEM_EVENT_INDEX(5) | PACKET3_RELEASE_MEM_GCR_GL2_US |"
        " PACKET3_RELEASE_MEM_GCR_GL2_DISCARD | PACKET3_RELEASE_MEM_CACHE_POLICY(3) |"
        f" PACKET3_RELEASE_MEM_EXECUTE, PACKET3_RELEASE_MEM_DATA_SEL(3), {LO}, {HI}, 0, 0, 0",
    ),
    Golden(
        # src: gfx_v9_4_3_emit_mem_sync
        "acquire_mem_gfx9",
        lambda: pm4.acquire_mem(GFX9, caches=GFX9.acquire_all),
        "soc15d.h",
        "PACKET3(PACKET3_ACQUIRE_MEM, 5),"
        " PACKET3_ACQUIRE_MEM_CP_COHER_CNTL_SH_ICACHE_ACTION_ENA(1) |"
        " PACKET3_ACQUIRE_MEM_CP_COHER_CNTL_SH_KCACHE_ACTION_ENA(1) |"
        " PACKET3_ACQUIRE_MEM_CP_COHER_CNTL_TC_ACTION_ENA(1) |"
        " PACKET3_ACQUIRE_MEM_CP_COHER_CNTL_TCL1_ACTION_ENA(1) |"
        " PACKET3_ACQUIRE_MEM_CP_COHER_CNTL_TC_WB_ACTION_ENA(1),"
        " 0xffffffff, 0xffffff, 0, 0, 0xA",
    ),
    *[
        Golden(
            # src: gfx_v{10_0,11_0,12_0}_emit_mem_sync, and GLK_WB as tinygrad has it.
            f"acquire_mem_{flavour.name}",
            lambda flavour=flavour: pm4.acquire_mem(flavour, caches=flavour.acquire_all),
            "nvd.h",
            "PACKET3(PACKET3_ACQUIRE_MEM, 6), 0, 0xffffffff, 0xffffff, 0, 0, 0xA,"
            " PACKET3_ACQUIRE_MEM_GCR_CNTL_GL2_INV(1) | PACKET3_ACQUIRE_MEM_GCR_CNTL_GL2_WB(1) |"
            " PACKET3_ACQUIRE_MEM_GCR_CNTL_GLM_INV(1) | PACKET3_ACQUIRE_MEM_GCR_CNTL_GLM_WB(1) |"
            " PACKET3_ACQUIRE_MEM_GCR_CNTL_GL1_INV(1) | PACKET3_ACQUIRE_MEM_GCR_CNTL_GLV_INV(1) |"
            " PACKET3_ACQUIRE_MEM_GCR_CNTL_GLK_INV(1) | PACKET3_ACQUIRE_MEM_GCR_CNTL_GLK_WB(1) |"
            " PACKET3_ACQUIRE_MEM_GCR_CNTL_GLI_INV(1)",
        )
        for flavour in (GFX10, GFX11, GFX12)
    ],
    Golden(
        "acquire_mem_range",
        lambda: pm4.acquire_mem(
            GFX11,
            caches={
                "gl1_range": 2,
                "gl2_us": 1,
                "gl2_range": 2,
                "gl2_discard": 1,
                "seq": 2,
                "range_is_pa": 1,
            },
            coher_base=0x123456789ABC,
            coher_size=0x10,
            poll_interval=4,
        ),
        "nvd.h",
        "PACKET3(PACKET3_ACQUIRE_MEM, 6), 0, 0x10, 0, 0x56789abc, 0x1234, 4,"
        " PACKET3_ACQUIRE_MEM_GCR_CNTL_GL1_RANGE(2) | PACKET3_ACQUIRE_MEM_GCR_CNTL_GL2_US(1) |"
        " PACKET3_ACQUIRE_MEM_GCR_CNTL_GL2_RANGE(2) | PACKET3_ACQUIRE_MEM_GCR_CNTL_GL2_DISCARD(1) |"
        " PACKET3_ACQUIRE_MEM_GCR_CNTL_SEQ(2) | PACKET3_ACQUIRE_MEM_GCR_RANGE_IS_PA",
    ),
    Golden(
        "set_sh_reg",
        lambda: pm4.set_sh_reg(reg=0x2E0C, values=[0x11, 0x22]),
        "nvd.h",
        "PACKET3(PACKET3_SET_SH_REG, 2), 0x2e0c - PACKET3_SET_SH_REG_START, 0x11, 0x22",
    ),
    Golden(
        "set_uconfig_reg",
        lambda: pm4.set_uconfig_reg(reg=0xC200, values=[0xE0000000]),
        "soc15d.h",
        "PACKET3(PACKET3_SET_UCONFIG_REG, 1), 0xc200 - PACKET3_SET_UCONFIG_REG_START, 0xe0000000",
    ),
]

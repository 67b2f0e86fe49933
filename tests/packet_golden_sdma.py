"""SDMA packets and the vendor's macros."""

from __future__ import annotations

from queues.amd import sdma
from tests.packet_golden import CODE, HI, LO, MEMORY, Golden

SDMA_4_4, SDMA_5_2 = sdma.engine_of("gfx942"), sdma.engine_of("gfx1030")
SDMA_6_0, SDMA_7_0 = sdma.engine_of("gfx1100"), sdma.engine_of("gfx1201")
SDMA4, SDMA5 = "vega10_sdma_pkt_open.h", "navi10_sdma_pkt_open.h"
SDMA6 = "sdma_v6_0_0_pkt_open.h"


def _copy(engine: sdma.Engine, header: str) -> Golden:
    return Golden(
        f"copy_linear_{engine.name}",
        lambda: sdma.copy_linear(
            engine, dst_addr=CODE, src_addr=MEMORY, count=engine.fill_max_bytes
        ),
        header,
        "SDMA_PKT_COPY_LINEAR_HEADER_OP(SDMA_OP_COPY) |"
        " SDMA_PKT_COPY_LINEAR_HEADER_SUB_OP(SDMA_SUBOP_COPY_LINEAR),"
        f" SDMA_PKT_COPY_LINEAR_COUNT_COUNT({engine.fill_max_bytes - 1:#x}),"
        f" SDMA_PKT_COPY_LINEAR_PARAMETER_DST_SW(0), {LO}, {HI}, 0xdcba9800, 0x7ffe",
    )


def _fill(engine: sdma.Engine, header: str) -> Golden:
    return Golden(
        f"const_fill_{engine.name}",
        lambda: sdma.const_fill(
            engine, dst_addr=MEMORY, src_data=0xDEADBEEF, count=engine.fill_max_bytes
        ),
        header,
        "SDMA_PKT_CONSTANT_FILL_HEADER_OP(SDMA_OP_CONST_FILL) |"
        f" SDMA_PKT_CONSTANT_FILL_HEADER_FILLSIZE(2), {LO}, {HI}, 0xdeadbeef,"
        f" SDMA_PKT_CONSTANT_FILL_COUNT_COUNT({engine.fill_max_bytes - 1:#x})",
    )


def _fence(engine: sdma.Engine, header: str, mtype: str) -> Golden:
    return Golden(
        f"fence_{engine.name}",
        lambda: sdma.fence(engine, addr=MEMORY, data=0x89ABCDEF),
        header,
        f"SDMA_PKT_FENCE_HEADER_OP(SDMA_OP_FENCE){mtype},"
        f" SDMA_PKT_FENCE_ADDR_LO_ADDR_31_0({LO}), SDMA_PKT_FENCE_ADDR_HI_ADDR_63_32({HI}),"
        " SDMA_PKT_FENCE_DATA_DATA(0x89abcdef)",
    )


_UC = " | SDMA_PKT_FENCE_HEADER_MTYPE(3)"
SDMA = [
    _copy(SDMA_4_4, SDMA4), _copy(SDMA_5_2, SDMA5), _copy(SDMA_6_0, SDMA6),
    _copy(SDMA_7_0, SDMA6),
    _fill(SDMA_4_4, SDMA4), _fill(SDMA_5_2, SDMA5), _fill(SDMA_6_0, SDMA6),
    _fill(SDMA_7_0, SDMA6),
    _fence(SDMA_4_4, SDMA4, ""), _fence(SDMA_5_2, SDMA5, _UC), _fence(SDMA_6_0, SDMA6, _UC),
    _fence(SDMA_7_0, SDMA6, _UC),
    Golden("sdma_nop", lambda: sdma.nop(), SDMA6, "SDMA_PKT_NOP_HEADER_OP(SDMA_OP_NOP)"),
    Golden(
        "sdma_nop_3",
        lambda: sdma.nop(words=3),
        SDMA4,
        "SDMA_PKT_NOP_HEADER_OP(SDMA_OP_NOP) | SDMA_PKT_NOP_HEADER_COUNT(2), 0, 0",
    ),
    Golden(
        "trap",
        lambda: sdma.trap(int_context=0xABCDEF1),
        SDMA6,
        "SDMA_PKT_TRAP_HEADER_OP(SDMA_OP_TRAP),"
        " SDMA_PKT_TRAP_INT_CONTEXT_INT_CONTEXT(0xabcdef1)",
    ),
    Golden(
        "poll_mem",
        lambda: sdma.poll_mem(SDMA_6_0, addr=MEMORY, value=9),
        SDMA6,
        "SDMA_PKT_POLL_REGMEM_HEADER_OP(SDMA_OP_POLL_REGMEM) |"
        " SDMA_PKT_POLL_REGMEM_HEADER_FUNC(5) | SDMA_PKT_POLL_REGMEM_HEADER_MEM_POLL(1),"
        f" {LO}, {HI}, 9, ~0u,"
        " SDMA_PKT_POLL_REGMEM_DW5_INTERVAL(4) | SDMA_PKT_POLL_REGMEM_DW5_RETRY_COUNT(0xfff)",
    ),
    Golden(
        # src: sdma_v6_0_ring_emit_reg_wait
        "poll_reg",
        lambda: sdma.poll_reg(SDMA_4_4, reg=0x1234, value=1, mask=0xFF, interval=10),
        SDMA4,
        "SDMA_PKT_POLL_REGMEM_HEADER_OP(SDMA_OP_POLL_REGMEM) |"
        " SDMA_PKT_POLL_REGMEM_HEADER_FUNC(3), 0x1234 << 2, 0, 1, 0xff,"
        " SDMA_PKT_POLL_REGMEM_DW5_INTERVAL(10) | SDMA_PKT_POLL_REGMEM_DW5_RETRY_COUNT(0xfff)",
    ),
    Golden(
        # src: sdma_v5_2_ring_emit_hdp_flush: first the register polled, then the one written.
        "hdp_flush",
        lambda: sdma.hdp_flush(SDMA_5_2, request_reg=0xE26, done_reg=0xE27, mask=0x400),
        SDMA5,
        "SDMA_PKT_POLL_REGMEM_HEADER_OP(SDMA_OP_POLL_REGMEM) |"
        " SDMA_PKT_POLL_REGMEM_HEADER_HDP_FLUSH(1) | SDMA_PKT_POLL_REGMEM_HEADER_FUNC(3),"
        " 0xe27 << 2, 0xe26 << 2, 0x400, 0x400,"
        " SDMA_PKT_POLL_REGMEM_DW5_INTERVAL(10) | SDMA_PKT_POLL_REGMEM_DW5_RETRY_COUNT(0xfff)",
    ),
    Golden(
        "atomic",
        lambda: sdma.atomic(
            SDMA_4_4,
            atomic_op=sdma.Atomic.ADD_RTN_64,
            addr=MEMORY,
            src_data=(1 << 64) - 1,
            cmp_data=0x500000006,
            loop=1,
            loop_interval=0x1FFF,
        ),
        SDMA4,
        "SDMA_PKT_ATOMIC_HEADER_OP(SDMA_OP_ATOMIC) | SDMA_PKT_ATOMIC_HEADER_ATOMIC_OP(47) |"
        f" SDMA_PKT_ATOMIC_HEADER_LOOP(1), {LO}, {HI}, ~0u, ~0u, 6, 5,"
        " SDMA_PKT_ATOMIC_LOOP_INTERVAL_LOOP_INTERVAL(0x1fff)",
    ),
    Golden(
        "write",
        lambda: sdma.write(SDMA_6_0, dst_addr=MEMORY, data=[1, 2, 3]),
        SDMA6,
        "SDMA_PKT_WRITE_UNTILED_HEADER_OP(SDMA_OP_WRITE),"
        f" {LO}, {HI}, SDMA_PKT_WRITE_UNTILED_DW_3_COUNT(2), 1, 2, 3",
    ),
    Golden(
        "indirect",
        lambda: sdma.indirect(
            SDMA_6_0, ib_base=CODE, ib_size=0xFFFF8, csa_addr=MEMORY, vmid=3
        ),
        SDMA6,
        "SDMA_PKT_INDIRECT_HEADER_OP(SDMA_OP_INDIRECT) | SDMA_PKT_INDIRECT_HEADER_VMID(3),"
        f" 0xdcba9800, 0x7ffe, SDMA_PKT_INDIRECT_IB_SIZE_IB_SIZE(0xffff8), {LO}, {HI}",
    ),
    Golden(
        "timestamp",
        lambda: sdma.timestamp(SDMA_5_2, addr=MEMORY),
        SDMA5,
        "SDMA_PKT_TIMESTAMP_GET_GLOBAL_HEADER_OP(SDMA_OP_TIMESTAMP) |"
        " SDMA_PKT_TIMESTAMP_GET_GLOBAL_HEADER_SUB_OP(SDMA_SUBOP_TIMESTAMP_GET_GLOBAL),"
        f" SDMA_PKT_TIMESTAMP_GET_GLOBAL_WRITE_ADDR_LO_WRITE_ADDR_31_3({LO} >> 3), {HI}",
    ),
    Golden(
        # src: sdma_v6_0_ring_emit_mem_sync, with the sub-operation of user queues
        "gcr",
        lambda: sdma.gcr(
            SDMA_7_0,
            caches={"gl2_inv": 1, "gl2_wb": 1, "glm_inv": 1, "gl1_inv": 1, "glv_inv": 1,
                    "glk_inv": 1, "gli_inv": 1, "seq": 2},
        ),
        SDMA6,
        "SDMA_PKT_GCR_REQ_HEADER_OP(SDMA_OP_GCR_REQ) | SDMA_PKT_GCR_REQ_HEADER_SUB_OP(1), 0,"
        " SDMA_PKT_GCR_REQ_PAYLOAD2_GCR_CONTROL_15_0(SDMA_GCR_GL2_INV | SDMA_GCR_GL2_WB |"
        " SDMA_GCR_GLM_INV | SDMA_GCR_GL1_INV | SDMA_GCR_GLV_INV | SDMA_GCR_GLK_INV |"
        " SDMA_GCR_GLI_INV(1)),"
        " SDMA_PKT_GCR_REQ_PAYLOAD3_GCR_CONTROL_18_16(SDMA_GCR_SEQ(2) >> 16), 0",
    ),
    Golden(
        "gcr_range",
        lambda: sdma.gcr(
            SDMA_5_2,
            caches={"glm_wb": 1, "glk_wb": 1, "gl1_range": 2, "gl2_range": 2, "gl2_us": 1,
                    "gl2_discard": 1, "range_is_pa": 1},
            base_va=CODE,
            limit_va=CODE + 128,
            sub_op=0,
        ),
        SDMA5,
        "SDMA_PKT_GCR_REQ_HEADER_OP(SDMA_OP_GCR_REQ),"
        " SDMA_PKT_GCR_REQ_PAYLOAD1_BASE_VA_31_7(0xdcba9800 >> 7),"
        " SDMA_PKT_GCR_REQ_PAYLOAD2_BASE_VA_47_32(0x7ffe) |"
        " SDMA_PKT_GCR_REQ_PAYLOAD2_GCR_CONTROL_15_0(SDMA_GCR_GLM_WB | SDMA_GCR_GLK_WB |"
        " SDMA_GCR_GL1_RANGE(2) | SDMA_GCR_GL2_RANGE(2) | SDMA_GCR_GL2_US | SDMA_GCR_GL2_DISCARD),"
        " SDMA_PKT_GCR_REQ_PAYLOAD3_LIMIT_VA_31_7(0xdcba9880 >> 7) |"
        " SDMA_PKT_GCR_REQ_PAYLOAD3_GCR_CONTROL_18_16(SDMA_GCR_RANGE_IS_PA >> 16),"
        " SDMA_PKT_GCR_REQ_PAYLOAD4_LIMIT_VA_47_32(0x7ffe)",
    ),
]  # fmt: skip

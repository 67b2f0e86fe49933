"""AQL packets and the vendor's structs."""

from __future__ import annotations

from queues.amd import aql
from tests.packet_golden import CODE, HI, LO, MEMORY, Golden

_SYSTEM = (
    " | 1 << HSA_PACKET_HEADER_BARRIER"
    " | HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE"
    " | HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE"
)
_PM4_IB = (
    "struct { uint16_t header, ven_hdr; uint32_t ib_jump_cmd[4], dw_cnt_remain, reserved[8];"
    " hsa_signal_t completion_signal; }"
)
AQL = [
    Golden(
        "kernel_dispatch",
        lambda: aql.kernel_dispatch(
            workgroup_size=(64, 3, 2),
            grid_size=(0x10000, 6, 4),
            kernel_object=CODE & ~63,
            kernarg_address=MEMORY,
            private_segment_size=0x120,
            group_segment_size=0x8000,
            completion_signal=MEMORY + 64,
        ),
        "hsa.h",
        f"{{.header = HSA_PACKET_TYPE_KERNEL_DISPATCH{_SYSTEM},"
        " .setup = 3 << HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS,"
        " .workgroup_size_x = 64, .workgroup_size_y = 3, .workgroup_size_z = 2,"
        " .grid_size_x = 0x10000, .grid_size_y = 6, .grid_size_z = 4,"
        " .private_segment_size = 0x120, .group_segment_size = 0x8000,"
        f" .kernel_object = {CODE & ~63:#x}, .kernarg_address = (void *){MEMORY:#x},"
        f" .completion_signal.handle = {MEMORY + 64:#x}}}",
        "hsa_kernel_dispatch_packet_t",
    ),
    Golden(
        "kernel_dispatch_1d",
        lambda: aql.kernel_dispatch(
            workgroup_size=(256,),
            grid_size=(1000,),
            kernel_object=0x1000,
            barrier=0,
            acquire=aql.FenceScope.AGENT,
            release=aql.FenceScope.NONE,
        ),
        "hsa.h",
        "{.header = HSA_PACKET_TYPE_KERNEL_DISPATCH"
        " | HSA_FENCE_SCOPE_AGENT << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE, .setup = 1,"
        " .workgroup_size_x = 256, .workgroup_size_y = 1, .workgroup_size_z = 1,"
        " .grid_size_x = 1000, .grid_size_y = 1, .grid_size_z = 1, .kernel_object = 0x1000}",
        "hsa_kernel_dispatch_packet_t",
    ),
    Golden(
        "barrier_and",
        lambda: aql.barrier_and(
            dep_signals=[0x100, 0x200, 0x300, 0x400, MEMORY], completion_signal=CODE
        ),
        "hsa.h",
        f"{{.header = HSA_PACKET_TYPE_BARRIER_AND{_SYSTEM}, .dep_signal = {{{{0x100}}, {{0x200}},"
        f" {{0x300}}, {{0x400}}, {{{MEMORY:#x}}}}}, .completion_signal.handle = {CODE:#x}}}",
        "hsa_barrier_and_packet_t",
    ),
    Golden(
        "barrier_or",
        lambda: aql.barrier_or(dep_signals=[MEMORY]),
        "hsa.h",
        f"{{.header = HSA_PACKET_TYPE_BARRIER_OR{_SYSTEM}, .dep_signal = {{{{{MEMORY:#x}}}}}}}",
        "hsa_barrier_or_packet_t",
    ),
    Golden(
        "barrier_value",
        lambda: aql.barrier_value(
            signal=MEMORY, value=0x123456789, mask=0xFFFFFFFFFF, cond=aql.Condition.LT
        ),
        "hsa_ext_amd.h",
        f"{{.header = {{HSA_PACKET_TYPE_VENDOR_SPECIFIC{_SYSTEM},"
        f" HSA_AMD_PACKET_TYPE_BARRIER_VALUE}}, .signal.handle = {MEMORY:#x},"
        " .value = 0x123456789, .mask = 0xffffffffff, .cond = HSA_SIGNAL_CONDITION_LT}",
        "hsa_amd_barrier_value_packet_t",
    ),
    Golden(
        # src: ROCR-Runtime amd_aql_queue.cpp, AqlQueue::ExecutePM4
        "pm4_ib",
        lambda: aql.pm4_ib(ib_base=MEMORY, ib_size=0x123, completion_signal=CODE),
        "hsa.h",
        f"{{.header = HSA_PACKET_TYPE_VENDOR_SPECIFIC{_SYSTEM}, .ven_hdr = 1,"
        f" .ib_jump_cmd = {{0xc0023f00, {LO}, {HI}, 1 << 23 | 0x123}}, .dw_cnt_remain = 0xA,"
        f" .completion_signal.handle = {CODE:#x}}}",
        _PM4_IB,
    ),
    Golden(
        "invalid",
        lambda: aql.invalid(),
        "hsa.h",
        "{.header = HSA_PACKET_TYPE_INVALID}",
        "hsa_kernel_dispatch_packet_t",
    ),
]

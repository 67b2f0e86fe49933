"""Registers that amdgpu accesses on gfx12 alone and no board models: see unmodelled.py."""

from __future__ import annotations

from tests.vm.unmodelled import Unmodelled

_PIXELS = "a default of the colour and depth blocks, which no board has"
_AGGREGATED = (
    "the doorbells of all queues of a priority, and reports of doorbells whose queue has no place: "
    "the board's scheduler hears the queue's own doorbell, whether or not these are enabled"
)
GFX12 = (
    Unmodelled("MMHUB[0].DAGB1_CNTL_MISC2", "read|write",
               "clock gating of the memory hub, which changes neither results nor registers",
               "mmhub_v4_1_0.c mmhub_v4_1_0_update_medium_grain_clock_gating()"),
    Unmodelled("GC[0].DB_MEM_CONFIG", "read|write", _PIXELS,
               "gfx_v12_0.c golden_settings_gc_12_0, golden_settings_gc_12_0_rev0"),
    Unmodelled("GC[0].CB_HW_CONTROL_1", "read|write", _PIXELS,
               "gfx_v12_0.c golden_settings_gc_12_0_rev0"),
    Unmodelled("GC[0].CP_UNMAPPED_DOORBELL", "read|write", _AGGREGATED,
               "mes_v12_0.c mes_v12_0_enable_unmapped_doorbell_handling()"),
    *(
        Unmodelled(f"GC[0].CP_MES_DOORBELL_CONTROL{number}", "read|write", _AGGREGATED,
                   "mes_v12_0.c mes_v12_0_init_aggregated_doorbell()")
        for number in range(1, 6)
    ),
)  # fmt: skip

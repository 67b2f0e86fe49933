"""PM4 packets: the vendor's words, a captured stream, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import numpy as np
import pytest

from drivers.base.errors import BadArgument, Unsupported
from queues.amd import pm4
from queues.amd.pm4_layouts import FLAVOURS
from tests.packet_golden import Golden
from tests.packet_golden_pm4 import PM4
from tests.support import check

GFX9, GFX11 = pm4.flavour_of("gfx942"), pm4.flavour_of("gfx1100")
SIGNAL = 0x7F00_0000_1000


@pytest.mark.parametrize("golden", PM4, ids=lambda golden: golden.name)
def test_words_of_the_vendors_macros(golden: Golden) -> None:
    np.testing.assert_equal(" ".join(f"{word:08x}" for word in golden.encode()), golden.words)


def test_captured_launch() -> None:
    # Captured from a driver that is known to run on gfx1100 silicon (tinygrad a9069c177a), except
    # the size of ACQUIRE_MEM: it sets 8 reserved bits there, the kernel's driver does not.
    stream = [
        *pm4.wait_mem(addr=SIGNAL, reference=3),
        *pm4.write_wait_reg(write_reg=0xE26, poll_reg=0xE27),
        *pm4.acquire_mem(GFX11, caches=GFX11.acquire_all, poll_interval=0),
        *pm4.acquire_mem(GFX11, caches=GFX11.acquire_data, poll_interval=0),
        *pm4.set_sh_reg(reg=0x2E0C, values=[0x11, 0]),
        *pm4.dispatch_direct(dim_x=4, dim_y=2, dim_z=1, dispatch_initiator=0x8005),
        *pm4.event_write(),
        *pm4.release_mem(
            GFX11,
            addr=SIGNAL,
            data=4,
            data_sel=pm4.DataSel.SEND_32_BIT_LOW,
            caches=GFX11.release_all,
        ),
    ]
    captured = """
        c0053c00 00000015 00001000 00007f00 00000003 ffffffff 00000004
        c0053c00 00000045 00000e26 00000e27 ffffffff ffffffff 00000004
        c0065800 00000000 ffffffff 00ffffff 00000000 00000000 00000000 0000c3f1
        c0065800 00000000 ffffffff 00ffffff 00000000 00000000 00000000 000003f0
        c0027600 0000020c 00000011 00000000
        c0031500 00000004 00000002 00000001 00008005
        c0004600 00000407
        c0064900 0070f514 20000000 00001000 00007f00 00000004 00000000 00000000
    """
    np.testing.assert_equal([f"{word:08x}" for word in stream], captured.split())


def test_performance_counters_are_read_as_captured() -> None:
    words = pm4.copy_data(
        src_sel=pm4.CopySrc.PERFCOUNTERS,
        dst_sel=pm4.CopyDst.TC_L2,
        src=0xD1C0,
        dst=SIGNAL,
        wr_confirm=0,
    )
    np.testing.assert_equal(words, [0xC0044000, 0x204, 0xD1C0, 0, 0x1000, 0x7F00])


def test_immediates_and_clocks_are_copied() -> None:
    memory = pm4.CopyDst.MEMORY
    words = pm4.copy_data(
        src_sel=pm4.CopySrc.IMMEDIATE_DATA, dst_sel=memory, src=0x100000002, dst=8, count_sel=1
    )
    np.testing.assert_equal(words, [0xC0044000, 0x110505, 2, 1, 8, 0])
    clock = pm4.CopySrc.GPU_CLOCK_COUNT
    words = pm4.copy_data(src_sel=clock, dst_sel=memory, dst=8, count_sel=1)
    np.testing.assert_equal(words, [0xC0044000, 0x110509, 0, 0, 8, 0])
    with pytest.raises(BadArgument):
        pm4.copy_data(src_sel=clock, dst_sel=memory, src=4, dst=8)


def test_glk_controls_of_release_mem_came_with_gfx11() -> None:
    # src: Mesa src/amd/registers/pkt3.json, RELEASE_MEM_OP_gfx11; cp_pm4_table_data_gfx12.json
    for chip in ("gfx1100", "gfx1201"):
        words = pm4.release_mem(pm4.flavour_of(chip), caches={"glk_wb": 1, "glk_inv": 1})
        np.testing.assert_equal(words[1], 0x514 | 1 << 24 | 1 << 30)
    for chip in ("gfx942", "gfx1030"):
        with pytest.raises(BadArgument):
            pm4.release_mem(pm4.flavour_of(chip), caches={"glk_wb": 1})


def test_only_gfx9_has_pred_exec() -> None:
    for (major, _), flavour in FLAVOURS.items():
        if major > 9:
            with pytest.raises(Unsupported):
                pm4.pred_exec(flavour, virtual_xcc_id_select=1, exec_count=1)
        else:
            check(pm4.pred_exec(flavour, virtual_xcc_id_select=1, exec_count=1))


def test_lengths_of_nops() -> None:
    for words in (1, 2, 3, 100, 0x3FFF):
        packet = pm4.nop(words=words)
        np.testing.assert_equal(len(packet), words)
        check(packet[0] >> 16 & 0x3FFF == (words - 2 if words > 1 else 0x3FFF), "count")


ENUMS = {
    # src: Linux 6.12 drivers/gpu/drm/amd/include/soc21_enum.h, TC_OP_ATOMIC_* and VGT_EVENT_TYPE
    pm4.Atomic: {
        "SWAP_RTN_32": 7, "CMPSWAP_RTN_32": 8, "ADD_RTN_32": 15, "SUB_RTN_32": 16,
        "AND_RTN_32": 21, "OR_RTN_32": 22, "XOR_RTN_32": 23,
        "SWAP_RTN_64": 39, "CMPSWAP_RTN_64": 40, "ADD_RTN_64": 47, "SUB_RTN_64": 48,
        "AND_RTN_64": 53, "OR_RTN_64": 54, "XOR_RTN_64": 55,
    },
    pm4.EventType: {
        "CS_PARTIAL_FLUSH": 7, "CACHE_FLUSH_AND_INV_TS_EVENT": 20, "BOTTOM_OF_PIPE_TS": 40,
        "THREAD_TRACE_MARKER": 53, "THREAD_TRACE_FINISH": 55,
    },
    # src: nvd.h, comments of WAIT_REG_MEM_FUNCTION, _OPERATION, RELEASE_MEM_DATA_SEL, _INT_SEL
    pm4.Compare: {"ALWAYS": 0, "LT": 1, "LE": 2, "EQ": 3, "NE": 4, "GE": 5, "GT": 6},
    pm4.MemSpace: {"REGISTER": 0, "MEMORY": 1},
    pm4.DataSel: {
        "NONE": 0, "SEND_32_BIT_LOW": 1, "SEND_64_BIT_DATA": 2, "SEND_GPU_CLOCK_COUNTER": 3,
        "SEND_SYSTEM_CLOCK_COUNTER": 4,
    },
    # src: Mesa src/amd/packets/cp_pm4_table_data_gfx11.json, engine mec
    pm4.WaitOperation: {"WAIT_REG_MEM": 0, "WR_WAIT_WR_REG": 1, "WAIT_MEM_PREEMPTABLE": 3},
    pm4.IntSel: {
        "NONE": 0, "SEND_INTERRUPT_ONLY": 1, "SEND_INTERRUPT_AFTER_WRITE_CONFIRM": 2,
        "SEND_DATA_AFTER_WRITE_CONFIRM": 3,
    },
    pm4.WriteDst: {"MEM_MAPPED_REGISTER": 0, "TC_L2": 2, "MEMORY": 5},
    pm4.CopyDst: {"MEM_MAPPED_REGISTER": 0, "TC_L2": 2, "PERFCOUNTERS": 4, "MEMORY": 5},
    pm4.CopySrc: {
        "MEM_MAPPED_REGISTER": 0, "MEMORY": 1, "TC_L2": 2, "PERFCOUNTERS": 4,
        "IMMEDIATE_DATA": 5, "ATOMIC_RETURN_DATA": 6, "GPU_CLOCK_COUNT": 9,
        "SYSTEM_CLOCK_COUNT": 10,
    },
    pm4.CachePolicy: {"LRU": 0, "STREAM": 1, "NOA": 2, "BYPASS": 3},
    pm4.AtomicCommand: {
        "SINGLE_PASS_ATOMIC": 0, "LOOP_UNTIL_COMPARE_SATISFIED": 1,
        "WAIT_FOR_WRITE_CONFIRMATION": 2, "SEND_AND_CONTINUE": 3,
    },
}  # fmt: skip


@pytest.mark.parametrize("enum", ENUMS, ids=lambda enum: enum.__name__)
def test_values_of_fields(enum: type[IntEnum]) -> None:
    np.testing.assert_equal({one.name: one.value for one in enum}, ENUMS[enum])


REFUSED: dict[str, Callable[[], object]] = {
    "nop of nothing": lambda: pm4.nop(words=0),
    "nop too long": lambda: pm4.nop(words=0x4000),
    "dimension": lambda: pm4.dispatch_direct(dim_x=1 << 32, dim_y=1, dim_z=1, dispatch_initiator=5),
    "negative": lambda: pm4.dispatch_direct(dim_x=-1, dim_y=1, dim_z=1, dispatch_initiator=5),
    "odd address": lambda: pm4.wait_mem(addr=2, reference=1),
    "wide reference": lambda: pm4.wait_mem(addr=4, reference=1 << 32),
    "interval": lambda: pm4.wait_mem(addr=4, reference=1, poll_interval=1 << 16),
    "register": lambda: pm4.wait_reg(reg=1 << 18, reference=1),
    "ib address": lambda: pm4.indirect_buffer(ib_base=1 << 48, ib_size=1),
    "ib alignment": lambda: pm4.indirect_buffer(ib_base=2, ib_size=1),
    "ib size": lambda: pm4.indirect_buffer(ib_base=0, ib_size=1 << 20),
    "ib vmid": lambda: pm4.indirect_buffer(ib_base=0, ib_size=1, vmid=16),
    "no data": lambda: pm4.write_data(dst=4, data=[]),
    "wide data": lambda: pm4.write_data(dst=4, data=[1 << 32]),
    "much data": lambda: pm4.write_data(dst=4, data=[0] * 0x3FFD),
    "atomic alignment": lambda: pm4.atomic_mem(atomic=pm4.Atomic.ADD_RTN_64, addr=4, src_data=1),
    "fence alignment": lambda: pm4.release_mem(
        GFX11, addr=4, data_sel=pm4.DataSel.SEND_64_BIT_DATA
    ),
    "context": lambda: pm4.release_mem(GFX11, int_ctxid=1 << 32),
    "cache of another family": lambda: pm4.acquire_mem(GFX9, caches={"gl2_inv": 1}),
    "cache field": lambda: pm4.acquire_mem(GFX11, caches={"gl2_inv": 2}),
    "below shader registers": lambda: pm4.set_sh_reg(reg=0x2BFF, values=[1]),
    "beyond shader registers": lambda: pm4.set_sh_reg(reg=0x2FFF, values=[1, 2]),
    "no registers": lambda: pm4.set_sh_reg(reg=0x2E00, values=[]),
    "beyond uconfig registers": lambda: pm4.set_uconfig_reg(reg=0x10000, values=[1]),
    "xcc mask": lambda: pm4.pred_exec(GFX9, virtual_xcc_id_select=256, exec_count=1),
    "predicated words": lambda: pm4.pred_exec(GFX9, virtual_xcc_id_select=1, exec_count=1 << 14),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(BadArgument):
        call()

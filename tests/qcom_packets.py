"""Adreno's packets with words from elsewhere: Mesa's computerator and its register files.

Headers are what Mesa's pm4_pkt4_hdr() and pm4_pkt7_hdr() give (compiled in tests/abi where Mesa's
source is); the words behind them follow adreno_pm4.xml.
"""

from __future__ import annotations

from queues.qcom import pm4, words
from queues.qcom.chips import chip_named

VA = 0x7F12_3456_7890
LOW, HIGH = 0x34567890, 0x7F12
A6, A7 = chip_named("a630"), chip_named("x1-85")
GOLDEN: dict[str, tuple[list[int], list[int]]] = {
    # name -> (what this stack writes, the words)
    "WAIT_FOR_IDLE": (pm4.wait_for_idle(), [0x70268000]),
    "EXEC_CS": (pm4.exec_cs((7, 8, 9)), [0x70B30004, 0, 7, 8, 9]),
    "SET_MARKER": (pm4.set_marker(8), [0x70E50001, 8]),
    "NOP": (pm4.pkt7(pm4.Op.NOP), [0x70108000]),
    "EVENT_WRITE": (pm4.event(pm4.Event.CACHE_INVALIDATE), [0x70460001, 0x31]),
    "EVENT_WRITE with a value": (
        words.release(A6, va=VA, value=5), [0x70460004, 4, LOW, HIGH, 5],
    ),
    "EVENT_WRITE with the time": (
        words.timestamp(A6, va=VA), [0x70460004, 0x40000016, LOW, HIGH, 0],
    ),
    "EVENT_WRITE7 with a value": (
        words.release(A7, va=VA, value=5), [0x70460004, 0x08000031, LOW, HIGH, 5],
    ),
    "EVENT_WRITE7 with the time": (
        words.timestamp(A7, va=VA), [0x70468003, 0x08300016, LOW, HIGH],
    ),
    "WAIT_REG_MEM": (
        pm4.wait_memory(VA, 9), [0x70BC8006, 0x15, LOW, HIGH, 9, 0xFFFFFFFF, 16],
    ),
    "MEMCPY": (pm4.memcpy(VA + 64, VA, 16), [0x70758005, 16, LOW, HIGH, LOW + 64, HIGH]),
    "LOAD_STATE6 of code": (
        pm4.load_state(pm4.StateBlock.CS_SHADER, pm4.StateType.SHADER, first=0, units=2, va=VA),
        [0x70348003, 2 << 22 | 13 << 18 | 2 << 16, LOW, HIGH],
    ),
    "LOAD_STATE6 of constants": (
        pm4.load_state(
            pm4.StateBlock.CS_SHADER, pm4.StateType.CONSTANTS, first=3, units=1, words=[1, 2, 3, 4]
        ),
        [0x70340007, 1 << 22 | 13 << 18 | 1 << 14 | 3, 0, 0, 1, 2, 3, 4],
    ),
    "HLSQ_INVALIDATE_CMD": (words.write(A6, "HLSQ_INVALIDATE_CMD", 0x60), [0x40BB0801, 0x60]),
    "SP_CS_CTRL_REG0": (words.write(A6, "SP_CS_CTRL_REG0", 1, 2), [0x40A9B002, 1, 2]),
    "HLSQ_CS_NDRANGE_0 of generation 7": (
        words.write(A7, "HLSQ_CS_NDRANGE_0", *range(7)), [0x48A9D407, *range(7)],
    ),
}  # fmt: skip
STREAMS = {
    "a630": [made for name, (made, _) in GOLDEN.items() if "7" not in name],
    "x1-85": [made for name, (made, _) in GOLDEN.items() if "HLSQ_INV" not in name],
}
"""Packets of a dump, by chip."""

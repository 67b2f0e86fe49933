"""Every declared field of every packet lies on the bits that the vendor's tables name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from queues.amd import aql, pm4, sdma
from queues.packet_layout import WORD_MAX, Field, WordLayout
from tests.support import check

DATA = Path(__file__).parents[1] / "data"
PM4 = json.loads((DATA / "amd_pm4_fields.json").read_text())
SOC15 = json.loads((DATA / "amd_cache_controls.json").read_text())["soc15"]
SDMA = json.loads((DATA / "amd_sdma_fields.json").read_text())
HEADERS = {
    "gfx942": "vega10_sdma_pkt_open.h",
    "gfx1030": "navi10_sdma_pkt_open.h",
    "gfx1100": "sdma_v6_0_0_pkt_open.h",
    "gfx1201": "sdma_v6_0_0_pkt_open.h",
}
Bits = dict[int, int]
"""Bits by word."""


def bits(field: Field) -> Bits:
    """The whole words of an address count, although its lowest bits are always zero."""
    return dict(field.pieces((1 << field.width) - 1))


def ones(low: int, high: int) -> int:
    return (1 << high + 1) - (1 << low)


def joined(parts: dict[str, Bits]) -> dict[str, Bits]:
    """Halves named `x_lo` and `x_hi`, or `x_31_0` and `x_63_32`, become x."""
    whole: dict[str, Bits] = {}
    for name, part in parts.items():
        base = re.sub(r"_(lo|hi|\d+_\d+)$", "", name)
        for word, mask in part.items():
            whole.setdefault(base, {})
            whole[base][word] = whole[base].get(word, 0) | mask
    return whole


def same(field: Field, expected: Bits) -> bool:
    """Equal, but for low bits that an alignment keeps zero and a table may call reserved."""
    whole, needed = bits(field), dict(field.masks)
    return whole.keys() == expected.keys() and all(
        needed[word] & ~mask == 0 and mask & ~whole[word] == 0 for word, mask in expected.items()
    )


MEC_LEFT_OUT = {
    "EVENT_WRITE": {"samp_plst_cntr_mode"},
    "INDIRECT_BUFFER": {"inherit_vmid", "priv"},
    "RELEASE_MEM": {"wait_sync", "mes_intr_pipe", "mes_action_id", "add_doorbell_offset"},
    "WAIT_REG_MEM": {"mes_intr_pipe", "mes_action"},
}
GCR_FIELDS = {"ACQUIRE_MEM": "GCR_CNTL", "RELEASE_MEM": "RELEASE_MEM_OP_gfx11"}


@pytest.mark.parametrize("name", PM4["mec"])
def test_pm4_fields_of_the_micro_engine(name: str) -> None:
    parts = {
        field: {word: ones(low, high)} for field, (word, low, high) in PM4["mec"][name].items()
    }
    expected = joined(parts)
    gcr_word, gcr_mask = next(iter(expected.pop("gcr_cntl", {0: 0}).items()))
    layout = pm4.flavour_of("gfx1100").layout(name)
    for left_out in MEC_LEFT_OUT.get(name, ()):
        del expected[left_out]
    if name == "INDIRECT_BUFFER":
        expected["ib_base"] = {1: WORD_MAX, 2: 0xFFFF}  # 48-bit addresses: see the declaration
    if gcr_mask:
        for field, (_, low, high) in PM4["gcr"][GCR_FIELDS[name]].items():
            check(ones(low, high) & ~gcr_mask == 0, f"{field} is one of gcr_cntl's")
            expected[field] = {gcr_word: ones(low, high)}
    fields = [field for field in layout.fields if field.word]
    np.testing.assert_equal({field.name for field in fields}, set(expected))
    for field in fields:
        check(same(field, expected[field.name]), f"{name}.{field.name}")


def test_pm4_cache_controls_of_gfx10() -> None:
    layout = pm4.flavour_of("gfx1030").layout("RELEASE_MEM")
    declared = {field.name: bits(field) for field in layout.fields}
    for name, (_, low, high) in PM4["gcr"]["RELEASE_MEM_OP"].items():
        np.testing.assert_equal(declared.pop(name), {1: ones(low, high)})
    check(not [name for name in declared if name.startswith("gl")], "no more than that")


@pytest.mark.parametrize("name", SOC15)
def test_pm4_cache_controls_of_gfx9(name: str) -> None:
    declared = {
        f.name: bits(f) for f in pm4.flavour_of("gfx942").layout(name).fields if f.word == 1
    }
    found = {}
    for label, bit in SOC15[name].items():
        field = {"exec": "eop_exec"}.get(label, label.removesuffix("_en"))
        field = f"{field}_ena" if label.endswith("_action_en") else field
        found[field] = declared.pop(field)
        np.testing.assert_equal(found[field], {1: 1 << bit}, field)
    # src: pm4_pkt_struct_ai.h and _common.h: tc_wc_action_ena, and the rest of the word.
    rest = {
        "RELEASE_MEM": {"event_type": 0x3F, "event_index": 0xF00, "tc_wc_action_ena": 1 << 20,
                        "cache_policy": 3 << 25},
        "ACQUIRE_MEM": {"engine_sel": 1 << 31},
    }  # fmt: skip
    np.testing.assert_equal(declared, {field: {1: mask} for field, mask in rest[name].items()})


def test_pm4_fields_without_a_table() -> None:
    # src: ROCR-Runtime amd_gpu_pm4.h, PM4_PRED_EXEC_DW2_*; SET_UCONFIG_REG is SET_SH_REG's twin.
    declared = {
        f.name: bits(f) for f in pm4.flavour_of("gfx942").layout("PRED_EXEC").fields if f.word
    }
    expected = {"exec_count": {1: 0x3FFF}, "virtual_xcc_id_select": {1: 0xFF000000}}
    np.testing.assert_equal(declared, expected)
    flavour = pm4.flavour_of("gfx1201")
    check(flavour.layout("SET_UCONFIG_REG").words == flavour.layout("SET_SH_REG").words)


def sdma_differences(chip: str, name: str, expected: dict[str, Bits]) -> None:
    """Where another source is followed than the kernel's header, with that source."""
    if (chip, name) == ("gfx1030", "COPY_LINEAR"):
        # src: ROCR-Runtime amd_gpu_agent.cpp copy_size_overrides; Mesa ac_emit_sdma_copy_linear
        expected["count"] = {1: ones(0, 29)}
    if (chip, name) == ("gfx1201", "COPY_LINEAR"):
        del expected["cpv"]  # src: sdma_v7_0_emit_copy_buffer: one word longer with it
    if (chip, name) == ("gfx1201", "CONST_FILL"):
        del expected["sw"]  # src: sdma_v7_0.c SDMA_PKT_CONSTANT_FILL_HEADER_compress_{mask,shift}
        expected["compress"] = {0: 1 << 16}
    if name == "TIMESTAMP":
        expected["addr"] = expected.pop("write_addr")


@pytest.mark.parametrize("chip", HEADERS)
def test_sdma_fields(chip: str) -> None:
    engine, table = sdma.engine_of(chip), SDMA[HEADERS[chip]]
    np.testing.assert_equal(set(engine.packets), set(table))
    for name, parts in table.items():
        expected = joined({field: {word: mask} for field, (word, mask) in parts.items()})
        sdma_differences(chip, name, expected)
        layout = engine.layout(name)
        declared = {field.name: field for field in layout.fields}
        controls = expected.pop("gcr_control", None)
        if controls is not None:
            # Bit n of GCR_CNTL is bit 16 + n from word 2 on.
            for field, (_, low, high) in PM4["gcr"]["GCR_CNTL"].items():
                part = declared.pop(field)
                place = 2 * 32 + 16 + low
                np.testing.assert_equal(
                    bits(part), {place // 32: ones(place % 32, place % 32 + high - low)}
                )
                check(bits(part)[place // 32] & ~controls[place // 32] == 0, field)
        np.testing.assert_equal(set(declared), set(expected), name)
        for field in declared.values():
            check(same(field, expected[field.name]), f"{name}.{field.name}")


# Byte offset and size. src: offsetof and sizeof with gcc, ROCR-Runtime hsa.h, hsa_ext_amd.h
_SIGNAL = {"completion_signal": (56, 8)}
AQL: dict[str, dict[str, tuple[int, int]]] = {
    "KERNEL_DISPATCH": {
        "workgroup_size_x": (4, 2), "workgroup_size_y": (6, 2), "workgroup_size_z": (8, 2),
        "grid_size_x": (12, 4), "grid_size_y": (16, 4), "grid_size_z": (20, 4),
        "private_segment_size": (24, 4), "group_segment_size": (28, 4),
        "kernel_object": (32, 8), "kernarg_address": (40, 8), **_SIGNAL,
    },
    "BARRIER_AND": {**{f"dep_signal{n}": (8 + 8 * n, 8) for n in range(5)}, **_SIGNAL},
    "BARRIER_OR": {**{f"dep_signal{n}": (8 + 8 * n, 8) for n in range(5)}, **_SIGNAL},
    "BARRIER_VALUE": {
        "signal": (8, 8), "value": (16, 8), "mask": (24, 8), "cond": (32, 4), **_SIGNAL,
    },
    "PM4_IB": {"ib_header": (4, 4), "dw_cnt_remain": (20, 4), **_SIGNAL},
    "INVALID": _SIGNAL,
}  # fmt: skip


def start_and_width(field: Field) -> tuple[int, int]:
    return 32 * field.word + field.lo, field.width


@pytest.mark.parametrize(
    "layout", [*aql.BY_TYPE.values(), *aql.BY_FORMAT.values()], ids=lambda x: x.name
)
def test_aql_fields(layout: WordLayout) -> None:
    expected = {name: (8 * at, 8 * size) for name, (at, size) in AQL[layout.name].items()}
    # src: hsa.h, HSA_PACKET_HEADER_* and HSA_PACKET_HEADER_WIDTH_*, SETUP_WIDTH_DIMENSIONS
    expected |= {"barrier": (8, 1), "acquire": (9, 2), "release": (11, 2)}
    if layout.name == "KERNEL_DISPATCH":
        expected["dimensions"] = (16, 2)
    declared = {field.name: start_and_width(field) for field in layout.fields}
    if layout.name == "PM4_IB":
        # The second to fourth word of an INDIRECT_BUFFER packet, one word further on.
        ib = pm4.flavour_of("gfx942").layout("INDIRECT_BUFFER")
        for field in ib.fields[2:]:
            at, width = start_and_width(field)
            np.testing.assert_equal(declared.pop(field.name), (at + 32, width), field.name)
    np.testing.assert_equal(declared, expected)

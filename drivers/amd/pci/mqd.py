"""The descriptor of a compute queue (MQD): 512 words, of which the hardware's registers are some.

Source: Linux 6.12, include/v9_structs.h, v11_structs.h, v12_structs.h; values:
kfd_mqd_manager_v9.c, kfd_mqd_manager_v11.c, kfd_mqd_manager_v12.c init_mqd(), update_mqd();
tinygrad ip.py setup_ring()
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Final

from drivers.amd.pci.queue_spec import QueueSpec
from drivers.bare.mmio import Block
from drivers.bare.registers import WORD_BITS, WORD_MASK

WORDS: Final = 512
STRIDE_BYTES: Final = 0x1000
"""Between the descriptors of one queue's XCCs."""
FIRST_REGISTER: Final = 0x80
"""The word that is CP_MQD_BASE_ADDR; from it on, words are registers."""
_HEADER: Final = 0xC031_0800

_SHARED: Final = {
    "header": 0x00, "compute_pipelinestat_enable": 0x0B,
    "compute_static_thread_mgmt_se0": 0x17, "compute_static_thread_mgmt_se1": 0x18,
    "compute_static_thread_mgmt_se2": 0x1A, "compute_static_thread_mgmt_se3": 0x1B,
    "cp_mqd_base_addr_lo": 0x80, "cp_mqd_base_addr_hi": 0x81, "cp_hqd_active": 0x82,
    "cp_hqd_vmid": 0x83, "cp_hqd_persistent_state": 0x84, "cp_hqd_pipe_priority": 0x85,
    "cp_hqd_queue_priority": 0x86, "cp_hqd_quantum": 0x87, "cp_hqd_pq_base_lo": 0x88,
    "cp_hqd_pq_base_hi": 0x89, "cp_hqd_pq_rptr": 0x8A, "cp_hqd_pq_rptr_report_addr_lo": 0x8B,
    "cp_hqd_pq_rptr_report_addr_hi": 0x8C, "cp_hqd_pq_wptr_poll_addr_lo": 0x8D,
    "cp_hqd_pq_wptr_poll_addr_hi": 0x8E, "cp_hqd_pq_doorbell_control": 0x8F,
    "cp_hqd_pq_control": 0x91, "cp_hqd_ib_control": 0x95, "cp_hqd_hq_status0": 0xA0,
    "cp_mqd_control": 0xA2, "cp_hqd_eop_base_addr_lo": 0xA5, "cp_hqd_eop_base_addr_hi": 0xA6,
    "cp_hqd_eop_control": 0xA7, "cp_hqd_eop_rptr": 0xA8, "cp_hqd_aql_control": 0xB5,
    "cp_hqd_pq_wptr_lo": 0xB6, "cp_hqd_pq_wptr_hi": 0xB7,
}  # fmt: skip
_ENGINES4: Final = {f"compute_static_thread_mgmt_se{se}": 0x2C + se - 4 for se in range(4, 8)}
LAYOUTS: Final[Mapping[int, Mapping[str, int]]] = {
    9: _SHARED | {
        "compute_current_logic_xcc_id": 0x27, "compute_tg_chunk_size": 0x29,
        "pm4_target_xcc_in_xcp": 0xE1, "cp_mqd_stride_size": 0xE2,
    },
    11: _SHARED | _ENGINES4,
    12: _SHARED | _ENGINES4 | {"compute_static_thread_mgmt_se8": 0x3B},
}  # fmt: skip
"""Where each word is, by the generation of the graphics core. On gfx9 the words of shader engines
4 to 7 are used for XCCs."""

# Values. # src: kfd_mqd_manager_v9.c, v11.c
_PRELOAD: Final = {9: 0x53, 11: 0x55, 12: 0x55}
_RPTR_BLOCK: Final = 5
_MIN_IB: Final = 3
_DISPATCH_POINTER: Final = 1 << 14
"""HQ_STATUS0: the CP keeps a dispatch pointer."""
_MOST_EOP: Final = 0xA
_PIPE_PRIORITY, _QUEUE_PRIORITY = 2, 15
_ALL_CUS: Final = 0xFFFF_FFFF
_SLOT_BASED: Final = 2
_DOORBELL_DWORDS: Final = 2


def _size(nbytes: int) -> int:
    """A ring's size as fields count it: 2^(this + 1) dwords."""
    return (nbytes // 4).bit_length() - 2


def _queue_control(gc: Block, major: int, spec: QueueSpec, master: bool, single: bool) -> int:
    fields = {"rptr_block_size": _RPTR_BLOCK, "unord_dispatch": 1,
              "queue_size": _size(spec.ring_bytes)}  # fmt: skip
    if spec.kind == "AQL":
        # one of several XCCs reports for all of them: init_mqd_v9_4_3()
        fields |= {"slot_based_wptr": _SLOT_BASED, "queue_full_en": 1,
                   "no_update_rptr": int(single or not master)}  # fmt: skip
        fields |= {"wpp_clamp_en": 1} if major == 9 else {}
    return gc.encode("CP_HQD_PQ_CONTROL", **fields)


def _pair(name: str, value: int) -> dict[str, int]:
    return {f"{name}_lo": value & WORD_MASK, f"{name}_hi": value >> WORD_BITS}


def _several(spec: QueueSpec, xcc: int, xccs: int) -> dict[str, int]:
    """How the XCCs of gfx942 share a queue. # src: init_mqd_v9_4_3()"""
    if xccs == 1:
        return {}
    shared = {"cp_mqd_stride_size": STRIDE_BYTES}
    if spec.kind != "AQL":
        return shared
    return shared | {"compute_tg_chunk_size": 1, "compute_current_logic_xcc_id": xcc}


def words(gc: Block, major: int, spec: QueueSpec, mqd_mc: int, xcc: int = 0,
          xccs: int = 1) -> array[int]:  # fmt: skip
    """The descriptor at `mqd_mc`, for the `xcc`th of so many graphics cores."""
    layout = LAYOUTS[major]
    fields = {
        "header": _HEADER,
        "compute_pipelinestat_enable": 1,
        **{name: _ALL_CUS for name in layout if "static_thread_mgmt" in name},
        **_pair("cp_mqd_base_addr", mqd_mc),
        "cp_hqd_vmid": spec.vmid,
        "cp_hqd_persistent_state": gc.encode(
            "CP_HQD_PERSISTENT_STATE", preload_req=1, preload_size=_PRELOAD[major]
        ),
        "cp_hqd_pipe_priority": _PIPE_PRIORITY,
        "cp_hqd_queue_priority": _QUEUE_PRIORITY,
        "cp_hqd_quantum": gc.encode(
            "CP_HQD_QUANTUM", quantum_en=1, quantum_scale=1, quantum_duration=1
        ),
        **_pair("cp_hqd_pq_base", spec.ring_va >> 8),
        **_pair("cp_hqd_pq_rptr_report_addr", spec.read_va),
        **_pair("cp_hqd_pq_wptr_poll_addr", spec.write_va),
        "cp_hqd_pq_doorbell_control": gc.encode(
            "CP_HQD_PQ_DOORBELL_CONTROL", doorbell_offset=spec.doorbell * _DOORBELL_DWORDS,
            doorbell_en=1,
        ),
        "cp_hqd_pq_control": _queue_control(gc, major, spec, xcc == 0, xccs == 1),
        "cp_hqd_ib_control": gc.encode("CP_HQD_IB_CONTROL", min_ib_avail_size=_MIN_IB),
        "cp_hqd_hq_status0": _DISPATCH_POINTER,
        "cp_mqd_control": gc.encode("CP_MQD_CONTROL", priv_state=1),
        **_pair("cp_hqd_eop_base_addr", spec.eop_va >> 8),
        "cp_hqd_eop_control": gc.encode(
            "CP_HQD_EOP_CONTROL", eop_size=min(_MOST_EOP, _size(spec.eop_bytes))
        ),
        "cp_hqd_aql_control": gc.encode("CP_HQD_AQL_CONTROL", control0=int(spec.kind == "AQL")),
        **_several(spec, xcc, xccs),
    }  # fmt: skip
    found = array("I", bytes(4 * WORDS))
    for name, value in fields.items():
        found[layout[name]] = value
    return found

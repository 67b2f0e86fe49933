"""Values that blocks of a bare GPU are given, and what their words mean.

Expected values: a trace of a driver that is known to run, structures of the kernel's headers, and
interrupts and fault registers written down by hand from them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from drivers.amd.pci import compute_queue, copy_queue, fault, ih, mqd, sdma
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.ih import Cause
from drivers.amd.pci.queue_spec import QueueSpec
from drivers.amd.pci.registers import load
from drivers.gpu.incident import PageFault
from tests.amd_pci_bench import PAGE, Process, bring_up, identified, make_board
from tests.support import check

GC = {9: (9, 4, 3), 11: (11, 0, 0), 12: (12, 0, 1)}
# Of the boot of tinygrad's driver on a software model, by the vendor's name without its prefix;
# but bit 11 of L2_CNTL, which says that the default page of faults is on the bus: ours is VRAM.
HUB = {
    "MC_VM_AGP_BASE": 0, "MC_VM_AGP_BOT": 0xFFFFFF, "MC_VM_AGP_TOP": 0,
    "VM_L2_PROTECTION_FAULT_CNTL2": 0x40000, "MC_VM_MX_L1_TLB_CNTL": 0x1859, "VM_L2_CNTL": 0x80001,
    "VM_L2_CNTL2": 3, "VM_L2_CNTL3": 0x80130009, "VM_L2_CNTL4": 1, "VM_L2_CNTL5": 0x3FE0,
    "VM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_LO32": 0xFFFFFFFF,
    "VM_L2_CONTEXT1_IDENTITY_APERTURE_LOW_ADDR_HI32": 0xF,
    "VM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_LO32": 0,
    "VM_L2_CONTEXT1_IDENTITY_APERTURE_HIGH_ADDR_HI32": 0,
    "VM_INVALIDATE_ENG0_ADDR_RANGE_LO32": 0xFFFFFFFF, "VM_INVALIDATE_ENG0_ADDR_RANGE_HI32": 0x1F,
    "VM_INVALIDATE_ENG17_ADDR_RANGE_LO32": 0xFFFFFFFF, "VM_INVALIDATE_ENG17_ADDR_RANGE_HI32": 0x1F,
}  # fmt: skip
HUB9 = {**HUB, "VM_L2_CNTL": 0x80003, "VM_L2_CNTL3": 0x8014800C}
CONTEXT = {"gfx1100": 0x7FFE07, "gfx1201": 0xFFFC07, "gfx942": 0x7FFE4D}
"""CONTEXTn_CNTL of a process. The trace has two more bits, which are the secure faults of other
hubs, reserved in the header of this one."""
FLUSH = {"gfx1100": 0xFA0100, "gfx1201": 0xFA0100, "gfx942": 0x7E0100}
"""INVALIDATE_REQ of VMID 8, heavy: the trace's 0xf80001 with another VMID and FLUSH_TYPE 2."""


def _last_writes(name: str) -> tuple[Any, Any, dict[str, int]]:
    board = make_board(name)
    gpu = identified(board)
    seen: dict[str, int] = {}

    def note(access: Any) -> None:
        if access.op == "W":
            seen[access.name] = access.value

    gpu.mmio.bus.trace = note
    bring_up(gpu)
    return board, gpu, seen


def _check_values(seen: Mapping[str, int], label: str, registers: Any, values: Mapping[str, int]
                  ) -> None:  # fmt: skip
    for role, value in values.items():
        if role == "VM_L2_CNTL5" and registers.name.startswith(("gc_9", "mmhub_1")):
            continue
        name = f"{label}.{registers.get(role).name}"
        check(seen[name] == value, f"{name} is {seen[name]:#x}, not {value:#x}")


@pytest.mark.parametrize("name", ["gfx1100", "gfx1201", "gfx942"])
def test_values_of_a_driver_that_runs(name: str) -> None:
    board, gpu, seen = _last_writes(name)
    values = HUB9 if name == "gfx942" else HUB
    for hw in (HwId.MMHUB, HwId.GC):
        for at in gpu.ips.instances(hw):
            block = gpu.block(hw, at)
            _check_values(seen, block.label, block.registers, values)
    check(seen["GC.SH_MEM_CONFIG"] == (0x1118 if name == "gfx942" else 0xC00C))
    check(seen["GC.SH_MEM_BASES"] == 0x10002 and seen["GC.RLC_CNTL"] == 1)
    check(
        seen["GC.CP_MEC_DOORBELL_RANGE_LOWER"] == 0
        and seen["GC.CP_MEC_DOORBELL_RANGE_UPPER"] == 0xF8
    )
    # src: gc_11_0_0_sh_mask.h, gc_9_4_3_sh_mask.h: time stamps, bad opcodes, privileged registers
    check(seen["GC.CP_ME1_PIPE0_INT_CNTL"] == 1 << 26 | 1 << 24 | 1 << 23)
    check(seen["GC.GRBM_CNTL"] & 0xFF == 0xFF, "read timeout")
    # src: gfx_v9_4_3.c GOLDEN_GB_ADDR_CONFIG; gfx_v11_0.c golden_settings_gc_11_0; gfx_v12_0.c has
    # neither: bit 29 of its TCP_CNTL is reserved
    golden = {"gfx942": {"GC.GB_ADDR_CONFIG": 0x2A114042}, "gfx1100": {"GC.TCP_CNTL": 0x20000000}}
    for register in ("GC.GB_ADDR_CONFIG", "GC.TCP_CNTL"):
        check(seen.get(register) == golden.get(name, {}).get(register), register)
    trap = seen["SDMA0.SDMA_CNTL" if name == "gfx942" else "GC.SDMA0_CNTL"]
    check(trap & 1, "trap_enable")  # src: SDMA0_CNTL__TRAP_ENABLE_MASK
    if name == "gfx942":  # src: gfx_v9_4_3_xcc_kiq_init_register(): 32 doorbells for each XCC
        check(seen["GC7.CP_MEC_DOORBELL_RANGE_LOWER"] == 0x700)
        check(seen["GC7.CP_MEC_DOORBELL_RANGE_UPPER"] == 0x7F8)
    else:
        check(seen["GC.CP_MEC_RS64_CNTL"] == 0x4000000)
        check(seen["GC.CP_MEC_RS64_PRGRM_CNTR_START"] == 0xC0000C00)
        check(seen["GC.CP_MEC_RS64_PRGRM_CNTR_START_HI"] == 1)
        check(seen["GC.SDMA0_WATCHDOG_CNTL"] == 0x64 and seen["GC.SDMA0_UTCL1_CNTL"] == 0x609)
        page = 0x100E000 if name == "gfx1100" else 0xE000
        check(seen["GC.SDMA0_UTCL1_PAGE"] == page, f"{seen['GC.SDMA0_UTCL1_PAGE']:#x}")
    enabled = seen["OSSSYS.IH_RB_CNTL"]
    without = 1 << 31 | 1 << 21 | 1 << 17  # overflow cleared, MSI: none here
    check(enabled == 0xC0330021 & ~without | 1 << 8, f"{enabled:#x}")  # and written back
    _check_process(board, gpu, seen, name)
    _check_bits(seen, name)
    _check_queues(gpu, seen)


def _check_bits(seen: Mapping[str, int], name: str) -> None:
    """src: nbio_v7_9_init_registers(); nbio_4_3_0_sh_mask.h; gmc_v11_0_flush_gpu_tlb()"""
    if name == "gfx942":
        check(seen["NBIF.XCC_DOORBELL_FENCE"] == 0, "all eight XCCs live")
        _check_hdp(seen)
        return
    check(not any(register.startswith("HDP.") for register in seen), "HDP sets nothing up")
    check(not seen["NBIF.RCC_DEV0_EPF2_STRAP2"] & 0x80, "STRAP_NO_SOFT_RESET")
    check(seen["MMHUB.MMVM_L2_BANK_SELECT_RESERVED_CID2"] & 1 << 25, "private invalidation")
    check(all(seen[f"GC.GCVM_CONTEXT{vmid}_CNTL"] == 0 for vmid in (1, 7, 9, 15)))


def _check_hdp(seen: Mapping[str, int]) -> None:
    """src: hdp_v4_0_init_registers(), hdp_4_0_sh_mask.h HDP_MISC_CNTL__FLUSH_INVALIDATE_CACHE: the
    begin of VRAM for the memory controller, which is the hub's FB_LOCATION_BASE, in 256 bytes"""
    base = seen["MMHUB.MC_VM_SYSTEM_APERTURE_LOW_ADDR"] << 18
    check(seen["HDP.HDP_MISC_CNTL"] & 1 == 1, "a flush drops nothing")
    check(seen["HDP.HDP_NONSURFACE_BASE"] | seen["HDP.HDP_NONSURFACE_BASE_HI"] << 32 == base >> 8)


def _check_queues(gpu: Any, seen: Mapping[str, int]) -> None:
    """src: sdma_v6_0_gfx_resume(); hqd_load_v11(): CP_HQD_EOP_RPTR__INIT_FETCHER"""
    engine = sdma.engines(gpu)[0]
    copy_queue.activate(gpu, replace(_spec("SDMA"), slot=0, doorbell=0x100))
    ended = seen[f"{engine.block.label}.{engine.queue}_MINOR_PTR_UPDATE"]
    check(ended == 0 and seen[f"{engine.block.label}.{engine.queue}_RB_CNTL"] & 1)
    compute_queue.activate(gpu, _spec("PM4"))
    check(seen["GC.CP_HQD_EOP_RPTR"] == 1 << 31 and seen["GC.CP_HQD_ACTIVE"] == 1)


def _check_process(board: Any, gpu: Any, seen: Mapping[str, int], name: str) -> None:
    process = Process(board, gpu)
    process.alloc(PAGE)
    hub = gpu.block(HwId.GC)
    prefix = "" if name == "gfx942" else "GC"
    check(seen[f"GC.{prefix}VM_CONTEXT8_CNTL"] & 0xFFFFFF == CONTEXT[name])
    check(seen[f"GC.{prefix}VM_INVALIDATE_ENG17_REQ"] == FLUSH[name])
    base = seen[f"GC.{prefix}VM_CONTEXT8_PAGE_TABLE_BASE_ADDR_LO32"]
    check(base == 0x1608001, f"{base:#x}")
    check(hub.label == "GC")


@pytest.mark.parametrize("major", sorted(GC))
def test_descriptor_words_are_registers_of_the_header(major: int) -> None:
    known = load(HwId.GC, GC[major])
    first = known.get("CP_MQD_BASE_ADDR").offset_dw
    renamed = {
        "cp_mqd_base_addr_lo": "CP_MQD_BASE_ADDR", "cp_hqd_pq_base_lo": "CP_HQD_PQ_BASE",
        "cp_hqd_pq_rptr_report_addr_lo": "CP_HQD_PQ_RPTR_REPORT_ADDR",
        "cp_hqd_pq_wptr_poll_addr_lo": "CP_HQD_PQ_WPTR_POLL_ADDR",
        "cp_hqd_eop_base_addr_lo": "CP_HQD_EOP_BASE_ADDR",
        "cp_hqd_hq_status0": "CP_HQD_HQ_STATUS0",
    }  # fmt: skip
    compared = 0
    for name, word in mqd.LAYOUTS[major].items():
        register = renamed.get(name, name.upper())
        if name.startswith(("cp_hqd", "cp_mqd")) and register in known:
            offset = known.get(register).offset_dw
            check(word - mqd.FIRST_REGISTER == offset - first, f"{name}: word {word:#x}")
            compared += 1
    check(compared >= 25, f"{compared} words were compared")


# src: gcc's offsetof() of v9_mqd, v11_compute_mqd and v12_compute_mqd, in words
BY_GCC = {
    9: {"compute_current_logic_xcc_id": 0x27, "compute_tg_chunk_size": 0x29,
        "pm4_target_xcc_in_xcp": 0xE1, "cp_mqd_stride_size": 0xE2},
    11: {"compute_static_thread_mgmt_se4": 0x2C, "compute_static_thread_mgmt_se7": 0x2F},
    12: {"compute_static_thread_mgmt_se8": 0x3B},
}  # fmt: skip


@pytest.mark.parametrize("major", sorted(GC))
def test_descriptor_words_that_are_no_registers(major: int) -> None:
    layout = mqd.LAYOUTS[major]
    for name, word in {**BY_GCC[major], "header": 0, "compute_pipelinestat_enable": 0xB}.items():
        check(layout[name] == word, name)
    check(len(set(layout.values())) == len(layout), "two names for a word")


class _Registers:
    """`encode` of a block, without a GPU."""

    def __init__(self, major: int) -> None:
        self.known = load(HwId.GC, GC[major])

    def encode(self, name: str, **fields: int) -> int:
        return self.known.get(name).encode(0, **fields)


def _spec(kind: Any, ring: int = 1 << 24) -> QueueSpec:
    return QueueSpec(kind, 8, 0x2000_0000_0000, ring, 0x2000_0100_0080, 0x2000_0100_0038,
                     0x2000_0100_1000, 4096, 3)  # fmt: skip


def test_descriptor_has_the_values_of_the_trace() -> None:
    gc: Any = _Registers(11)
    words = mqd.words(gc, 11, _spec("PM4"), 0x9B000)
    wanted = {  # word: value, of GFX.setup_ring but for the VMID, UNORD_DISPATCH and PCIe atomics
        0x00: 0xC0310800, 0x80: 0x9B000, 0x81: 0, 0x82: 0, 0x83: 8, 0x84: 0x5501, 0x85: 2,
        0x86: 0xF, 0x87: 0x111, 0x88: 0, 0x89: 0x20, 0x8B: 0x1000080, 0x8C: 0x2000,
        0x8D: 0x1000038, 0x8E: 0x2000, 0x8F: 0x40000018, 0x91: 0x10000515, 0x95: 0x300000,
        0xA0: 0x4000, 0xA2: 0x100, 0xA5: 0x10010, 0xA6: 0x20, 0xA7: 9, 0xB5: 0, 0xB6: 0, 0xB7: 0,
        0x17: 0xFFFFFFFF, 0x2F: 0xFFFFFFFF,
    }  # fmt: skip
    for word, value in wanted.items():
        check(words[word] == value, f"word {word:#x} is {words[word]:#x}, not {value:#x}")
    check(len(words) == 512)


def test_cores_share_an_aql_queue_and_the_first_reports() -> None:
    gc: Any = _Registers(9)
    images = [mqd.words(gc, 9, _spec("AQL"), 0x1000 * n, n, 8) for n in range(8)]
    layout = load(HwId.GC, GC[9]).get("CP_HQD_PQ_CONTROL")
    for number, words in enumerate(images):
        control = layout.decode(words[0x91])
        check(control["no_update_rptr"] == int(number > 0) and control["slot_based_wptr"] == 2)
        check(control["queue_full_en"] == 1 and words[0xB5] == 1)
        check((words[0x27], words[0x29], words[0xE2]) == (number, 1, 0x1000), f"XCC {number}")
    alone = layout.decode(mqd.words(gc, 9, _spec("AQL"), 0)[0x91])
    check(alone["no_update_rptr"] == 1)


def _entry(client: int, source: int, ring: int, vmid: int, *data: int, hub: int = 0) -> bytes:
    first = client | source << 8 | ring << 16 | vmid << 24 | hub << 31
    return struct.pack("<8I", first, 0x89ABCDEF, 0x4567, 0x2_0034, *data, *[0] * (4 - len(data)))


def test_an_interrupt_word_by_word() -> None:
    entry = ih.decode(11, _entry(0x14, 181, 4, 8, 1, 2, 3, 4, hub=1))
    check((entry.client, entry.source, entry.ring, entry.vmid) == (0x14, 181, 4, 8))
    check(entry.timestamp == 0x456789ABCDEF and entry.memory_hub)
    check((entry.pasid, entry.node, entry.data) == (0x34, 2, (1, 2, 3, 4)))


@pytest.mark.parametrize(
    ("major", "client", "source", "cause"),
    [
        (9, 0x14, 181, Cause.END_OF_PIPE), (12, 0x14, 181, Cause.END_OF_PIPE),
        (9, 0x1B, 0, Cause.PAGE_FAULT), (9, 0x12, 0, Cause.PAGE_FAULT),
        (11, 0x0A, 0, Cause.PAGE_FAULT), (12, 0x12, 0, Cause.PAGE_FAULT),
        (9, 0x08, 224, Cause.COPY), (9, 0x18, 224, Cause.COPY), (11, 0x0A, 49, Cause.COPY),
        (9, 0x0A, 0, Cause.OTHER), (11, 0x14, 183, Cause.BAD_PACKET),
        (11, 0x14, 185, Cause.BAD_INSTRUCTION), (9, 0x0B, 239, Cause.WAVE),
        (11, 0x0A, 239, Cause.WAVE), (9, 0x08, 49, Cause.OTHER), (11, 0x1F, 0, Cause.OTHER),
    ],
)  # fmt: skip
def test_what_interrupts_are_about(major: int, client: int, source: int, cause: Cause) -> None:
    check(ih.decode(major, _entry(client, source, 0, 0)).cause is cause)


STATUS = {"more_faults": 0, "walker_error": 0, "mapping_error": 0, "vmid": 8, "cid": 8, "rw": 0}


@pytest.mark.parametrize(
    ("lacks", "rw", "kind", "access"),
    [
        (0b0011, 0, "unmapped", "read"), (0b0101, 1, "unmapped", "write"),
        (0b0100, 1, "read-only", "write"), (0b1000, 0, "no-execute", "read"),
        (0b0010, 0, "memory", "read"), (0, 0, "unmapped", "read"),
    ],
)  # fmt: skip
def test_kinds_of_faults(lacks: int, rw: int, kind: str, access: str) -> None:
    status = {**STATUS, "permission_faults": lacks, "rw": rw}
    found = fault.decode_status((11, 0, 0), False, status, 0x123000)
    check(found.page == PageFault(0x123000, kind, access, client="TCP"), f"{found}")
    check(found.vmid == 8 and not found.more)


def test_units_by_generation() -> None:
    check(fault.client_name((9, 4, 3), True, 258) == "SDMA2")
    check(fault.client_name((12, 0, 1), False, 13) == "SDMA0")
    check(fault.client_name((9, 4, 3), False, 8) == "TCP")
    check(fault.client_name((11, 0, 0), True, 258) == "", "MMHUB of gfx11 has no such list")
    check(fault.client_name((11, 0, 0), False, 99) == "")


def test_a_fault_from_its_interrupt_alone() -> None:
    entry = ih.decode(11, _entry(0x0A, 0, 0x20, 8, 0x45678900, 0x23))
    reported = fault.decode_entry(entry)
    check(reported.page == PageFault(0x3456_7890_0000, "read-only", "write"), f"{reported}")
    older = fault.Fault(8, PageFault(0x1000, "unmapped", "read", client="TCP"), more=True)
    check(fault.merged(entry, older) == reported and fault.merged(entry, None) == reported)
    same = fault.Fault(8, PageFault(0x3456_7890_0000, "read-only", "write", client="CPC"), False)
    check(fault.merged(entry, same) == same)


@pytest.mark.parametrize(
    ("major", "words", "said"),
    [
        (11, (1 << 21, 2 << 6), "illegal instruction"), (11, (2 << 21, 2 << 6), "memory violation"),
        (11, (1 << 21, 1 << 6), ""), (9, (2 << 26, 1 << 4), "illegal instruction"),
        (9, (1 << 26, 1 << 4), ""),
    ],
)  # fmt: skip
def test_waves_that_stopped(major: int, words: tuple[int, int], said: str) -> None:
    entry = ih.decode(major, _entry(0x14, 239, 0, 8, *words))
    check(fault.stopped(GC[major], entry) == said)


def test_packets_that_stopped_a_queue() -> None:
    check(fault.stopped((11, 0, 0), ih.decode(11, _entry(0x14, 183, 0, 8))) == "bad packet")
    check(fault.stopped((11, 0, 0), ih.decode(11, _entry(0x14, 181, 0, 8))) == "")

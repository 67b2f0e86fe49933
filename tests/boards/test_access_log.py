"""The access log: traces by name, what the board does not model, clients that spin."""

import io
import json

import pytest

from boards.access_log import AccessLog
from boards.amd.hardware import Hardware, Options
from boards.amd.pci.gpu import PciGpu, open_function
from boards.amd.pci.watched import watch
from tests.support import check

NOWHERE_DW = 0x3FFFF
COMMAND_MEMORY = b"\x02\x00"


def gpu_and_log(out: io.StringIO | None = None, spin_reads: int = 100) -> tuple[PciGpu, AccessLog]:
    gpu = open_function(Hardware([], Options()), "gfx1100", vram_bytes=512 << 20)
    gpu.config.write(4, COMMAND_MEMORY)
    log = AccessLog("gfx1100", out, spin_reads=spin_reads)
    watch(gpu, log)
    return gpu, log


def at(gpu: PciGpu, block: str, name: str) -> int:
    return 4 * gpu.board.block(block).address_dw(name)


def test_a_trace_has_the_accesses_in_order_by_name() -> None:
    out = io.StringIO()
    gpu, log = gpu_and_log(out)
    gpu.write(5, at(gpu, "GC", "SCRATCH_REG7"), 4, 0xCAFE)
    gpu.read(5, at(gpu, "GC", "SCRATCH_REG7"), 4)
    gpu.hardware.event("firmware", kind="SMU", nbytes=4)
    gpu.hardware.event("doorbell", queue=1)
    log.mark("booted")
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    want = [
        {"board": "gfx1100"},
        {"op": "W", "register": "GC[0].SCRATCH_REG7", "value": 0xCAFE},
        {"op": "R", "register": "GC[0].SCRATCH_REG7", "value": 0xCAFE},
        {"op": "P", "phase": "firmware SMU"},
        {"op": "M", "mark": "booted"},
    ]
    check(lines == want, lines)
    check((log.reads, log.writes) == (1, 1), "counts")


def test_the_last_log_alone_hears() -> None:
    """tinygrad's runs have one each, and close it."""
    first = io.StringIO()
    gpu, _ = gpu_and_log(first)
    first.close()
    out = io.StringIO()
    watch(gpu, AccessLog("gfx1100", out))
    gpu.hardware.event("psp", command=0x90)
    gpu.write(5, at(gpu, "GC", "SCRATCH_REG7"), 4, 1)
    check("SCRATCH_REG7" in out.getvalue(), out.getvalue())


def test_a_copy_of_a_register_has_its_selector_in_the_name() -> None:
    out = io.StringIO()
    gpu, _ = gpu_and_log(out)
    select, bases = at(gpu, "GC", "GRBM_GFX_CNTL"), at(gpu, "GC", "SH_MEM_BASES")
    for vmid in (0, 8):
        gpu.write(5, select, 4, vmid << 4)  # src: gc_11_0_0_sh_mask.h GRBM_GFX_CNTL__VMID__SHIFT
        gpu.write(5, bases, 4, 7)
    names = [json.loads(line).get("register") for line in out.getvalue().splitlines()]
    check(names[2::2] == ["GC[0].SH_MEM_BASES (0)", "GC[0].SH_MEM_BASES (8)"], names)


def test_phases_are_named_by_what_the_board_sees() -> None:
    out = io.StringIO()
    gpu, _ = gpu_and_log(out)
    gpu.write(5, at(gpu, "MMHUB", "MMVM_CONTEXT0_CNTL"), 4, 0)  # the enable bit is off
    gpu.write(5, at(gpu, "MMHUB", "MMVM_CONTEXT0_CNTL"), 4, 1)
    gpu.write(5, at(gpu, "OSSSYS", "IH_RB_CNTL"), 4, 1)
    gpu.write(5, at(gpu, "MP0", "MP0_SMN_C2PMSG_35"), 4, 0x80000)  # src: PSP_BL__LOAD_KEY_DATABASE
    found = [json.loads(line).get("phase") for line in out.getvalue().splitlines()]
    phases = [name for name in found if name]
    check(phases == ["MM hub on", "interrupt ring on", "PSP bootloader KDB"], phases)


def test_a_flush_at_its_remapped_place_is_in_the_trace() -> None:
    out = io.StringIO()
    gpu, _ = gpu_and_log(out)
    gpu.write(5, at(gpu, "NBIF", "BIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL"), 4, 0x7F000)
    gpu.write(5, 0x7F000, 4, 5)
    last = json.loads(out.getvalue().splitlines()[-1])
    name = "NBIF[0].BIF_BX_PF0_HDP_MEM_COHERENCY_FLUSH_CNTL"
    check(last == {"op": "W", "register": name, "value": 5}, last)


def test_what_is_not_modelled_is_counted_with_what_was_answered() -> None:
    gpu, log = gpu_and_log()
    gpu.read(5, 4 * NOWHERE_DW, 4)
    gpu.read(5, 4 * NOWHERE_DW, 4)
    gpu.write(5, 4 * NOWHERE_DW, 4, 0x11)
    gpu.read(5, at(gpu, "GC", "SCRATCH_REG5"), 4)
    found = [str(one) for one in log.not_modelled()]
    want = [
        "read dword 0x3ffff: 2 times, answered 0x0",
        "write dword 0x3ffff: 1 times, lost 0x11",
        "read GC[0].SCRATCH_REG5: 1 times, answered 0x0",
    ]
    check(found == want, found)
    for number in (0, 2):
        log.lacking("read", f"SDMA0[{number}].SDMA_CNTL", 0)
    line = "read SDMA0[0,2].SDMA_CNTL: 1 times, answered 0x0"
    check(log.report() == [*want, line], f"instances share a line: {log.report()}")
    kinds = [str(violation) for violation in gpu.violations]
    want = [
        "unknown register: read of dword 0x3ffff (0x0)",
        "unknown register: write of dword 0x3ffff (0x11)",
    ]
    check(kinds == want, f"they stay violations: {kinds}")


def test_a_register_with_a_value_or_a_meaning_is_modelled() -> None:
    gpu, log = gpu_and_log()
    gpu.write(5, at(gpu, "GC", "SCRATCH_REG3"), 4, 0x545)
    gpu.read(5, at(gpu, "GC", "SCRATCH_REG3"), 4)  # written before
    gpu.read(5, at(gpu, "NBIF", "RCC_DEV0_EPF0_RCC_CONFIG_MEMSIZE"), 4)  # a preset
    gpu.read(5, at(gpu, "MMHUB", "MMVM_INVALIDATE_ENG17_SEM"), 4)  # read by a part of the board
    check(log.not_modelled() == [], [str(one) for one in log.not_modelled()])


@pytest.mark.parametrize("places", [1, 4])
def test_a_client_that_spins_is_named_with_its_registers(places: int) -> None:
    gpu, log = gpu_and_log()
    names = [f"SCRATCH_REG{number}" for number in range(places)]
    for turn in range(150):
        check(turn * places > 100 or not log.spinning, f"turn {turn} is no spin yet")
        for name in names:
            gpu.read(5, at(gpu, "GC", name), 4)
    check("GC[0].SCRATCH_REG0 = 0x0" in log.spinning, log.spinning)
    check(all(name in log.spinning for name in names), log.spinning)


def test_news_and_other_work_are_no_spin() -> None:
    gpu, log = gpu_and_log()
    for number in range(1000):
        log.polled("VRAM 0x1000", number.to_bytes(4, "little"))
    check(not log.spinning, "a counter that counts")
    for _ in range(200):
        for number in range(6):
            log.access("read", f"GC[0].SCRATCH_REG{number}", 0)
    check(not log.spinning, "more places than a wait reads")
    for _ in range(1000):
        gpu.read(5, at(gpu, "GC", "SCRATCH_REG0"), 4)
        gpu.write(5, at(gpu, "GC", "SCRATCH_REG1"), 4, 1)
    check(not log.spinning, "writes in between")
    for _ in range(99):
        gpu.read(5, at(gpu, "GC", "SCRATCH_REG0"), 4)
    check(not log.spinning, "fewer than the limit")
    for _ in range(2):
        gpu.read(5, at(gpu, "GC", "SCRATCH_REG0"), 4)
    check("GC[0].SCRATCH_REG0 = 0x0: 100 reads" in log.spinning, log.spinning)

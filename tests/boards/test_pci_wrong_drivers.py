"""The product's driver with one mistake: the board says so, or the driver comes to nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest

from boards.amd.pci.options import PciOptions
from boards.amd.pci_machine import MachineOptions, open_pci_board
from drivers.amd.device import AmdDevice
from drivers.amd.pci import gfx, gmc, nbio, psp
from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.psp_ring import Command, PspRing
from drivers.bare.bus import RegisterBus
from drivers.bare.mmio import Block
from drivers.base.errors import DeviceError
from drivers.pci.session import PciSession
from tests.boards.driver_harness import add, get, open_over_pci, put
from tests.support import check

N = 64
BIG = 256 << 10
ERROR = "the driver fails"
Change: TypeAlias = Callable[[int], int | None]
"""Of a value that is written: to another one, or None to leave the write out."""


def work(device: AmdDevice) -> None:
    """Launches; memory that is given back and used again as something else."""
    program = device.load(add(device.arch))
    for nbytes in (BIG, 2 * BIG, BIG // 2):
        a = np.ones(nbytes // 4, np.float32)
        x, y = put(device, a), device.alloc(nbytes)
        device.launch(program, [x, x, y, nbytes // 4], nbytes // 4 // N)
        np.testing.assert_array_equal(get(device, y), a + a)
        x.free()
        y.free()
        device.trim()


def reported(
    chip: str = "gfx1100", *, iommu: bool = True, amdgpu: bool = False, forgets: bool = False
) -> list[str]:
    """What the board found in a device's life, and that it came to an error."""
    function = PciOptions(reset_keeps_config=not forgets)
    options = MachineOptions(iommu=iommu, amdgpu=amdgpu, vram_bytes=1 << 30, function=function)
    board = open_pci_board(chip, options=options)
    reported = []
    try:
        with open_over_pci(board) as device:
            work(device)
    except DeviceError:
        reported.append(ERROR)
    return reported + [str(violation) for violation in board.violations]


def drop(value: int) -> None:
    """The write is left out."""


def miswrite(patch: pytest.MonkeyPatch, register: str, change: Change) -> None:
    """Every write to registers of a name goes wrong."""
    write = RegisterBus.write

    def wrong(self: RegisterBus, dword: int, value: int, label: str) -> None:
        changed = change(value) if label.endswith(register) else value
        if changed is not None:
            write(self, dword, changed, label)

    patch.setattr(RegisterBus, "write", wrong)


def test_the_driver_without_a_mistake() -> None:
    for chip, iommu in (("gfx1100", True), ("gfx1100", False), ("gfx942", True)):
        check(reported(chip, iommu=iommu) == [], f"{chip} {iommu}")
    check(reported(amdgpu=True) == [], "after amdgpu")


# (chip, register, what becomes of its value, what the board says)
WRITES: list[tuple[str, str, Change, str]] = [
    ("gfx1100", "HDP_MEM_FLUSH", drop, "doorbell without HDP flush"),
    ("gfx1100", "ENG17_REQ", lambda value: value & ~0xFFFF | value << 1 & 0xFFFF, ERROR),
    ("gfx1100", "ENG17_ADDR_RANGE_HI32", drop, "address range"),
    ("gfx1100", "CP_HQD_VMID", lambda value: value + 1, "is not enabled"),
    ("gfx1100", "IH_RB_RPTR", lambda value: value + 32, "a read pointer of"),
    ("gfx1100", "CP_MEC_RS64_PRGRM_CNTR_START", drop, "its firmware does not begin"),
    ("gfx1100", "CP_MEC_DOORBELL_RANGE_UPPER", drop, "not in the engine's range"),
    ("gfx1100", "S2A_DOORBELL_ENTRY_0_CTRL", lambda value: value & 0xFFFFFFF, "doorbell lost"),
    ("gfx1100", "RCC_DOORBELL_APER_EN", drop, "doorbell lost"),
    ("gfx1100", "CP_MEC_RS64_CNTL", lambda value: value | 1 << 30, "it is halted"),
    ("gfx1100", "CP_HQD_PQ_CONTROL", lambda value: value + 1, "the ring: unmapped"),
    ("gfx1100", "QUEUE0_RB_CNTL", lambda value: value + 2, "the ring: unmapped"),
    ("gfx1100", "SH_MEM_CONFIG", drop, "alignment mode"),
    ("gfx1100", "CP_ME1_PIPE0_INT_CNTL", drop, "TIME_STAMP_INT_ENABLE"),
    ("gfx1100", "C2PMSG_90", drop, "old response"),
    ("gfx942", "BIFC_DOORBELL_ACCESS_EN_PF", drop, "doorbell lost"),
]


@pytest.mark.parametrize(("chip", "register", "change", "words"), WRITES)
def test_a_register_is_written_wrong(
    monkeypatch: pytest.MonkeyPatch, chip: str, register: str, change: Change, words: str
) -> None:
    miswrite(monkeypatch, register, change)
    found = reported(chip, iommu=register != "HDP_MEM_FLUSH")
    check(any(words in text for text in found), f"{found[:6]}")


def test_a_page_is_unmapped_and_nothing_is_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gmc, "flush_tlb", lambda gpu, vmid: None)
    found = reported()
    check(any("stale translation" in text for text in found), f"{found[:6]}")


def test_nobody_waits_for_a_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    wait = Block.wait

    def hasty(self: Block, name: str, mask: int, value: int, timeout_s: float) -> int:
        return value if name.endswith("_ACK") else wait(self, name, mask, value, timeout_s)

    monkeypatch.setattr(Block, "wait", hasty)
    found = reported()
    check(any("stale translation" in text for text in found), f"{found[:6]}")


def test_the_graphics_hub_comes_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    up, up_graphics = gmc.up, gmc.up_graphics

    def both(gpu: BareGpu) -> None:
        up(gpu)
        up_graphics(gpu)

    monkeypatch.setattr(gmc, "up", both)
    found = reported()
    check(any("before its block is up" in text for text in found), f"{found[:6]}")


COMMANDS = [
    ("gfx1100", Command.SETUP_TMR, "before SETUP_TMR"),
    ("gfx1100", Command.AUTOLOAD_RLC, "before its block is up"),
    ("gfx942", Command.SRIOV_SPATIAL_PART, "no partition"),
]


@pytest.mark.parametrize(("chip", "left_out", "words"), COMMANDS)
def test_the_security_processor_is_not_told(
    monkeypatch: pytest.MonkeyPatch, chip: str, left_out: Command, words: str
) -> None:
    send = PspRing.send

    def sparse(self: PspRing, command: Command, *arguments: int, what: str = "") -> int:
        return 0 if command is left_out else send(self, command, *arguments, what=what)

    monkeypatch.setattr(PspRing, "send", sparse)
    monkeypatch.setattr(gfx, "wait_loaded", lambda gpu: None)
    found = reported(chip)
    check(any(words in text for text in found), f"{found[:6]}")


@pytest.mark.parametrize(("chip", "kind", "words"), [
    ("gfx1100", 18, "before the SMU's firmware"), ("gfx1100", 89, "RS64_MEC has not arrived"),
    ("gfx942", 67, "its firmware is not there (REG_LIST)"),
])  # fmt: skip
def test_firmware_is_left_out(
    monkeypatch: pytest.MonkeyPatch, chip: str, kind: int, words: str
) -> None:
    load = psp._load

    def sparse(gpu: BareGpu, ring: PspRing, number: int, data: memoryview) -> None:
        if int(number) != kind:
            load(gpu, ring, number, data)

    monkeypatch.setattr(psp, "_load", sparse)
    found = reported(chip)
    check(any(words in text for text in found), f"{found[:6]}")


def test_a_reset_with_dma_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a queue that would not stop; the takeover finds bus mastering off already."""
    bus_master = PciSession.bus_master

    def always_on(self: PciSession, on: bool) -> None:
        bus_master(self, True)

    monkeypatch.setattr(PciSession, "bus_master", always_on)
    found = reported(amdgpu=True)
    check(any("mode-1 reset with bus mastering on" in text for text in found), f"{found[:6]}")


@pytest.mark.parametrize("iommu", [True, False])
def test_nothing_is_put_back_after_a_reset(monkeypatch: pytest.MonkeyPatch, *, iommu: bool) -> None:
    check(reported(iommu=iommu, amdgpu=True, forgets=True) == [], "it is put back")
    monkeypatch.setattr(PciSession, "after_reset", lambda self: None)
    found = reported(iommu=iommu, amdgpu=True, forgets=True)
    check(ERROR in found and any("memory disabled" in text for text in found), f"{found[:6]}")


def test_bus_mastering_is_left_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PciSession, "_isolate", lambda self, done: done.append(True))
    found = reported()
    check(any("bus mastering left on" in text for text in found), f"{found[:6]}")


def test_dma_without_bus_mastering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PciSession, "bus_master", lambda self, on: None)
    found = reported()
    check(ERROR in found and any("unmapped" in text for text in found), f"{found[:6]}")


@pytest.mark.parametrize("iommu", [True, False])
def test_a_flush_is_not_read_back(monkeypatch: pytest.MonkeyPatch, *, iommu: bool) -> None:
    """Firmware, page tables, rings: the stores may not have arrived when they are read."""

    def hasty(bus: RegisterBus) -> None:
        bus.write(nbio.REMAP_BYTES // 4, 0, "HDP_MEM_FLUSH")

    monkeypatch.setattr(nbio, "_flush_hdp", hasty)
    found = reported(iommu=iommu)
    readers = "PSP bootloader", "PSP ring", "GCHUB, invalidation", "queue 1.0.0", "queue 0 of SDMA0"
    for who in readers:
        check(any("HDP flush under way" in text and who in text for text in found), who)
    check(all("under way" in text for text in found), f"{found[:6]}")

"""What comes before what in a boot, and what a clean leave leaves: seen on the bus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from boards.amd.pci.options import PciOptions
from boards.amd.pci_machine import MachineOptions
from boards.machine.pci.world import PciWorld
from drivers.amd.pci import boot, compute_queue, ownership
from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.layout import PSP_FENCE
from drivers.amd.pci.ownership import Found
from drivers.amd.pci.psp_ring import PspRing
from drivers.bare.bus import Access
from drivers.base.errors import DeviceError
from drivers.pci.session import PciSession
from tests.amd_bare import firmware, identified, open_pci_board, quiet
from tests.support import check

OVERFLOW_CLEAR, RING_ON = 1 << 31, 1 << 0
"""Of IH_RB_CNTL. # src: osssys_6_0_0_sh_mask.h"""
HALTED = 1 << 30
"""Of CP_MEC_RS64_CNTL, and of CP_MEC_CNTL for ME 1. # src: gc_11_0_0, gc_9_4_3_sh_mask.h"""
REPRESENTATIVE = pytest.mark.parametrize("chip", ["gfx1100", "gfx1201", "gfx942"])


@contextmanager
def watched(board: PciWorld) -> Iterator[tuple[BareGpu, list[Access]]]:
    """A GPU that is identified, and every access to its registers from then on."""
    with identified(board) as gpu:
        seen: list[Access] = []
        gpu.mmio.bus.trace = seen.append
        yield gpu, seen


@REPRESENTATIVE
def test_the_graphics_core_is_left_alone_until_its_firmware_is_there(chip: str) -> None:
    """src: gfx_v11_0_hw_init(): gfx_v11_0_wait_for_rlc_autoload_complete() comes first"""
    board = open_pci_board(chip)
    with watched(board) as (gpu, seen):
        boot.start(gpu, firmware(board))
        first = [access for access in seen if access.name.startswith("GC")]
        waited = ["GC.RLC_RLCS_BOOTLOAD_STATUS", "GC.CP_STAT"]
        if chip == "gfx942":  # each XCC's; nothing is loaded by the RLC itself
            waited = ["GC.CP_STAT", *(f"GC{xcc}.CP_STAT" for xcc in range(1, 8))]
        found = [(access.op, access.name) for access in first[: len(waited)]]
        check(found == [("R", name) for name in waited], f"{found}")
        boot.leave(gpu)
    quiet(board)


@REPRESENTATIVE
def test_what_a_clean_leave_leaves(chip: str) -> None:
    board = open_pci_board(chip)
    with identified(board) as gpu:
        boot.start(gpu, firmware(board))
        for xcc in gpu.xccs:
            gpu.block(HwId.GC, xcc).write("VM_CONTEXT9_CNTL", 1)
        boot.leave(gpu)
        check(not gpu.block(HwId.OSSSYS).read("IH_RB_CNTL") & RING_ON, "interrupt ring")
        check(gpu.block(HwId.NBIF).read("RCC_DOORBELL_APER_EN") == 0, "doorbells")
        for xcc in gpu.xccs:
            gc = gpu.block(HwId.GC, xcc)
            halt = "CP_MEC_CNTL" if chip == "gfx942" else "CP_MEC_RS64_CNTL"
            check(gc.read(halt) & HALTED, f"XCC {xcc} runs")
            contexts = [gc.read(f"VM_CONTEXT{vmid}_CNTL") & 1 for vmid in range(1, 16)]
            check(not any(contexts), f"contexts of XCC {xcc}: {contexts}")
        check(ownership.look(gpu) is Found.WARM, "not warm")
    quiet(board)


def test_a_queue_that_does_not_stop_is_told_and_the_next_boot_resets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    board = open_pci_board("gfx1100")
    files = firmware(board)
    with identified(board) as gpu:
        boot.start(gpu, files)
        with monkeypatch.context() as patch:
            patch.setattr(compute_queue, "drop_all", lambda gpu: False)
            with pytest.raises(DeviceError, match=r"leave: a compute queue .* does not stop"):
                boot.leave(gpu)
        check(gpu.block(HwId.NBIF).read("RCC_DOORBELL_APER_EN") == 0, "the rest was not put away")
    with identified(board) as gpu:
        done = boot.start(gpu, files).done
        check(done[0].name == "take over: mode-1 reset", f"{done[0]}")
        boot.leave(gpu)


def test_config_space_is_back_before_the_gpu_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """src: amdgpu_device_mode1_reset(): amdgpu_device_load_pci_state() comes before any register"""
    board = open_pci_board("gfx1100")
    with watched(board) as (gpu, seen):
        boot.start(gpu, firmware(board))
        before: list[list[str]] = []
        real = PciSession.after_reset

        def noted(session: PciSession) -> None:
            before.append([access.name for access in seen])
            real(session)

        monkeypatch.setattr(PciSession, "after_reset", noted)
        seen.clear()
        boot.reset(gpu)
        check(len(before) == 1 and "RCC_CONFIG_MEMSIZE" not in before[0], f"{before}")
        check(seen[-1].name == "RCC_CONFIG_MEMSIZE", f"{seen[-1]}")
    quiet(board)


@REPRESENTATIVE
def test_an_overflow_is_cleared_by_a_rising_edge(chip: str) -> None:
    """src: ih_v6_0_toggle_ring_interrupts(), ih_v6_0_irq_init()"""
    board = open_pci_board(chip)
    with watched(board) as (gpu, seen):
        boot.start(gpu, firmware(board))
        writes = [a.value for a in seen if a.name == "OSSSYS.IH_RB_CNTL" and a.op == "W"]
        clears = [bool(value & OVERFLOW_CLEAR) for value in writes]
        check(clears == [False, True, False, False], f"{clears}")
        boot.leave(gpu)


@pytest.mark.parametrize(("chip", "soft"), [("gfx1100", True), ("gfx1201", False)])
def test_a_warm_boot_resets_the_command_processor(chip: str, soft: bool) -> None:
    """src: tinygrad ip.py reset_mec(): by GRBM_SOFT_RESET, on gfx12 by its pipe alone

    GRBM_SOFT_RESET__SOFT_RESET_CP_MASK and ..._CPC_MASK, gc_11_0_0_sh_mask.h
    """
    board = open_pci_board(chip)
    files = firmware(board)
    with identified(board) as gpu:
        boot.start(gpu, files)
        boot.leave(gpu)
    with watched(board) as (gpu, seen):
        check(boot.start(gpu, files).found is Found.WARM)
        writes = [a.value for a in seen if a.name == "GC.GRBM_SOFT_RESET" and a.op == "W"]
        check(writes == ([1 | 1 << 18, 0] if soft else []), f"{[hex(v) for v in writes]}")
        boot.leave(gpu)
    quiet(board)


EVERYONE = 1 << 31 | 1 << 30 | 1 << 29
"""GRBM_GFX_INDEX: engines, instances, arrays. # src: gc_11_0_0_sh_mask.h, ..._BROADCAST_WRITES"""


@REPRESENTATIVE
def test_units_are_counted_array_by_array(chip: str) -> None:
    """One unit, or pair of them, is missing in the first array of each graphics core."""
    missing = 8 if chip == "gfx942" else 2
    options = MachineOptions(function=PciOptions(harvested_cus=missing))
    board = open_pci_board(chip, options=options)
    with watched(board) as (gpu, seen):
        boot.start(gpu, firmware(board))
        check(gpu.node.cus == board.gpus[0].chip.cus - missing, f"{gpu.node.cus}")
        last = [access.value for access in seen if access.name == "GC.GRBM_GFX_INDEX"][-1]
        check(last == EVERYONE, f"GRBM_GFX_INDEX is left at {last:#x}")
        boot.leave(gpu)
    quiet(board)


def test_who_dies_after_a_warm_boot_did_not_leave() -> None:
    board = open_pci_board("gfx1100")
    files = firmware(board)
    for _ in range(2):
        with identified(board) as gpu:
            boot.start(gpu, files)
            last = ownership.look(gpu)
            boot.leave(gpu)
            check(last is Found.CRASHED, f"{last}")


def test_an_old_fence_is_no_answer() -> None:
    """Memory that survived a reset holds the fence values of the boot before."""
    board = open_pci_board("gfx1100", options=MachineOptions(function=PciOptions(psp_s=0.03)))
    with identified(board) as gpu:
        gpu.vram.write32(PSP_FENCE.offset, 1)
        boot.start(gpu, firmware(board))
        # an answer that was taken too early would leave sOS's commands behind the fence
        check(gpu.vram.read32(PSP_FENCE.offset) > 1, "no command was answered")
        boot.leave(gpu)
    quiet(board)


def test_a_ring_that_is_left_over_goes_first() -> None:
    board = open_pci_board("gfx1100")
    with watched(board) as (gpu, seen):
        boot.start(gpu, firmware(board))
        seen.clear()
        PspRing(gpu).create()
        reported = [access.value for access in seen
                if access.op == "W" and access.name.endswith("C2PMSG_64")]  # fmt: skip
        # src: psp_gfx_if.h GFX_CTRL_CMD_ID_DESTROY_RINGS; PSP_RING_TYPE__KM << 16
        check(reported == [0x30000, 2 << 16], f"{[hex(value) for value in reported]}")
        boot.leave(gpu)
    quiet(board)

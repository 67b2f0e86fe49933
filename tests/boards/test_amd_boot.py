"""A bare GPU boots on the board: from nothing, again, after others, after a crash."""

from __future__ import annotations

from dataclasses import replace

import pytest

from boards.amd.pci.options import PciOptions
from boards.amd.pci_machine import MachineOptions
from drivers.amd.pci import boot, nbio, ownership, psp, record, smu, smu_metrics, units
from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.layout import RECORD
from drivers.amd.pci.ownership import Found
from drivers.amd.pci.record import Record
from drivers.base.errors import DeviceTimeout, FirmwareRejected, NotFound, Unsupported
from tests.amd_bare import firmware, identified, open_pci_board, quiet
from tests.support import check

CHIPS = {"gfx1100": 96, "gfx1101": 60, "gfx1102": 32, "gfx1200": 32, "gfx1201": 64}
"""And their compute units: 7900 XTX, 7800 XT, 7600, 9060 XT, 9070 XT."""
COLD_READS, WARM_READS = 900, 200


@pytest.mark.parametrize("chip", [*CHIPS, "gfx942"])
def test_from_nothing(chip: str) -> None:
    board = open_pci_board(chip)
    with identified(board) as gpu:
        before = board.panel.reads
        report = boot.start(gpu, firmware(board))
        check(report.found is Found.COLD, f"{report.found}")
        check(board.panel.reads - before < gpu.mmio.reads <= COLD_READS, f"{gpu.mmio.reads}")
        check(sum(done.reads for done in report.done) <= gpu.mmio.reads, "reads of the steps")
        check(gpu.mc_base == board.gpus[0].board.mc_base, f"{gpu.mc_base:#x}")
        check(report.smu_version not in (0, 0xFFFFFFFF) and not report.clocks_refused)
        check(gpu.mmio.step == "", "a step is still named")
        if chip in CHIPS:
            check(gpu.node.cus == CHIPS[chip], f"{gpu.node.cus} compute units")
        boot.leave(gpu)
    quiet(board)


@pytest.mark.parametrize(("chip", "device_id"), [("gfx1101", 0x7470), ("gfx1201", 0x7551)])
def test_another_product_of_a_chip(chip: str, device_id: int) -> None:
    """src: libdrm data/amdgpu.ids: Radeon PRO W7700, Radeon AI PRO R9700"""
    options = MachineOptions(function=PciOptions(device_id=device_id))
    board = open_pci_board(chip, options=options)
    with identified(board) as gpu:
        check(gpu.chip.name == chip, gpu.chip.name)
        check(boot.start(gpu, firmware(board)).found is Found.COLD)
        boot.leave(gpu)
    quiet(board)


def test_a_product_that_is_not_listed_is_left_alone() -> None:
    """0x7461 is a virtual function of Navi 32. # src: libdrm data/amdgpu.ids, Pro V710 MxGPU"""
    board = open_pci_board("gfx1101", options=MachineOptions(function=PciOptions(device_id=0x7461)))
    with pytest.raises(NotFound, match="0 GPUs there are known"), identified(board):
        pass
    check(board.panel.reads == 0, f"{board.panel.reads} reads")


@pytest.mark.parametrize("chip", ["gfx1100", "gfx1201"])
def test_again_after_leaving_cleanly(chip: str) -> None:
    board = open_pci_board(chip)
    files = firmware(board)
    with identified(board) as gpu:
        boot.start(gpu, files)
        boot.leave(gpu)
    with identified(board) as gpu:
        report = boot.start(gpu, files)
        check(report.found is Found.WARM, f"{report.found}")
        check(gpu.mmio.reads <= WARM_READS, f"{gpu.mmio.reads} reads")
        check("load firmware" not in [done.name for done in report.done], "firmware again")
        boot.leave(gpu)
    with identified(board) as gpu:
        fresh = boot.start(gpu, files, fresh=True)
        check(fresh.done[0].name == "take over: mode-1 reset", f"{fresh.done[0]}")
    quiet(board)


@pytest.mark.parametrize(("iommu", "found"), [(True, Found.COLD), (False, Found.WARM)])
def test_vfio_resets_what_can_be_reset(iommu: bool, found: Found) -> None:
    """gfx942 offers a function level reset. # src: vfio_pci_core_enable(), pci_try_reset_function()

    Without an IOMMU nobody resets it, and the second boot is warm as on other chips.
    """
    board = open_pci_board("gfx942", options=MachineOptions(iommu=iommu))
    files = firmware(board)
    for expected in (Found.COLD, found):
        with identified(board) as gpu:
            check(boot.start(gpu, files).found is expected, f"{expected}")
            boot.leave(gpu)
    quiet(board)


@pytest.mark.parametrize("damage", ["another set of firmware", "a bit"])
def test_what_the_record_does_not_vouch_for_is_booted_anew(damage: str) -> None:
    board = open_pci_board("gfx1100")
    files = firmware(board)
    with identified(board) as gpu:
        boot.start(gpu, files)
        cus = gpu.node.cus
        if damage == "a bit":
            gpu.vram.write32(RECORD.offset, gpu.vram.read32(RECORD.offset) ^ 1)
        else:
            record.write(gpu, Record(bytes(32), gpu.node.simd_count))
        boot.leave(gpu)
    for expected in ("take over: mode-1 reset", "open doorbells"):
        with identified(board) as gpu:
            report = boot.start(gpu, files)
            check(report.found is Found.WARM and report.done[0].name == expected, report.done[0])
            check(gpu.node.cus == cus, f"{gpu.node.cus} of {cus} compute units")
            boot.leave(gpu)
    quiet(board)


def test_every_byte_of_firmware_is_in_the_digest() -> None:
    files = firmware(open_pci_board("gfx1100"))
    known = record.digest_of(files)
    for number, part in enumerate(files.parts):
        other = bytearray(part.data)
        other[len(other) // 2] ^= 1
        parts = list(files.parts)
        parts[number] = replace(part, data=memoryview(bytes(other)))
        check(record.digest_of(replace(files, parts=tuple(parts))) != known, part.kind.name)
        shorter = (*files.parts[:number], *files.parts[number + 1 :])
        check(record.digest_of(replace(files, parts=shorter)) != known, part.kind.name)
    check(record.digest_of(replace(files, smu=None)) != known, "SMU")
    check(record.digest_of(replace(files, bootloader={})) != known, "bootloader")


def test_after_an_owner_who_died() -> None:
    board = open_pci_board("gfx1100")
    files = firmware(board)
    with identified(board) as gpu:
        boot.start(gpu, files)
    with identified(board) as gpu:
        report = boot.start(gpu, files)
        check(report.found is Found.CRASHED, f"{report.found}")
        check("load firmware" in [done.name for done in report.done], "old firmware was kept")
    quiet(board)


@pytest.mark.parametrize("chip", ["gfx1100", "gfx1201"])
def test_after_another_driver(chip: str) -> None:
    """Whoever boots a GPU has sOS alive, and does not know our scratch registers."""
    board = open_pci_board(chip)
    with identified(board) as gpu:
        boot.start(gpu, firmware(board))
        gpu.block(HwId.GC).write("SCRATCH_REG7", 0)
        gpu.block(HwId.GC).write("SCRATCH_REG6", 2)
    with identified(board) as gpu:
        report = boot.start(gpu, firmware(board))
        check(report.found is Found.FOREIGN, f"{report.found}")
        check(report.done[0].name == "take over: mode-1 reset", report.done[0].name)
    quiet(board)


def test_identifying_writes_nothing() -> None:
    board = open_pci_board("gfx1100")
    with identified(board) as gpu:
        check((gpu.mmio.reads, gpu.mmio.writes) == (2, 0), f"{gpu.mmio.writes} writes")
        check(gpu.node.vram_bytes == 1 << 30 and gpu.node.host_visible, "VRAM")
        check(gpu.node.pci_address == gpu.address, gpu.node.pci_address)
        check(gpu.node.num_xcc == 1 and gpu.node.lds_kib == 64)


def test_a_chip_that_is_another_one() -> None:
    board = open_pci_board("gfx1100")
    with identified(board) as gpu, pytest.raises(Unsupported, match=r"11\.0\.0, which is not gfx9"):
        boot.identify(gpu.session, replace(gpu.chip, name="gfx942", gc=frozenset({(9, 4, 3)})))


def test_firmware_that_the_processor_refuses_is_named_and_the_next_boot_works() -> None:
    board = open_pci_board("gfx1100")
    good = firmware(board)
    for index in (0, len(good.parts) - 1):
        part = good.parts[index]
        broken = bytearray(part.data)
        broken[-1] ^= 1
        parts = list(good.parts)
        parts[index] = replace(part, data=memoryview(bytes(broken)))
        with identified(board) as gpu, pytest.raises(FirmwareRejected) as error:
            boot.start(gpu, replace(good, parts=tuple(parts)))
        check("load firmware: " in str(error.value), str(error.value))
        check(part.kind.name in str(error.value), str(error.value))
    with identified(board) as gpu:
        boot.start(gpu, good)


def test_compute_units_that_are_fused_off_do_not_count() -> None:
    board = open_pci_board("gfx1102")
    with identified(board) as gpu:
        boot.start(gpu, firmware(board))
        gc = gpu.block(HwId.GC)
        gc.set("GRBM_GFX_INDEX", se_broadcast_writes=1, sa_broadcast_writes=1,
               instance_broadcast_writes=1)  # fmt: skip
        gc.set("GC_USER_SHADER_ARRAY_CONFIG", inactive_wgps=0b11)
        gc.set("GC_USER_SA_UNIT_DISABLE", sa_disable=1)
        # 2 engines of 2 arrays of 4 work-group processors; one array is off, two processors in each
        check(units.count_cus(gpu).cus == 3 * 2 * 2, f"{units.count_cus(gpu).cus}")


@pytest.mark.parametrize("chip", ["gfx1100", "gfx1201", "gfx942"])
def test_clocks_and_limits(chip: str) -> None:
    board = open_pci_board(chip)
    with identified(board) as gpu:
        boot.start(gpu, firmware(board))
        levels = {clock: smu.frequencies(gpu, clock) for clock in smu.dialect(gpu).clocks}
        check(all(one == sorted(one) and one for one in levels.values()), f"{levels}")
        smu.set_clocks(gpu, 0)
        slow = smu_metrics.metrics(gpu)
        smu.set_clocks(gpu, -1)
        fast = smu_metrics.metrics(gpu)
        check(slow.memory_mhz is not None and fast.memory_mhz is not None)
        held = smu.dialect(gpu).soft_max  # gfx942 has a lower limit alone, and stays where it is
        check(
            fast.memory_mhz > slow.memory_mhz or not held,
            f"{slow.memory_mhz} -> {fast.memory_mhz} MHz",
        )
        check(smu.power_limit_w(gpu) > 0, "power limit")
    quiet(board)


def test_a_reset_in_the_middle_forgets_everything() -> None:
    board = open_pci_board("gfx1201")
    files = firmware(board)
    with identified(board) as gpu:
        boot.start(gpu, files)
        boot.reset(gpu)
        check(ownership.look(gpu) is Found.COLD, "sOS survived")
        boot.start(gpu, files)
        boot.leave(gpu)
    quiet(board)


def test_doorbells_are_routed_as_a_driver_that_runs_does_it() -> None:
    """Values: the recording of such a driver's boot, notes of both generations."""
    for chip in ("gfx1100", "gfx1201"):
        with identified(open_pci_board(chip)) as gpu:
            nbio.up(gpu)
            block = gpu.block(HwId.NBIF)
            routes = [block.read(f"S2A_DOORBELL_ENTRY_{port}_CTRL") for port in (0, 3, 2)]
            check(routes == [0x30000007, 0x3000000D, 0x3009001D], f"{routes}")
            check(block.read("RCC_DOORBELL_APER_EN") == 1, "closed")


def test_dma_is_held_back_while_the_gpu_resets(monkeypatch: pytest.MonkeyPatch) -> None:
    board = open_pci_board("gfx1100")
    with identified(board) as gpu:
        boot.start(gpu, firmware(board))
        memory, masters = gpu.session.dma.alloc(4096), []
        masters.append(board.gpus[0].config.master_on)
        real = smu.mode1_reset

        def watched(of: BareGpu) -> None:
            masters.append(board.gpus[0].config.master_on)
            real(of)

        monkeypatch.setattr(smu, "mode1_reset", watched)
        boot.reset(gpu)
        check(masters == [True, False], f"{masters}")
        memory.close()


@pytest.mark.parametrize(("chip", "offered"), [("gfx942", True), ("gfx1100", False)])
def test_where_power_management_does_not_reset_the_function_may(
    chip: str, offered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(gpu: BareGpu) -> None:
        raise DeviceTimeout("the SMU does not answer", register="MP1.MP1_SMN_C2PMSG_90", last=0)

    board = open_pci_board(chip)
    with identified(board) as gpu:
        boot.start(gpu, firmware(board))
        monkeypatch.setattr(smu, "mode1_reset", refuse)
        if offered:
            check("does not answer" in boot.reset(gpu), "nobody tells why it was not mode-1")
            check(not psp.is_alive(gpu) and boot.start(gpu, firmware(board)).found is Found.COLD)
            return
        with pytest.raises(DeviceTimeout, match="does not answer") as error:
            boot.reset(gpu)
        check("the function's own reset" in "".join(error.value.__notes__), error.value.__notes__)

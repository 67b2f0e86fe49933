"""The bootloader of the security processor takes each stage once: boots that were cut off go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drivers.amd.pci import boot, psp
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.ownership import Found
from drivers.base.errors import DeviceError, FirmwareRejected
from tests.amd_bare import firmware, identified, open_pci_board, quiet
from tests.support import check


@pytest.mark.parametrize("chip", ["gfx1100", "gfx1201"])
@pytest.mark.parametrize("stage", range(1, 4))
def test_a_boot_cut_off_between_two_stages(chip: str, stage: int) -> None:
    """Before a stage's address is written nothing tells of it; nothing is sent twice."""
    board = open_pci_board(chip)
    files = firmware(board)
    with identified(board) as gpu:
        address, seen = gpu.block(HwId.MP0).dword("C2PMSG_36"), []

        def cut(dword: int, value: int, name: str = "", real=gpu.mmio.bus.write) -> None:
            if dword == address:
                seen.append(value)
                if len(seen) == 2 * stage + 1:
                    raise DeviceError("load firmware: cut off")
            real(dword, value, name)

        gpu.mmio.bus.write = cut
        with pytest.raises(DeviceError, match="cut off"):
            boot.start(gpu, files)
    with identified(board) as gpu:
        check(boot.start(gpu, files).found is Found.COLD, "sOS ran")
        check(psp.is_alive(gpu), "sOS does not run")
    quiet(board)


def test_a_mailbox_that_survived_a_reset_is_not_believed() -> None:
    board = open_pci_board("gfx1100")
    files = firmware(board)
    with identified(board) as gpu:
        boot.start(gpu, files)
        mark = gpu.block(HwId.MP0).read("C2PMSG_36")
        boot.reset(gpu)
        gpu.block(HwId.MP0).write("C2PMSG_36", mark)
        boot.start(gpu, files)
    quiet(board)


def test_a_stage_that_is_refused_is_named() -> None:
    board = open_pci_board("gfx1100")
    files = firmware(board)
    boot_parts = dict(files.bootloader)
    kind = next(kind for kind in boot_parts if kind.name == "SYS_DRV")
    broken = bytearray(boot_parts[kind].data)
    broken[-1] ^= 1
    boot_parts[kind] = replace(boot_parts[kind], data=memoryview(bytes(broken)))
    with identified(board) as gpu, pytest.raises(FirmwareRejected, match=r"refuses SYS_DRV: MP0"):
        boot.start(gpu, replace(files, bootloader=boot_parts))
    with identified(board) as gpu:
        boot.start(gpu, files)
        check(psp.is_alive(gpu), "the right stage after the wrong one")

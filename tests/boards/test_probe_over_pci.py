"""What the probes say of a bare GPU: ready or why not, without a write; --smoke boots and tests."""

from __future__ import annotations

import json

import pytest

from boards.amd.pci_machine import MachineOptions, open_pci_board
from boards.machine.pci.world import PciWorld
from drivers.amd import regs, smi
from drivers.amd.probe import probe
from drivers.probe import Machine, Result, run
from drivers.probe.kinds import CHECKS
from drivers.world.foreign import ForeignWorld
from drivers.world.foreign_state import ForeignState
from drivers.world.linux import LinuxWorld
from tests.support import check

VRAM_BYTES = 256 << 20


def machine(**options: object) -> PciWorld:
    return open_pci_board("gfx1100", options=MachineOptions(vram_bytes=VRAM_BYTES, **options))


def environ(board: PciWorld) -> dict[str, str]:
    return {"UNBOUND_FIRMWARE_MANIFEST": board.firmware, "PATH": "/usr/bin"}


def look(board: PciWorld, *arguments: str) -> tuple[str, int]:
    world, state = ForeignWorld(board), ForeignState(board.state)
    return probe(["--iface", "PCI", *arguments], world, environ(board), state)


def result(board: PciWorld, env: dict[str, str]) -> Result:
    seen = Machine(ForeignWorld(board), env, {}.get)
    return run({("AMD", "PCI"): CHECKS["AMD", "PCI"]}, seen)[0]


@pytest.mark.parametrize(
    ("options", "ready", "says"),
    [
        ({}, True, "DMA where the IOMMU lets it"),
        ({"iommu": False}, True, "no DMA, everything lies in its own memory"),
        ({"amdgpu": True}, True, "bound to amdgpu"),
        ({"vfio": False}, False, "vfio-pci is not loaded"),
        ({"boot_vga": True}, False, "boot display"),
        ({"audio_driver": "snd_hda_intel"}, False, "snd_hda_intel"),
    ],
)
def test_ready_or_not(options: dict[str, object], ready: bool, says: str) -> None:
    board = machine(**options)
    text, status = look(board)
    said = " ".join(text.split())
    check(status == 0 and says in said and ("would be claimed" in said) == ready, text)
    check("AMD:0" in text and "256 MiB" in text and max(map(len, text.splitlines())) <= 100, text)
    row = json.loads(look(board, "--json")[0])["gpus"][0]
    check((row["chip"], row["ready"], row["name"]) == ("gfx1100", ready, "AMD:0"), str(row))
    found = result(board, environ(board))
    check(found.ready == ready and (not ready or says in found.reason), str(found))
    check(ready or found.advice, "no advice")
    check(not board.machine.writes and not board.panel.count, "something was touched")


def test_without_firmware_it_is_not_ready() -> None:
    board = machine()
    found = result(board, {})
    check(not found.ready and "firmware" in found.reason, str(found))
    check("nstall" in found.advice, found.advice)


def test_the_smoke_test_boots_it_and_gives_it_back() -> None:
    board = machine(amdgpu=True)
    text, status = look(board, "--smoke")
    check(status == 0 and "SDMA0 copy" in text and "AQL kernel" in text, text)
    check(not board.violations and not any(board.baseline().values()), f"{board.violations[:5]}")
    check(board.readlink("/sys/bus/pci/devices/0000:03:00.0/driver").endswith("amdgpu"))


def test_the_smoke_test_of_what_cannot_be_claimed() -> None:
    text, status = look(machine(boot_vga=True), "--smoke")
    check(status == 1 and "no GPU can be claimed" in text, text)


def test_options_that_do_not_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--dry-run"], ["--iface", "PCI", "--dry-run", "--smoke"]):
        with pytest.raises(SystemExit):
            probe(arguments)
        check("--" in capsys.readouterr().err)


def test_a_board_in_place_of_this_machine() -> None:
    text, status = probe(["--iface", "PCI", "--board", "gfx1100", "--smoke", "--json"])
    found = json.loads(text)
    check(status == 0 and found["board"]["violations"] == [], f"{status}: {found['board']}")
    check([gpu["chip"] for gpu in found["gpus"]] == ["gfx1100"] and found["smoke"], text)
    check("not booted: " in text and "left cleanly by its previous owner: " in text, text)


def test_registers_of_a_board(capsys: pytest.CaptureFixture[str]) -> None:
    text = regs.run(
        ["SCRATCH_REG6", "RCC_CONFIG_MEMSIZE", "--json", "--board", "gfx1201"], LinuxWorld()
    )
    values = {one["register"]: one["value"] for one in json.loads(text)}
    memsize = "RCC_DEV0_EPF0_RCC_CONFIG_MEMSIZE"
    check(values == {"SCRATCH_REG6": 2, memsize: 1024}, str(values))
    with pytest.raises(SystemExit, match="2"):
        regs.run(["SCRATCH_REG6", "--board", "gfx1"], LinuxWorld())
    check("there are gfx1100" in capsys.readouterr().err)


def test_sensors_of_a_board(capsys: pytest.CaptureFixture[str]) -> None:
    check(smi.command(["--json", "--board", "gfx1100"]) == 0, "exit status")
    readings = json.loads(capsys.readouterr().out)[0]["readings"]
    check(readings["memory_bytes"] == 1 << 30 and readings["power_limit_w"] > 0, readings)


@pytest.mark.parametrize(
    ("dma", "says"),
    [
        ("vram", "UNBOUND_DMA=vram: no DMA"),
        ("iommu", "DMA where the IOMMU lets it"),
        ("", "the IOMMU"),
    ],
)
def test_what_a_gpu_would_reach_is_what_was_asked_for(dma: str, says: str) -> None:
    board = machine()
    world, state = ForeignWorld(board), ForeignState(board.state)
    text, _ = probe(["--iface", "PCI"], world, {**environ(board), "AMD_DMA": dma}, state)
    words = " ".join(text.split())  # it is as wide as the terminal
    check(says in words and "would be claimed" in words, text)


def test_physical_addresses_are_named_as_such() -> None:
    board = machine(iommu=False)
    world, state = ForeignWorld(board), ForeignState(board.state)
    text, _ = probe(["--iface", "PCI"], world, {**environ(board), "AMD_DMA": "physical"}, state)
    check("addresses that no IOMMU guards" in text, text)

"""A command that gets another vendor's board, or an option that its board does not have."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

import pytest

from benchmarks import command as bench
from boards import __main__ as boards
from boards.vendors import VENDORS, vendor_of
from drivers import record
from drivers.amd import probe as amd_probe
from drivers.amd import regs, smi
from drivers.nv import probe as nv_probe
from drivers.nv import smi as nv_smi
from drivers.qcom import probe as qcom_probe
from tests.support import check

Main = Callable[[Sequence[str]], int]
USAGE = 2
OF_ONE_VENDOR: dict[str, tuple[str, Main]] = {
    "drivers.amd.probe": ("AMD", amd_probe.command),
    "drivers.amd.smi": ("AMD", smi.command),
    "drivers.amd.regs": ("AMD", regs.command),
    "drivers.nv.probe": ("NV", nv_probe.command),
    "drivers.nv.smi": ("NV", nv_smi.command),
    "drivers.qcom.probe": ("QCOM", qcom_probe.command),
}
MAKERS = {"AMD": "an AMD", "NV": "an NVIDIA", "QCOM": "a Qualcomm"}
CASES = [
    (module, chip)
    for module, (kind, _) in OF_ONE_VENDOR.items()
    for chip in ("gfx1100", "ga102", "a630")
    if vendor_of(chip).device != kind
]


def refused(main: Main, arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The last line of what a command prints that ends as a wrong command line does."""
    try:
        status = main(arguments)
    except SystemExit as ending:
        check(isinstance(ending.code, int))
        status = ending.code if isinstance(ending.code, int) else 0
    shown = capsys.readouterr()
    check(status == USAGE, f"{status}: {shown}")
    check(not shown.out, shown.out)
    return shown.err.strip().splitlines()[-1]


@pytest.mark.parametrize(("module", "chip"), CASES)
def test_a_board_of_another_vendor_is_refused_with_the_right_command(
    module: str, chip: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(OF_ONE_VENDOR[module][1], ["--board", chip], capsys)
    other = vendor_of(chip).device
    check(f"{chip} is {MAKERS[other]}" in line, line)
    _, _, command = line.rpartition("python -m ")
    advised, option, named = command.split()
    check((option, named) == ("--board", chip), line)
    check(advised.startswith(f"drivers.{other.lower()}."), line)
    check(advised in OF_ONE_VENDOR, f"there is no {advised}")
    same = f"drivers.{other.lower()}.{module.rpartition('.')[2]}"
    check(advised == (same if same in OF_ONE_VENDOR else f"drivers.{other.lower()}.probe"), line)


@pytest.mark.parametrize("module", OF_ONE_VENDOR)
def test_help_names_a_chip_of_the_vendor(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    kind, main = OF_ONE_VENDOR[module]
    with pytest.raises(SystemExit):
        main(["--help"])
    _, found, rest = capsys.readouterr().out.partition('a software GPU ("')
    check(found and vendor_of(rest.partition('"')[0]).device == kind, rest)


@pytest.mark.parametrize("module", OF_ONE_VENDOR)
def test_a_board_that_there_is_not(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(OF_ONE_VENDOR[module][1], ["--board", "gfx9999"], capsys)
    check("no board 'gfx9999'" in line and "python -m boards" in line, line)


@pytest.mark.parametrize(
    ("main", "arguments", "has"),
    [
        (
            amd_probe.command,
            ["--iface", "PCI", "--board", "gfx1030"],
            "over PCI: there are",
        ),
        (
            amd_probe.command,
            ["--iface", "USB", "--board", "gfx1030"],
            "over USB: there are",
        ),
        (smi.command, ["--board", "gfx1030"], "over PCI: there are"),
        (record.main, ["--board", "gfx9999", "x.py"], "no board 'gfx9999'"),
        (bench.main, ["--board", "gfx9999"], "no board 'gfx9999'"),
        (bench.main, ["--board", "ga102", "--compiler", "HIP"], "NVRTC or PTX"),
        (bench.main, ["--board", "a630", "--aql"], "leave --aql and --pm4 out"),
        (boards.main, ["vfio-user", "gfx1030", "--socket", "x"], "over PCI: there are"),
        (boards.main, ["vfio-user", "ga102", "--socket", "x"], "over PCI"),
        (boards.main, ["usbredir", "gfx1030", "--socket", "x"], "over PCI: there are"),
        (boards.main, ["run", "ga102", "--aql", __file__], "leave --aql and --pm4 out"),
        (boards.main, ["run", "a630", "--pm4", __file__], "leave --aql and --pm4 out"),
        (boards.main, ["run", "a630", "--compiler", "HIP", __file__], "use IR3"),
        (boards.main, ["run", "gfx1100", "--iface", "NVK", __file__], "use KFD or PCI or USB"),
        (boards.main, ["run", "gfx1030", "--iface", "PCI", __file__], "there are gfx1100"),
        (boards.main, ["run", "gfx1100", "--dma", "vram", __file__], "add --iface PCI"),
        (boards.main, ["trace", "ga102", "--trace", "x", __file__], "leave it out"),
    ],
)
def test_an_option_that_the_board_does_not_have(
    main: Main, arguments: list[str], has: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(main, arguments, capsys)
    check(has in line, line)


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.device)
def test_each_vendor_has_a_probe_to_advise(vendor: object) -> None:
    device = getattr(vendor, "device", "")
    check(callable(importlib.import_module(f"drivers.{device.lower()}.probe").command))

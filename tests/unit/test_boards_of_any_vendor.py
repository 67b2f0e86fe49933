"""`python -m boards` with a vendor of its own: what it says comes from the vendor's record."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from boards import __main__ as command
from boards import front, vendors
from boards.machine.chassis import Chassis, Facts, NameOf
from boards.run import run, set_environ
from boards.setup import Setup
from boards.vendors import Vendor
from drivers import kinds, registry
from drivers.base.errors import Unsupported
from drivers.registry import open_device
from tests.support import check

CHIP = "made-up-1"
KIND = "CL"
"""A kind that there is, with a driver of the test's own."""
HERE = __name__
ADD = """
from tensor import engine

device = engine.device("CL")
raise SystemExit(0 if device.limits.uses_host_memory else 3)
"""


class Watched:
    """Reports what the board says was wrong."""

    def __init__(self) -> None:
        self.reports: list[str] = []
        self.notes: dict[tuple[str, int, int], str] = {}

    def __call__(self, name: str, facts: Facts) -> None:
        if name == "hang":
            self.reports.append(f"hang of queue {facts['queue']}")


@dataclass
class FakeBoard:
    """A machine that only has a timeline."""

    name: str = "made up"
    hardware: Chassis = field(default_factory=Chassis)
    gpus: list[Any] = field(
        default_factory=lambda: [SimpleNamespace(chip=SimpleNamespace(name=CHIP))]
    )

    @property
    def violations(self) -> list[Any]:
        return self.hardware.violations


def never(*arguments: object) -> Any:
    raise Unsupported(f"no {arguments}")


def open_kind(world: object, choice: object, firmware: object) -> Any:
    """The driver: the processor's, on this machine. It is told of no `state`."""
    return open_device("CPU")


@pytest.fixture
def boards(monkeypatch: pytest.MonkeyPatch) -> list[FakeBoard]:
    """A second vendor; the boards that were switched on."""
    made: list[FakeBoard] = []

    def power_on(setup: Setup) -> FakeBoard:
        made.append(FakeBoard())
        return made[-1]

    def watch(board: object, name_of: NameOf) -> Watched:
        return Watched()

    vendor = Vendor(
        device=KIND, names=(CHIP,), pci_names=(), ifaces=("ICD", "PCI"), compilers=(),
        kernels={"ICD": ("9", "8")},
        kernel="render node", aql="", note="Made up.", describe=lambda name: f"{name}  a row",
        function=never, enclosure=None, observe=never, take_firmware=never, powered_on=never,
        power_on=power_on, watch=watch,
    )  # fmt: skip
    monkeypatch.setattr(vendors, "VENDORS", (*vendors.VENDORS, vendor))
    monkeypatch.setattr(command, "VENDORS", vendors.VENDORS)
    kind = replace(kinds.BY_NAME[KIND], opens=f"{HERE}:open_kind")
    for module in (front, registry):
        monkeypatch.setattr(module, "BY_NAME", {**kinds.BY_NAME, KIND: kind})
    return made


def program(folder: Path, text: str) -> Path:
    path = folder / "program.py"
    path.write_text(text)
    return path


@pytest.mark.usefixtures("boards")
def test_the_list_has_its_rows_and_its_note() -> None:
    lines = command.table().splitlines()
    check(lines[-2:] == [f"{CHIP}  a row", "Made up."], str(lines[-3:]))


@pytest.mark.usefixtures("boards")
def test_its_own_variables_are_set_and_no_others() -> None:
    environ = {"AMD": "1", "CL_IFACE": "x", "AMD_HANG_S": "3", "UNBOUND_DMA": "vram"}
    set_environ(Setup(CHIP, aql=True, iface="PCI"), environ)
    check(environ == {"DEV": KIND, "CL_IFACE": "PCI", "AMD_HANG_S": "3"}, str(environ))
    set_environ(Setup(CHIP, iface="ICD"), environ)
    check(environ == {"DEV": KIND, "AMD_HANG_S": "3"}, str(environ))


def test_a_program_runs_on_its_device(tmp_path: Path, boards: list[FakeBoard]) -> None:
    said = io.StringIO()
    status = run(Setup(CHIP), program(tmp_path, ADD), [], stderr=said)
    check(status == 0 and len(boards) == 1, said.getvalue())
    check(f"board {CHIP} (strict): no violations" in said.getvalue(), said.getvalue())
    run(Setup(CHIP, iface="PCI"), program(tmp_path, ADD), [], stderr=said)
    check(f"board {CHIP} over PCI (strict)" in said.getvalue(), said.getvalue())


def test_a_release_of_the_kernel_driver_is_one_of_the_vendors(boards: list[FakeBoard]) -> None:
    command.check_options(CHIP, kernel="8")
    with pytest.raises(ValueError, match="--kernel 7 is not for made-up-1 over ICD: use 9 or 8"):
        command.check_options(CHIP, kernel="7")
    check(Setup(CHIP, kernel="8").arguments[-2:] == ["--kernel", "8"])


def test_its_faults_and_its_timeline(
    tmp_path: Path, boards: list[FakeBoard], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang() -> None:
        hardware = boards[-1].hardware
        hardware.event("create queue", gpu=0, queue=4, kind="commands")
        hardware.event("hang", queue=4, why="made up")

    monkeypatch.setitem(globals(), "HANG", hang)
    text = f"import {HERE} as test\ntest.HANG()\n"
    said, trace = io.StringIO(), tmp_path / "trace.json"
    status = run(Setup(CHIP), program(tmp_path, text), [], trace=trace, stderr=said)
    check(status == 1 and "fault: hang of queue 4" in said.getvalue(), said.getvalue())
    events = json.loads(trace.read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    check(names == {"kernel driver (render node)", f"GPU 0: {CHIP}, software board"}, str(names))
    check([event["name"] for event in events if event["ph"] == "i"] == ["hang"], str(events))

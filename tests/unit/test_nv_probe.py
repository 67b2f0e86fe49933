"""`python -m drivers.nv.probe` and the doctor's rows on made-up machines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from drivers.doctor import Line
from drivers.kinds import BY_NAME, named
from drivers.nv import doctor, smi
from drivers.nv.probe import command, probe
from tests.fake_machine import X86, FakeMachine, pci
from tests.support import check

Files = Mapping[str, bytes | str]
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {0}  Release Build\n"
AT = "0000:65:00.0"
INFORMATION = (
    "Model: \t\t NVIDIA H200\nIRQ:   \t\t 94\nGPU UUID: \t GPU-????????\n"
    f"Bus Location: \t {AT}\nDevice Minor: \t {{}}\n"
)


def machine(
    version: str = "580.95.05", minor: str = "0", driver: str = "nvidia", *, managed: bool = True
) -> dict[str, bytes | str]:
    """A machine with one H200; files as the open kernel modules write them."""
    files: dict[str, bytes | str] = {**X86, **pci(AT, "10de:2335", driver=driver)}
    if version:
        files |= {
            "/proc/driver/nvidia/version": OPEN.format(version).encode(),
            "/sys/module/nvidia/version": f"{version}\n".encode(),
            "/dev/nvidiactl": b"",
            "/dev/nvidia-uvm": b"",
        }  # fmt: skip
    if managed:
        files |= {
            f"/proc/driver/nvidia/gpus/{AT}/information": INFORMATION.format(minor).encode(),
            f"/dev/nvidia{minor}": b"",
        }  # fmt: skip
    return files


def report(files: Files, denied: tuple[str, ...] = ()) -> dict[str, Any]:
    world = FakeMachine(files, denied)
    text, status = probe(["--json"], world)
    check(not world.touched and status == 0, "it only looks")
    return dict(json.loads(text))


def table(files: Files, denied: tuple[str, ...] = ()) -> str:
    text, _ = probe([], FakeMachine(files, denied))
    check(max(map(len, text.splitlines())) <= 100, text)
    return " ".join(text.split())


def rows(files: Files, denied: tuple[str, ...] = ()) -> list[Line]:
    return list(doctor.rows(FakeMachine(files, denied), {}))


def test_a_usable_gpu_in_json() -> None:
    found = report(machine(minor="3"))
    (gpu,) = found["gpus"]
    check((gpu["name"], gpu["state"], gpu["product"]) == ("NV:0", "usable", "NVIDIA H200"))
    check(gpu["pci"] == {"address": AT, "device": "2335"} and gpu["minor"] == 3, str(gpu))
    check(found["version"] == "580.95.05" and "Open Kernel Module" in found["module"])
    check(found["problem"] is None and found["note"] is None and found["unmanaged"] == [])


def test_the_table_says_the_same() -> None:
    shown = table(machine())
    check("NV:0 NVIDIA H200 10de:2335 at 0000:65:00.0: usable" in shown, shown)


@pytest.mark.parametrize(
    ("version", "kind", "words"),
    [("525.147.05", "Unsupported", "older than 535.86.05"),
     ("545.29.06", "Unsupported", "between branch 535 and 550.54.14"),
     ("580.9x", "MalformedInput", "which is none")],
)  # fmt: skip
def test_a_version_that_cannot_be_used(version: str, kind: str, words: str) -> None:
    found = report(machine(version))
    check(found["problem"]["kind"] == kind and words in found["problem"]["reason"], str(found))
    check(found["gpus"][0]["state"] == "not usable" and found["gpus"][0]["name"] == "-")
    check(any(words in row.text and row.state == "warn" for row in rows(machine(version))))


def test_a_newer_version_is_a_note() -> None:
    found = report(machine("999.10"))
    check(found["problem"] is None and "newer than 610" in found["note"], str(found))
    check(found["gpus"][0]["state"] == "usable")
    (row,) = rows(machine("999.10"))
    check(row.state == "warn" and "newer than 610" in row.text, str(row))


@pytest.mark.parametrize("path", ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0"])
def test_nodes_that_are_missing_or_forbidden(path: str) -> None:
    files = machine()
    forbidden = report(files, (path,))
    check(forbidden["gpus"][0]["state"] == "not usable", path)
    check(f"{path} may not be opened by this user" in table(files, (path,)))
    del files[path]
    check(report(files)["gpus"][0]["state"] == "not usable", path)
    check(f"{path} does not exist" in table(files))
    if path == "/dev/nvidia0":
        check(any("nvidia-modprobe -c 0" in row.advice for row in rows(files)), "a row")


@pytest.mark.parametrize(
    ("driver", "advice"),
    [("nouveau", "turns nouveau off"), ("", "modprobe nvidia"), ("vfio-pci", "give it back"),
     ("nvidia", "lines of NVRM")],
)  # fmt: skip
def test_a_gpu_that_the_kernel_driver_does_not_have(driver: str, advice: str) -> None:
    files = machine("", driver=driver, managed=False)
    found = report(files)
    (other,) = found["unmanaged"]
    check(other["address"] == AT and advice in other["advice"], str(other))
    check(found["gpus"] == [] and found["version"] is None)
    check(any(advice in row.advice for row in rows(files)), str(rows(files)))


@pytest.mark.parametrize("minor", ["", "x", "255", "-1", "0x1"])
def test_a_minor_that_is_none(minor: str) -> None:
    """It is passed over with its reason; the other keeps its place among NV:0, NV:1."""
    other = "0000:66:00.0"
    files = machine(minor=minor) | pci(other, "10de:2335", driver="nvidia")
    path = f"/proc/driver/nvidia/gpus/{other}/information"
    files |= {path: INFORMATION.format("1").encode(), "/dev/nvidia1": b""}
    found = report(files)
    check([one["name"] for one in found["gpus"]] == ["NV:1"], str(found["gpus"]))
    (passed,) = found["unmanaged"]
    check(passed["address"] == AT and "Device Minor" in passed["reason"], str(passed))
    check(passed["advice"] and found["problem"] is None, str(found))


def test_gpus_that_share_a_minor() -> None:
    files = machine()
    files["/proc/driver/nvidia/gpus/0000:66:00.0/information"] = INFORMATION.format("0").encode()
    found = report(files)
    check(found["gpus"] == [] and len(found["unmanaged"]) == 2, str(found))
    check("share minor 0" in found["unmanaged"][0]["reason"], str(found))


def test_a_machine_without_any() -> None:
    found = report(X86)
    check(found["gpus"] == [] and found["version"] is None and found["problem"] is None)
    check(rows(X86) == [], "no row")
    text, status = probe(["--smoke"], FakeMachine(X86))
    check(status == 1 and "no test was run: there is no usable GPU" in text, text)


def test_smi_says_why_there_is_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    check(smi.command(["--json"], FakeMachine(X86)) == 1)
    found = json.loads(capsys.readouterr().out)
    wanted = {"problem": "/dev/nvidiactl does not exist", "gpus": [], "unmanaged": []}
    check(found == wanted, str(found))
    smi.command([], FakeMachine(machine("525.147.05")))
    shown = capsys.readouterr().out
    check("older than 535.86.05" in shown and "NVIDIA H200" in shown, shown)
    check(max(map(len, shown.splitlines())) <= 100, shown)


def test_smi_shows_who_has_the_node_open(capsys: pytest.CaptureFixture[str]) -> None:
    files = machine("525.147.05") | {
        "/proc/70/comm": b"trainer\n", "/proc/70/fd/9": "/dev/nvidia0",
        "/proc/71/comm": b"shell\n", "/proc/71/fd/0": "/dev/pts/0", "/proc/72/comm": b"root\n",
    }  # fmt: skip
    smi.command(["--json"], FakeMachine(files))
    (gpu,) = json.loads(capsys.readouterr().out)["gpus"]
    check([one["name"] for one in gpu["processes"]] == ["trainer"], str(gpu))
    check(gpu["unseen_processes"] == 1, "72 shows its name alone")


def test_what_files_say_of_a_gpu() -> None:
    folder = f"/sys/bus/pci/devices/{AT}"
    files = machine() | {
        f"{folder}/current_link_speed": b"32.0 GT/s PCIe\n",
        f"{folder}/current_link_width": b"16\n",
    }
    (gpu,) = report(files)["gpus"]
    check(
        gpu["facts"] == {"irq": "94", "link": "32.0 GT/s PCIe x16"} and gpu["rm"] is None, str(gpu)
    )
    check("--ask opens it for a moment" in table(files), table(files))


def test_the_doctor_knows_it_and_a_wrong_board_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    check(named(BY_NAME["NV"].doctor) is doctor.rows)
    with pytest.raises(SystemExit, match="2"):
        command(["--board", "ga103"])
    check("no board 'ga103'" in capsys.readouterr().err)

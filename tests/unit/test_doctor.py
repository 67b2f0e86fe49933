"""drivers.doctor on made-up machines: each state of each topic, and nothing is changed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from drivers.doctor import Line, run
from drivers.doctor.__main__ import main
from drivers.doctor.checks import CHECKS
from drivers.probe.__main__ import main as probe
from drivers.world.state import LinuxState
from tests.fake_machine import X86, FakeMachine, enclosure, pci
from tests.support import check, run_limited

ROOT = Path(__file__).resolve().parents[2]
LIMITS = b"Max locked memory         unlimited            unlimited            bytes     \n"
NAVI, HOPPER = pci("0000:03:00.0", "1002:744c"), pci("0000:04:00.0", "10de:2330", "0x030200")
ROOT_STATUS = b"Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t\nCpus_allowed_list:\t0\n"
OTHER_STATUS = b"Uid:\t1\t1\t1\t1\nGid:\t1\t1\t1\t1\nGroups:\t\n"


def doctor(
    files: Mapping[str, bytes | str],
    denied: tuple[str, ...] = (),
    environ: Mapping[str, str] | None = None,
) -> list[Line]:
    return run(CHECKS, FakeMachine(files, denied), environ or {"HOME": "/etc"})


@pytest.mark.parametrize(
    ("topic", "files", "denied", "state", "says"),
    [
        ("kernel", {}, (), "ok", "6.12.0"),
        ("gpus", {}, (), "missing", "no GPU on PCI"),
        ("gpus", pci("0000:03:00.0", "1002:744c", driver="amdgpu"), (), "ok", "bound to amdgpu"),
        ("gpus", pci("0000:03:00.0", "1002:744c"), (), "warn", "no driver holds it"),
        ("usb", {}, (), "missing", "no enclosure with an ASM2464PD"),
        ("usb", enclosure("add1:0001", "custom v0.1"), (), "ok", "sends PCI Express packets"),
        ("usb", enclosure("174c:2464", "ASM246X"), (), "warn", "the maker's firmware"),
        ("usb", enclosure("add1:0001", "custom v0.1"), ("/dev/bus/usb/002/007",), "warn",
         "may not be opened by this user"),
        ("modules", {"/sys/module/amdgpu/version": b"6.1\n"}, (), "ok", "amdgpu 6.1 is loaded"),
        ("modules", NAVI, (), "missing", "amdgpu is not loaded"),
        ("modules", NAVI, (), "missing", "vfio_pci is not loaded"),
        ("nodes", {"/dev/kfd": b""}, (), "ok", "/dev/kfd can be opened"),
        ("nodes", {"/dev/kfd": b""}, ("/dev/kfd",), "warn", "/dev/kfd may not be opened"),
        ("nodes", NAVI, (), "missing", "/dev/kfd does not exist"),
        ("nodes", {"/dev/dri/renderD128": b""}, (), "ok", "/dev/dri/renderD128 can be opened"),
        ("nodes", NAVI, (), "missing", "/dev/dri/renderD* does not exist"),
        ("groups", {}, (), "ok", "this user is in render"),
        ("groups", {}, (), "warn", "this user is not in plugdev"),
        ("groups", {"/etc/group": b"x:x:0:\n"}, (), "missing", "there is no group render"),
        ("groups", {"/proc/self/status": ROOT_STATUS}, (), "warn", "this is root"),
        ("groups", {"/proc/self/status": b"Uid:\tx\n"}, (), "warn", "no numeric Uid"),
        ("groups", {"/proc/self/status": OTHER_STATUS}, (), "warn", "not in render"),
        ("iommu", NAVI, (), "missing", "no IOMMU groups"),
        ("iommu", {"/sys/kernel/iommu_groups/7/type": b"DMA"}, (), "ok", "1 IOMMU groups"),
        ("huge pages", {}, (), "ok", "madvise"),
        ("huge pages", {"/sys/kernel/mm/transparent_hugepage/enabled": b"always [never]"}, (),
         "warn", "never"),
        ("huge pages", {"/proc/meminfo": b"HugePages_Total: x"}, (), "warn", "no number"),
        ("memlock", NAVI, (), "warn", "8 MiB"),
        ("memlock", {}, (), "ok", "8 MiB"),
        ("memlock", {"/proc/self/limits": LIMITS}, (), "ok", "no limit"),
        ("memlock", {"/proc/self/limits": b""}, (), "warn", "Max locked memory"),
        ("firmware", {**NAVI, "/lib/firmware/amdgpu/a.bin": b""}, (), "ok",
         "/lib/firmware/amdgpu: 1"),
        ("firmware", HOPPER, (), "missing", "no nvidia directory"),
        ("settings", {}, (), "ok", "/etc/.cache/unbound"),
        ("settings", {}, ("/etc",), "warn", "/etc may not be written"),
    ],
)  # fmt: skip
def test_each_state_is_told(
    topic: str, files: dict[str, bytes | str], denied: tuple[str, ...], state: str, says: str
) -> None:
    lines = doctor({**X86, **files}, denied)
    found = [line for line in lines if line.topic == topic and says in line.text]
    check(len(found) == 1 and found[0].state == state, str(lines))
    check(state == "ok" or topic in ("groups", "huge pages", "memlock") or found[0].advice)


@pytest.mark.parametrize(
    ("environ", "state", "says"),
    [
        ({"AMD": "1", "NV": "1"}, "warn", "different devices"),
        ({"DEV": "AMD:2"}, "ok", "AMD:2"),
        ({}, "warn", "HOME is not set"),
    ],
)
def test_settings(environ: dict[str, str], state: str, says: str) -> None:
    lines = run(CHECKS, FakeMachine(X86), environ)
    found = [line for line in lines if line.topic == "settings" and says in line.text]
    check(found and found[0].state == state, str(lines))


def test_it_only_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    world = FakeMachine({**X86, **NAVI, "/dev/kfd": b"", "/dev/dri/renderD128": b""})
    rows = json.loads(main(["--json"], world, {"HOME": "/etc"})[0])["lines"]
    check({row["state"] for row in rows} <= {"ok", "warn", "missing"})
    check({row["topic"] for row in rows} == set(CHECKS))
    text, status = main([], world, {"HOME": "/etc"})
    check(status == 0 and max(map(len, text.splitlines())) <= 100)
    check(not world.touched and not world.fds)


def test_a_machine_without_a_gpu_has_few_rows() -> None:
    """Of every vendor together one: nothing is here. Compilers are listed all the same."""
    rows = doctor(X86)
    missing = [row for row in rows if row.state == "missing" and row.topic != "compilers"]
    check(len(missing) == 2, str(missing))
    (absent,) = [row.text for row in rows if row.topic == "gpus"]
    check(absent == (
        "no GPU on PCI; AMD GPU, NVIDIA GPU, Qualcomm Adreno GPU: nothing here"
    ), absent)  # fmt: skip
    check(not {"modules", "nodes", "firmware", "iommu"} & {row.topic for row in rows}, str(rows))
    check(not any("modprobe" in row.advice for row in rows), str(rows))


@pytest.mark.parametrize(
    ("files", "shown", "absent"),
    [
        (NAVI, {"amdgpu"}, "NVIDIA GPU, Qualcomm Adreno GPU"),
        (HOPPER, {"nvidia", "nvidia_uvm"}, "AMD GPU, Qualcomm Adreno GPU"),
        ({"/dev/nvidiactl": b""}, {"nvidia", "nvidia_uvm"}, "AMD GPU, Qualcomm Adreno GPU"),
        ({"/dev/kgsl-3d0": b""}, {"msm"}, "AMD GPU, NVIDIA GPU"),
        ({"/proc/device-tree/compatible": b"lenovo,x13s\0qcom,sc8280xp\0"}, {"msm"},
         "AMD GPU, NVIDIA GPU"),
        ({"/dev/dri/renderD128": b"", "/sys/class/drm/renderD128/device/driver": "a/msm_dpu"},
         {"msm"}, "AMD GPU, NVIDIA GPU"),
        (pci("0000:00:02.0", "8086:9a49"), set(), "AMD GPU, NVIDIA GPU, Qualcomm Adreno GPU"),
    ],
)  # fmt: skip
def test_a_vendor_has_rows_where_something_of_it_is_here(
    files: dict[str, bytes | str], shown: set[str], absent: str
) -> None:
    rows = doctor({**X86, **files})
    found = {row.text.split()[0] for row in rows if row.topic == "modules"} - {"vfio_pci"}
    check(found == shown, str(rows))
    check(any(f"{absent}: nothing here" in row.text for row in rows), str(rows))


def test_compilers_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drivers.doctor.compilers.installed", {"llvmlite": "0.50.0"}.get)
    files = {**X86, "/usr/lib64/libamd_comgr.so.3": b"", "/usr/bin/clang": "../llvm-19/bin/clang"}
    rows = run(CHECKS, FakeMachine(files), {"PATH": "/usr/bin"})
    found = [(row.state, row.text) for row in rows if row.topic == "compilers"]
    check(found == [
        ("ok", "LLVM: the Python package llvmlite 0.50.0"),
        ("ok", "clang: /usr/bin/clang (version 19)"),
        ("ok", "COMGR: /usr/lib64/libamd_comgr.so.3"),
        ("missing", "nvrtc: not installed"),
    ], str(found))  # fmt: skip


@pytest.mark.parametrize(("columns", "most"), [("60", 60), ("1", 40), ("140", 140), ("x", 100)])
def test_the_width_follows_columns(
    columns: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    world = FakeMachine({**X86, **NAVI})
    for text in (main([], world, {"HOME": "/etc"})[0], probe([], world, {"HOME": "/etc"})):
        wide = [line for line in text.splitlines() if len(line) > most]
        words = [line for line in wide if len(line.split()) > 2]
        check(not words and (most < 100 or max(map(len, text.splitlines())) > 80), str(wide))


def test_restore_prints_json(tmp_path: Path) -> None:
    state = LinuxState.open(str(tmp_path))
    text, status = main(["--restore", "--json"], FakeMachine(X86), {}, state)
    (line,) = json.loads(text)["lines"]
    check(status == 0 and line["topic"] == "restore" and "nothing to give back" in line["text"])
    state.close()


def test_an_empty_machine_is_told_too() -> None:
    lines = run(CHECKS, FakeMachine({}), {})
    few = {"kernel", "gpus", "usb", "compilers", "groups", "huge pages", "memlock", "settings"}
    check({line.topic for line in lines} == few, str(lines))
    check(all(line.state in ("ok", "warn", "missing") for line in lines))


def test_the_command_exits_with_0_here() -> None:
    for arguments in ([], ["--json"]):
        done = run_limited(
            [sys.executable, "-m", "drivers.doctor", *arguments],
            cwd=ROOT,
            env=dict(os.environ),
            capture_output=True,
            text=True,
            cpu_s=60,
        )
        check(done.returncode == 0 and "memlock" in done.stdout, done.stderr)

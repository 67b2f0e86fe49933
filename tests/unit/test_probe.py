"""drivers.probe on made-up machines: what is usable, and the exact reason for the rest."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from drivers.base.answers import Answers
from drivers.base.errors import DeviceError
from drivers.machine.behind import Seen, judged
from drivers.probe import Machine, Result, run
from drivers.probe.__main__ import main
from drivers.probe.kinds import CHECKS
from tests.amd_trees import GFX1036, GFX1100, machine
from tests.fake_machine import X86, FakeMachine, enclosure, pci
from tests.share import part
from tests.support import check, run_limited

ROOT = Path(__file__).resolve().parents[2]
NAVI, HOPPER = "1002:744c", "10de:2330"
MUTATIONS = part(3000, 500)


def probe(
    files: Mapping[str, bytes | str],
    denied: tuple[str, ...] = (),
    packages: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> dict[str, Result]:
    installed = {"llvmlite": "0.50.0"} if packages is None else packages
    machine = Machine(FakeMachine(files, denied), environ or {"PATH": "/usr/bin"}, installed.get)
    results = run(CHECKS, machine)
    return {f"{f.kind} {f.iface}".strip(): f for f in results}


def test_without_a_gpu_only_the_cpu_is_ready() -> None:
    found = probe(X86)
    check([name for name, result in found.items() if result.ready] == ["CPU"])
    check(len(found) == 12)
    for name, result in found.items():
        check(result.reason, name)
        check(result.ready or result.advice, f"{name} has no advice")
    check("/dev/kfd does not exist" in found["AMD KFD"].reason)
    check("lspci -d 1002:" in found["AMD KFD"].advice)


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("QCOM KGSL", {"/dev/kgsl-3d0": b""}),
        ("QCOM MSM", {"/dev/dri/renderD128": b"",
                      "/sys/class/drm/renderD128/device/driver": "a/msm_dpu"}),
    ],
)  # fmt: skip
def test_memory_of_a_gpu_that_has_the_machines(name: str, files: Mapping[str, bytes | str]) -> None:
    meminfo = {"/proc/meminfo": b"MemTotal:        7864320 kB\nMemFree:  1 kB\n"}
    found = probe({**X86, **files, **meminfo})[name]
    check(found.details["memory_bytes"] == 7864320 << 10 and "7.5 GiB" in found.reason, str(found))
    wrong = probe({**X86, **files, "/proc/meminfo": b"MemTotal: much\n"})
    check(wrong[name].ready and "memory_bytes" not in wrong[name].details, "it hides nothing")


def test_memory_of_devices_behind_a_library() -> None:
    seen = [Seen("A", "liba.so"), Seen("B", "liba.so")]
    answers = Answers(facts=[{"title": "A", "memory_bytes": 3 << 29}, {"title": "B"}])
    machine = Machine(FakeMachine(X86), {}, {}.get)
    found = judged(machine, "CL", seen, answers, "nothing", "")
    check(found.reason == "A, 1.5 GiB; B" and found.details["memory_bytes"] == {"A": 3 << 29},
          str(found))  # fmt: skip


def test_the_cpu_tells_its_facts() -> None:
    files = {**X86, "/usr/bin/clang": "../lib/llvm-17/bin/clang"}
    details = probe(files)["CPU"].details
    check((details["arch"], details["threads"], details["vector_bits"]) == ("x86_64", 4, 256))
    check(details["memory_bytes"] == 1 << 30)
    check(details["compilers"] == {
        "LLVM": "llvmlite 0.50.0", "CLANG": "/usr/bin/clang (version 17)"
    })  # fmt: skip


def test_the_clang_of_a_wheel_is_listed() -> None:
    details = probe(X86, packages={"ziglang": "0.17.1"})["CPU"].details
    check(details["compilers"] == {"CLANG": "ziglang 0.17.1"}, str(details["compilers"]))


def test_the_cpu_needs_a_compiler() -> None:
    found = probe(X86, packages={})["CPU"]
    check(not found.ready and "llvmlite" in found.advice)


@pytest.mark.parametrize(
    ("name", "files", "denied", "ready", "says"),
    [
        ("AMD KFD", machine(GFX1100), (), True, "AMD: gfx1100 Radeon RX 7900"),
        ("AMD KFD", {"/dev/kfd": b""}, (), False, "kfd/topology does not exist"),
        ("AMD KFD", machine(GFX1036), (), False, "gfx1036"),
        ("AMD KFD", {"/dev/kfd": b""}, ("/dev/kfd",), False, "may not be opened"),
        ("AMD KFD", pci("0000:03:00.0", NAVI), (), False, "1002:744c at 0000:03:00.0"),
        ("AMD PCI", pci("0000:03:00.0", NAVI), (), False, "no driver holds it"),
        ("AMD PCI", pci("0000:03:00.0", NAVI, driver="vfio-pci"), (), False, "vfio-pci"),
        ("AMD PCI", pci("0000:03:00.0", NAVI, driver="amdgpu"), (), False, "bound to amdgpu"),
        ("AMD PCI", pci("0000:03:00.0", NAVI, kind="0x040300"), (), False, "no AMD GPU is on PCI"),
        ("AMD PCI", pci("0000:03:00.0", NAVI, kind="0x120000"), (), False, "1002:744c"),
        ("NV PCI", pci("0000:03:00.0", NAVI), (), False, "no NVIDIA GPU is on PCI"),
        ("NV PCI", pci("0000:03:00.0", HOPPER, "0x030200"), (), True, "10de:2330"),
        ("NV PCI", pci("0000:03:00.0", HOPPER, "0x030200"),
         ("/sys/bus/pci/devices/0000:03:00.0/resource0",), False, "may not be opened"),
        ("AMD USB", enclosure("add1:0001", "custom v0.1"), (), True, "'custom v0.1' at 2-1, 10 Gb"),
        ("AMD USB", enclosure("add1:0001", "custom v0.1"), ("/dev/bus/usb/002/007",), False,
         "/dev/bus/usb/002/007 may not be opened"),
        ("AMD USB", enclosure("174c:2464", "ASM246X"), (), False, "the maker's firmware"),
        ("AMD USB", enclosure("add1:0001", "AS2462"), (), False, "with a patch"),
        ("AMD USB", {}, (), False, "no enclosure"),
        ("NV NVK", {"/dev/nvidiactl": b""}, (), False, "/dev/nvidia-uvm does not exist"),
        ("NV NVK", {"/dev/nvidiactl": b"", "/dev/nvidia-uvm": b"",
                    "/proc/driver/nvidia/version": b"NVRM version: 570.1\nGCC"}, (), True, "570.1"),
        ("NV NVK", {"/dev/nvidiactl": b"", "/dev/nvidia-uvm": b"",
                    "/sys/module/nvidia/version": b"525.147.05\n"}, (), False, "older than 535"),
        ("NV NVK", {"/dev/nvidiactl": b"", "/dev/nvidia-uvm": b"",
                    "/sys/module/nvidia/version": b"999.10\n"}, (), True, "newer than 610"),
        ("QCOM KGSL", {"/dev/kgsl-3d0": b""}, (), True, "/dev/kgsl-3d0"),
        ("QCOM MSM", {"/dev/dri/renderD128": b"",
                      "/sys/class/drm/renderD128/device/driver": "a/msm_dpu"}, (), True,
         "renderD128"),
        ("QCOM MSM", {"/dev/dri/renderD128": b"",
                      "/sys/class/drm/renderD128/device/driver": "a/i915"}, (), False, "i915"),
        ("CUDA", {"/usr/lib64/libcuda.so.1": b""}, (), False, "/dev/nvidiactl"),
        ("CUDA", {"/usr/lib64/libcuda.so.1": b"", "/dev/nvidiactl": b""}, (), False,
         "libcuda.so.1 cannot be loaded"),
        ("CL", {"/usr/lib/libOpenCL.so.1": b""}, (), False, "no vendor"),
        ("CL", {"/usr/lib/libOpenCL.so.1": b"", "/etc/OpenCL/vendors/pocl.icd": b""}, (), False,
         "pocl.icd"),
        ("WEBGPU", {"/usr/lib/libwgpu_native.so": b""}, (), False,
         "libwgpu_native.so cannot be loaded"),
        ("METAL", {}, (), False, "Linux"),
    ],
)  # fmt: skip
def test_each_kind_says_what_it_found(
    name: str, files: dict[str, bytes | str], denied: tuple[str, ...], ready: bool, says: str
) -> None:
    result = probe({**X86, **files}, denied)[name]
    check(result.ready == ready, str(result))
    check(says in result.reason, result.reason)


def test_an_environment_names_more_libraries() -> None:
    files = {**X86, "/opt/cl/libOpenCL.so.1": b"", "/etc/OpenCL/vendors/x.icd": b""}
    check("not installed" in probe(files)["CL"].reason)
    found = probe(files, environ={"LD_LIBRARY_PATH": "/a:/opt/cl"})["CL"].reason
    check("/opt/cl/libOpenCL.so.1, x.icd: no device; libOpenCL.so.1 cannot be loaded" in found)


def test_hardware_without_a_driver_of_ours_is_reported_as_such(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    world = FakeMachine({**X86, **pci("0000:03:00.0", HOPPER, "0x030200"), "/dev/kfd": b""})
    rows = json.loads(main(["--json"], world, {}))["devices"]
    row = next(row for row in rows if (row["kind"], row["iface"]) == ("NV", "PCI"))
    check(row["machine_ready"] and not row["usable"] and not row["driver_written"], str(row))
    check(row["state"] == "no driver written yet" and "10de:2330" in row["reason"], str(row))
    cpu = rows[0]
    check((cpu["kind"], cpu["usable"], cpu["state"]) == ("CPU", True, "usable"), str(cpu))
    table = main([], world, {})
    check("no driver written yet" in table and max(map(len, table.splitlines())) <= 100)
    check(not world.touched, "it only looks")


def test_a_broken_sysfs_is_one_rows_reason() -> None:
    files = {**X86, "/sys/bus/pci/devices/0000:00:02.0/class": b"banana"}
    found = probe(files)
    check("is no 24-bit hex number" in found["AMD PCI"].reason, str(found["AMD PCI"]))
    check(found["CPU"].ready, "the other rows go on")


def test_mutated_machines_never_escape_our_errors() -> None:
    files = {**X86, **pci("0000:03:00.0", NAVI, driver="amdgpu"), "/dev/kfd": b""}
    rng, names = random.Random(9), sorted(files)
    for _ in range(MUTATIONS):
        mutated = dict(files)
        for name in rng.sample(names, 3):
            data = mutated[name]
            if isinstance(data, bytes):
                noise = rng.randbytes(rng.randrange(12))
                at = rng.randint(0, len(data))
                mutated[name] = data[:at] + noise * rng.choice([1, 1, 9000]) + data[at + 3 :]
        try:
            text = "".join(f.reason for f in probe(mutated).values())
        except DeviceError as error:
            raise AssertionError("run() tells errors as reasons") from error
        check(text.isprintable() and len(text) < 20_000, ascii(text)[:300])


def test_the_command_exits_with_0_here() -> None:
    for arguments in ([], ["--json"]):
        done = run_limited(
            [sys.executable, "-m", "drivers.probe", *arguments],
            cwd=ROOT,
            env=dict(os.environ),
            capture_output=True,
            text=True,
            cpu_s=60,
        )
        check(done.returncode == 0 and "CPU" in done.stdout, done.stderr)

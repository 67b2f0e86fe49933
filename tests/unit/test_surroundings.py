"""WSL, Jetson, Android, containers, no /proc, other pages: one line that says what works there."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping

import pytest

from drivers.doctor import run
from drivers.doctor.checks import CHECKS
from drivers.machine.surroundings import page_bytes, surroundings
from drivers.probe.__main__ import main as probe
from drivers.world.linux import PAGE_BYTES, LinuxWorld
from tests.fake_machine import X86, FakeMachine, pci
from tests.support import check

Files = Mapping[str, bytes | str]


def auxiliary(page: int) -> bytes:
    """An auxiliary vector as the kernel writes it: AT_HWCAP, AT_PAGESZ, AT_NULL; getauxval(3)."""
    return struct.pack("=6Q", 16, 0xFF, 6, page, 0, 0)


def released(text: str) -> Files:
    return {"/proc/sys/kernel/osrelease": text.encode() + b"\n"}


WSL: Files = {
    # src: microsoft/WSL issue 40464; ROCm issue 3734
    **released("6.6.87.2-microsoft-standard-WSL2"), "/dev/dxg": b"",
    "/usr/lib/wsl/lib/libcuda.so.1": b"",
}  # fmt: skip
WHERE = {
    "WSL 2": (WSL, "WSL 2", "CUDA=1 (NVIDIA), CL=1 or WEBGPU=1"),
    "WSL 2 with a kernel of its own": ({**released("6.6.0-custom"), "/dev/dxg": b""}, "WSL 2",
                                       "/dev/dxg"),
    "WSL 2 without a GPU": (released("5.15.90.1-microsoft-standard-WSL2"), "WSL without a GPU",
                            "update WSL"),
    "WSL 1": (released("4.4.0-19041-Microsoft"), "WSL 1", "needs WSL 2"),
    "Jetson": ({"/etc/nv_tegra_release": b"# R36 (release), REVISION: 4.3\n"}, "NVIDIA Jetson",
               "CUDA=1"),
    "Jetson by its device tree": ({"/proc/device-tree/compatible":
                                   b"nvidia,p3768-0000+p3767-0005\0nvidia,tegra234\0"},
                                  "NVIDIA Jetson", "nvgpu"),
    "Android": ({"/system/build.prop": b""}, "Android", "QCOM=1"),
    "Termux": ({"/data/data/com.termux/files/usr/bin/python": b""}, "Android (Termux)",
               "pkg install clang"),
    "Docker": ({"/.dockerenv": b""}, "a container without device nodes", "--device=/dev/kfd"),
    "Podman": ({"/run/.containerenv": b""}, "a container without device nodes", "--gpus all"),
    "pages of 64 KiB": ({"/proc/self/auxv": auxiliary(1 << 16)}, "a kernel with pages of 64 KiB",
                        "pages of 4 KiB"),
    "pages of 16 KiB": ({"/proc/self/auxv": auxiliary(1 << 14)}, "a kernel with pages of 16 KiB",
                        "CPU=1"),
}  # fmt: skip


@pytest.mark.parametrize("name", WHERE)
def test_one_line_names_it_and_what_works(name: str) -> None:
    files, title, works = WHERE[name]
    world = FakeMachine({**X86, **files})
    found = surroundings(world)
    check(found is not None and found.name == title and works in found.works, str(found))
    lines = run(CHECKS, world, {"HOME": "/etc"})
    named = [line for line in lines if line.text == title]
    check(len(named) == 1 and named[0].topic == "kernel", str(lines))
    check(not any("modprobe" in f"{line.text} {line.advice}" for line in lines), str(lines))
    rows = json.loads(probe(["--json"], world, {}))
    check(rows["environment"]["name"] == title, str(rows["environment"]))
    if "pages" not in name:
        check(not any("modprobe" in row["advice"] for row in rows["devices"]), str(rows))
    shown = probe([], world, {}).splitlines()[0]
    check(shown.startswith("environment") and title in shown, shown)


@pytest.mark.parametrize(
    "files",
    [{}, {"/.dockerenv": b"", "/dev/dri/renderD128": b""}, {"/proc/self/auxv": auxiliary(4096)},
     {"/proc/self/auxv": b"short"}, {"/proc/device-tree/compatible": b"qcom,sc8280xp\0"}],
)  # fmt: skip
def test_a_usual_machine_has_no_such_line(files: Files) -> None:
    world = FakeMachine({**X86, **files})
    check(surroundings(world) is None, str(surroundings(world)))
    check(json.loads(probe(["--json"], world, {}))["environment"] is None)


def test_without_proc_that_is_what_is_said() -> None:
    found = surroundings(FakeMachine({"/sys/class/drm/version": b"drm\n"}))
    check(found is not None and "mount -t proc" in found.works, str(found))


def test_a_module_is_advised_where_one_can_be_loaded() -> None:
    files = {**X86, **pci("0000:03:00.0", "1002:744c"), "/proc/self/auxv": auxiliary(1 << 16)}
    lines = run(CHECKS, FakeMachine(files), {"HOME": "/etc"})
    check(any("modprobe" in line.advice for line in lines), "pages are no reason against it")


def test_in_wsl_libcuda_needs_no_node() -> None:
    files = {**X86, **WSL}
    rows = json.loads(probe(["--json"], FakeMachine(files), {}))["devices"]
    (cuda,) = [row for row in rows if row["kind"] == "CUDA"]
    check("/usr/lib/wsl/lib/libcuda.so.1" in cuda["reason"], str(cuda))
    check("nvidiactl" not in cuda["reason"], "there is none in WSL")


def test_the_size_of_pages_here() -> None:
    check(page_bytes(LinuxWorld()) == PAGE_BYTES)

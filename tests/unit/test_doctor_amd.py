"""The doctor's rows about AMD GPUs, on made-up machines."""

from __future__ import annotations

from drivers.doctor import Line, run
from drivers.doctor.checks import CHECKS
from tests.amd_trees import GFX1100, GFX1103, GFX1150, GFX1151, Files, machine
from tests.fake_machine import X86, FakeMachine
from tests.support import check

_DEVICE = "/sys/class/drm/renderD129/device"
_MIB, _GIB = 1 << 20, 1 << 30
_MEMORY = {
    "/proc/meminfo": b"MemTotal:       131072000 kB\nHugePages_Total:       0\n",
    "/proc/sys/kernel/osrelease": b"7.3.0\n",
    "/sys/module/ttm/parameters/pages_limit": b"16384000\n",
    "/sys/module/amdgpu/parameters/gttsize": b"-1\n",
    f"{_DEVICE}/mem_info_vram_total": b"%d\n" % (512 * _MIB),
    f"{_DEVICE}/mem_info_gtt_total": b"%d\n" % (16384000 << 12),
}
"""125 GiB, half of which TTM gives to GPUs; firmware keeps 512 MiB."""


def rows(files: Files) -> list[Line]:
    """The rows that name an AMD chip."""
    world = FakeMachine({**X86, **files})
    lines = run(CHECKS, world, {"HOME": "/etc"})
    found = [line for line in lines if line.topic == "gpus" and "gfx1" in line.text]
    check(not world.touched, "it only looks")
    return found


def strix_halo(**changes: int) -> Files:
    return {**machine(GFX1151 | changes, vram_bytes=16384000 << 12), **_MEMORY}


def save_sizes() -> dict[str, int]:
    return {"cwsr_size": 0x1400000, "ctl_stack_size": 0x4000}


def test_a_card_has_no_rows() -> None:
    check(rows(machine(GFX1100)) == [] and rows({}) == [], "no processor's GPU")


def test_what_a_kernel_lacks() -> None:
    """src: kfd_int_process_v11.c of 6.1; ROCr 7.2.4 on gfx1151; kfd_ioctl.h of each kernel"""
    for release, wanted in (
        ("5.15.0-91-generic", ["too old for AMD GPUs"]), ("6.1.0-26-amd64", ["no page fault"]),
        ("6.12.48+deb13-amd64", []), ("7.3.0-rc7", []), ("odd", []),
    ):  # fmt: skip
        files = machine(GFX1100) | {"/proc/sys/kernel/osrelease": f"{release}\n".encode()}
        world = FakeMachine({**X86, **files})
        lines = [one for one in run(CHECKS, world, {"HOME": "/etc"}) if one.topic == "gpus"]
        for what in ("too old for AMD GPUs", "no page fault"):
            found = any(what in line.text and line.state == "warn" for line in lines)
            check(found == (what in wanted), f"{release}: {[line.text for line in lines]}")
    for release, asked in (("6.12.1", True), ("7.3.0", False)):
        files = strix_halo(**save_sizes()) | {"/proc/sys/kernel/osrelease": f"{release}\n".encode()}
        found = any("KFD 1.20" in line.text for line in rows(files))
        check(found == asked, release)


def test_memory_of_the_machine() -> None:
    (line,) = rows(strix_halo(**save_sizes()))
    check(line.state == "ok", str(line))
    check("gfx1151 at 0000:c5:00.0 may use 62.5 GiB" in line.text, line.text)
    check("TTM's limit is 62.5 of 125.0 GiB" in line.text, line.text)
    check("ttm.pages_limit=30670848 " in line.advice and "(117 GiB)" in line.advice, line.advice)


def test_memory_that_firmware_keeps_comes_on_top() -> None:
    files = strix_halo(**save_sizes()) | machine(GFX1151 | save_sizes(), vram_bytes=96 * _GIB)
    files |= {
        f"{_DEVICE}/mem_info_vram_total": b"%d\n" % (96 * _GIB),
        f"{_DEVICE}/mem_info_gtt_total": b"%d\n" % (14 * _GIB),
        "/sys/module/ttm/parameters/pages_limit": b"%d\n" % (14 * _GIB >> 12),
        "/proc/meminfo": b"MemTotal: %d kB\nHugePages_Total: 0\n" % (21 * _GIB >> 10),
    }
    (line,) = rows(files)
    check("may use 110.0 GiB; TTM's limit is 14.0 of 21.0 GiB" in line.text, line.text)
    check(line.advice == "", "more than all but 8 GiB is not advised")


def test_a_limit_of_amdgpus_own() -> None:
    files = strix_halo(**save_sizes()) | {"/sys/module/amdgpu/parameters/gttsize": b"4096\n"}
    memory, gtt = rows(files)
    check(memory.state == "ok" and gtt.state == "warn", str(gtt))
    check("amdgpu.gttsize=4096" in gtt.text and "ttm.pages_limit" in gtt.advice, str(gtt))


def test_firmware_that_hangs() -> None:
    for properties in (GFX1150, GFX1151):
        for version, known in ((0x83, True), (0x6083, True), (0x80, False), (0x84, False)):
            files = {**machine(properties | save_sizes()), **_MEMORY}
            files[f"{_DEVICE}/fw_version/mes_fw_version"] = b"0x%08x\n" % version
            found = [line for line in rows(files) if "MES firmware" in line.text]
            check(bool(found) == known, f"{version:#x}: {found}")
            check(not known or (found[0].state == "warn" and "20251125" in found[0].advice))
    files = {**machine(GFX1103 | save_sizes()), **_MEMORY}
    files[f"{_DEVICE}/fw_version/mes_fw_version"] = b"0x00000083\n"
    check(not any("MES" in line.text for line in rows(files)), "another chip's firmware")


def test_a_kernel_that_may_have_too_small_a_save_area() -> None:
    (warned,) = [line for line in rows(strix_halo()) if line.state == "warn"]
    check("may refuse its queues" in warned.text and "update the kernel" in warned.advice)
    for properties in (GFX1150, GFX1103):
        check(not [one for one in rows({**machine(properties), **_MEMORY}) if one.state == "warn"])


def test_memory_that_nobody_tells_of() -> None:
    release = {"/proc/sys/kernel/osrelease": b"7.3.0\n"}
    (line,) = rows(machine(GFX1151 | save_sizes()) | release)
    check(line.state == "warn" and "pages_limit" in line.text, str(line))

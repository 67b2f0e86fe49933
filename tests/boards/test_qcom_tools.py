"""The probe, the doctor's rows and the decoder of an Adreno, on boards."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from drivers.qcom import doctor
from drivers.qcom.probe import probe
from queues import decode
from queues.qcom.chips import chip_named
from queues.qcom.words import setup
from tests.fake_machine import X86, FakeMachine
from tests.qcom_devices import QcomMachine, opened
from tests.support import check


@pytest.mark.parametrize(("chip", "iface"), [("a630", "KGSL"), ("a660", "MSM"), ("x1-85", "MSM")])
def test_the_probe_tests_a_board(chip: str, iface: str) -> None:
    text, status = probe(["--board", chip, "--iface", iface, "--smoke", "--json"])
    facts = json.loads(text)
    check(status == 0 and facts["board"]["violations"] == [], text)
    check([node["way"] for node in facts["nodes"]] == [iface], text)
    check(len(facts["smoke"]) > 6 and all(one["ok"] for one in facts["smoke"]), text)
    shown, status = probe(["--board", chip, "--iface", iface])
    check(status == 0 and "may be opened" in shown, shown)


@pytest.mark.parametrize("iface", ["KGSL", "MSM"])
def test_the_doctor_s_rows(iface: str) -> None:
    chip = {"KGSL": "a630", "MSM": "a740"}[iface]
    lines = [*doctor.rows(QcomMachine(chip, iface), {})]
    check(lines[0].state == "ok" and "Adreno" in lines[0].text, str(lines))
    check(len(lines) == 2 and {"KGSL": "page fault", "MSM": "lacks"}[iface] in lines[1].text,
          str(lines))  # fmt: skip


def machine(files: Mapping[str, bytes | str], denied: tuple[str, ...] = ()) -> Any:
    """What the doctor may look at."""
    return FakeMachine(files, denied)


KGSL: dict[str, bytes | str] = {
    "/dev/kgsl-3d0": b"",
    "/sys/class/kgsl/kgsl-3d0/gpu_model": b"Adreno640v2\n",
}
NODE = "/dev/dri/renderD128"
MSM: dict[str, bytes | str] = {
    NODE: b"", "/sys/class/drm/renderD128/device/driver": "../../bus/platform/drivers/msm-mdss",
    "/lib/firmware/qcom/a660_sqe.fw": b"", "/lib/firmware/qcom/a660_gmu.bin": b"",
    "/lib/firmware/qcom/sc8280xp/LENOVO/21BX/qcdxkmsuc8280.mbn": b"",
}  # fmt: skip


def test_a_node_that_android_denies() -> None:
    """The node's group does not matter where SELinux is in force."""
    phone = {**X86, **KGSL, "/system/build.prop": b"", "/sys/fs/selinux/enforce": b"1"}
    (line,) = doctor.rows(machine(phone, denied=("/dev/kgsl-3d0",)), {})
    check(line.state == "warn" and "SELinux" in line.advice, f"{line}")
    (line,) = doctor.rows(machine({**X86, **KGSL}, denied=("/dev/kgsl-3d0",)), {})
    check("group is 992 (render)" in line.advice and "SELinux" not in line.advice, f"{line}")
    (line,) = doctor.rows(machine(phone), {})
    check(line.state == "ok" and "Adreno640v2" in line.text, f"{line}")


@pytest.mark.parametrize("part", ["", "_sqe.fw", "_gmu.bin", "qcdxkms"])
def test_firmware_that_msm_lacks(part: str) -> None:
    """A laptop's zap shader lies three folders deep; each kind that is missing is named."""
    files = {path: text for path, text in MSM.items() if not part or part not in path}
    lines = [*doctor.rows(machine({**X86, **files}), {})]
    check(lines[0].state == "ok" and NODE in lines[0].text, str(lines))
    check(len(lines) == 1 + bool(part), str(lines))
    named = [one for one in ("_sqe.fw", "_gmu.bin", "qcdxkms") if part and one in lines[1].text]
    check(named == ([part] if part else []), str(lines))


@pytest.mark.parametrize(
    ("policy", "part", "advice"),
    [("0x0", "stray reads give 0", "echo 2 >"), ("0x5", "stray reads give 0", "echo 2 >"),
     ("0x2", "stops a context", ""), ("0xA", "stops a context", ""), ("no", "", "")],
)  # fmt: skip
def test_what_kgsl_does_after_a_page_fault(policy: str, part: str, advice: str) -> None:
    """Bit 1 is KGSL_FT_PAGEFAULT_GPUHALT_ENABLE. # src: msm-4.9 to 6.x, adreno.h, kgsl_iommu.c"""
    name = "/sys/class/kgsl/kgsl-3d0/ft_pagefault_policy"
    lines = [*doctor.rows(machine({**X86, **KGSL, name: f"{policy}\n".encode()}), {})][1:]
    check([one.state for one in lines] == ["ok"] * bool(part), str(lines))
    check(all(part in one.text and advice in one.advice for one in lines), str(lines))
    check(all(bool(one.advice) == bool(advice) for one in lines), str(lines))


def test_dumps_that_the_kernel_keeps_of_the_gpu() -> None:
    """msm's first page fault or hang, until it is read. # src: Linux 6.12 msm_gpu.c"""
    dumps, end = "/sys/class/devcoredump", "failing_device/uevent"
    files = {
        f"{dumps}/devcd1/{end}": b"DRIVER=adreno\nOF_NAME=gpu\n",
        f"{dumps}/devcd2/{end}": b"DRIVER=ath11k_pci\n", f"{dumps}/devcd3/{end}": b"DRIVER=msm\n",
    }  # fmt: skip
    lines = [*doctor.rows(machine({**X86, **MSM, **files}), {})][1:]
    check([one.state for one in lines] == ["warn", "warn"], str(lines))
    check(["devcd1/data" in lines[0].advice, "devcd3/data" in lines[1].advice] == [True, True])


def test_the_way_that_is_there_is_found() -> None:
    """QCOM_IFACE is not needed: KGSL first, then msm."""
    machine = QcomMachine("a660", "MSM")
    with opened(machine, "") as device:
        check(device.iface.name == "MSM", device.iface.name)


def test_a_stream_is_decoded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, path = setup(chip_named("a740")), tmp_path / "stream"
    path.write_bytes(struct.pack(f"<{len(words)}I", *words))
    check(decode.run([str(path), "--qcom", "--chip", "a740"]) == 0)
    shown = capsys.readouterr().out
    check("SP_CHICKEN_BITS = 0x10001400" in shown and "CACHE_INVALIDATE7" in shown, shown)

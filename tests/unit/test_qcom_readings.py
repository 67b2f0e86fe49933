"""What sysfs says of an Adreno: KGSL's files, and msm's through its device tree and devfreq."""

from __future__ import annotations

import json

import pytest

from drivers.qcom.look import look
from drivers.qcom.probe import probe
from drivers.qcom.readings import Readings
from tests.fake_machine import X86, FakeMachine
from tests.support import check

Files = dict[str, bytes | str]
CLASS = "/sys/class/kgsl/kgsl-3d0"
KGSL: Files = {
    **X86, "/dev/kgsl-3d0": b"", f"{CLASS}/gpu_model": b"Adreno640v2\n",
    f"{CLASS}/chipid": b"0x06040001\n", f"{CLASS}/gpuclk": b"257000000\n",
    f"{CLASS}/max_gpuclk": b"675000000\n", f"{CLASS}/gpubusy": b"  25000  100000\n",
    f"{CLASS}/gpu_available_frequencies": b"675000000 585000000 257000000 \n",
    f"{CLASS}/gpu_busy_percentage": b"24 %\n", f"{CLASS}/temp": b"41500\n",
}  # fmt: skip
"""As a Snapdragon 855's kernel prints them."""
SOC = "/sys/bus/platform/drivers/adreno/5000000.gpu"
MSM: Files = {
    **X86, "/dev/dri/renderD128": b"",
    "/sys/class/drm/renderD128/device/driver": "../../bus/platform/drivers/msm-mdss",
    f"{SOC}/uevent": b"DRIVER=adreno\nOF_COMPATIBLE_0=qcom,adreno-630.2\nOF_COMPATIBLE_N=2\n",
    f"{SOC}/devfreq/5000000.gpu/cur_freq": b"180000000\n",
    f"{SOC}/devfreq/5000000.gpu/max_freq": b"710000000\n",
    "/sys/class/thermal/thermal_zone3/type": b"gpu-top-thermal\n",
    "/sys/class/thermal/thermal_zone3/temp": b"38200\n",
    "/sys/class/thermal/thermal_zone4/type": b"gpu-bottom-thermal\n",
    "/sys/class/thermal/thermal_zone4/temp": b"39900\n",
    "/sys/class/thermal/thermal_zone5/type": b"cpu0-thermal\n",
    "/sys/class/thermal/thermal_zone5/temp": b"70000\n",
}  # fmt: skip


def readings(files: Files) -> Readings:
    (node,) = look(FakeMachine(files)).nodes
    return node.readings


def test_kgsl() -> None:
    found = readings(KGSL)
    check(found.chip is not None and found.chip.name == "a640", f"{found}")
    check((found.clock_mhz, found.max_mhz, found.busy_percent) == (257, 675, 25.0), f"{found}")
    check(found.frequencies_mhz == (675, 585, 257) and found.temperature_c == 41.5, f"{found}")
    check(found.memory_bytes == 1 << 30 and not found.lacks, f"{found}")
    idle = readings(KGSL | {f"{CLASS}/gpubusy": b"      0       0\n"})
    check(idle.busy_percent == 24, "the window is empty: KGSL's own number")


@pytest.mark.parametrize(
    ("name", "chip"),
    [("qcom,adreno-630.2", "a630"), ("qcom,adreno-43050c01", "x1-85"), ("qcom,adreno-99.1", None),
     ("qcom,adreno-640.1", "a640"), ("qcom,adreno-43050a01", "a740"), ("", None)],
)  # fmt: skip
def test_msm(name: str, chip: str | None) -> None:
    """src: Linux, arch/arm64/boot/dts/qcom: sdm845, x1e80100, sm8150, sm8550 .dtsi"""
    event = f"DRIVER=adreno\nOF_COMPATIBLE_0={name}\nOF_COMPATIBLE_N=2\n".encode()
    found = readings(MSM | {f"{SOC}/uevent": event})
    check((found.chip.name if found.chip else None) == chip, f"{found}")
    check((found.clock_mhz, found.max_mhz, found.temperature_c) == (180, 710, 39.9), f"{found}")


@pytest.mark.parametrize("name", ["gpuclk", "chipid", "temp", "gpu_busy_percentage"])
def test_a_file_that_is_not_as_expected(name: str) -> None:
    files = KGSL | {f"{CLASS}/{name}": b"banana\n", f"{CLASS}/gpubusy": b"\n"}
    found = readings(files)
    check(len(found.lacks) == 1 and name in found.lacks[0], f"{found.lacks}")
    check(found.max_mhz == 675, "the others stay")


def test_the_probe_shows_them() -> None:
    text, status = probe(["--json"], FakeMachine(KGSL))
    (node,) = json.loads(text)["nodes"]
    check(status == 0 and node["readings"]["sp_cores"] == 2, text)
    text, _ = probe([], FakeMachine(KGSL))
    check("a640, generation 6: 2 SP cores" in text and "257 MHz now" in text, text)
    check(max(map(len, text.splitlines())) <= 100, text)

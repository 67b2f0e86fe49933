"""Which devices can be opened, on made-up machines: the order, and that nothing is touched."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import tensor as xp
from drivers.listing import openable
from tests.amd_trees import GFX1100, GFX1102, second
from tests.amd_trees import machine as amd
from tests.fake_machine import X86, FakeMachine
from tests.support import check
from tests.unit.test_nv_probe import machine as nvidia

Files = Mapping[str, bytes | str]
KGSL, RENDER = "/dev/kgsl-3d0", "/dev/dri/renderD130"
MSM: Files = {RENDER: b"", "/sys/class/drm/renderD130/device/driver": "../../drivers/msm_dpu"}
LIBRARIES: Files = {
    f"/usr/lib/x86_64-linux-gnu/{name}": b""
    for name in ("libOpenCL.so.1", "libcuda.so.1", "libwebgpu_dawn.so")
} | {"/etc/OpenCL/vendors/any.icd": b"libany.so"}


def listed(files: Files, denied: tuple[str, ...] = (), **environ: str) -> list[str]:
    world = FakeMachine({**X86, **files}, denied)
    found = openable(world, environ)
    check(not world.touched, "it only looks; a library is never loaded")
    return found


@pytest.mark.parametrize(
    ("files", "denied", "environ", "wanted"),
    [
        ({}, (), {}, ["CPU"]),
        (LIBRARIES, (), {}, ["CPU"]),
        (amd(GFX1100), (), {}, ["AMD", "CPU"]),
        (amd(GFX1100), (), {"AMD_IFACE": "PCI"}, ["CPU"]),
        (amd(GFX1100), ("/dev/kfd",), {}, ["CPU"]),
        (amd(GFX1102, second(GFX1100)), (), {}, ["AMD:1", "AMD", "CPU"]),
        (nvidia(), (), {}, ["NV", "CPU"]),
        (nvidia(), ("/dev/nvidia0",), {}, ["CPU"]),
        (nvidia(version="390.1"), (), {}, ["CPU"]),
        ({KGSL: b""}, (), {}, ["QCOM", "CPU"]),
        ({KGSL: b""}, (KGSL,), {}, ["CPU"]),
        (MSM, (), {}, ["QCOM", "CPU"]),
        (MSM, (RENDER,), {}, ["CPU"]),
        (MSM, (), {"QCOM_IFACE": "KGSL"}, ["CPU"]),
        ({**amd(GFX1100), **nvidia(), KGSL: b""}, (), {}, ["AMD", "NV", "QCOM", "CPU"]),
        ({**nvidia(), **amd(GFX1100)}, (), {"AMD_IFACE": "x"}, ["AMD", "NV", "CPU"]),
    ],
)  # fmt: skip
def test_what_can_be_opened(
    files: Files, denied: tuple[str, ...], environ: dict[str, str], wanted: list[str]
) -> None:
    check(listed(files, denied, **environ) == wanted, f"{listed(files, denied, **environ)}")


def test_a_kind_that_cannot_be_read_hides_no_other() -> None:
    broken = {**nvidia(minor="x"), KGSL: b""}
    check(listed(broken) == ["QCOM", "CPU"], f"{listed(broken)}")


def test_the_namespace_lists_the_default_first_and_the_cpu() -> None:
    info = xp.__array_namespace_info__()
    names = info.devices()
    check(names[0] == info.default_device() and "CPU" in names, f"{names}")
    check(len(set(names)) == len(names), f"{names}")

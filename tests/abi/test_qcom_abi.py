"""The declarations of KGSL's and msm's ioctls against Mesa's and Linux's headers.

Their numbers are kept as tables (`tests/abi/qcom_header.py` makes them); headers that were fetched,
or that a C compiler of this machine comes with, are compiled.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drivers.qcom.msm.abi import GEM_CLOSE, GemClose
from drivers.qcom.msm.bind import SYNC_CREATE, SYNC_DESTROY, SYNC_WAIT, SyncWait
from drivers.qcom.msm.prime import FD_TO_HANDLE, HANDLE_TO_FD, RIGHTS, PrimeHandle
from tests.abi.qcom_header import evaluate, expectations
from tests.c_compiler import COMPILERS, LACKING, CCompiler
from tests.references import HEADERS, MESA, find
from tests.support import check

TABLES: dict[str, Any] = json.loads((Path(__file__).parent / "qcom_headers.json").read_text())
FETCHED = {
    "Mesa's msm_kgsl.h": (MESA, "src/freedreno/vulkan/msm_kgsl.h", "KGSL"),
    "Mesa's msm_drm.h": (MESA, "include/drm-uapi/msm_drm.h", "MSM"),
    "Linux's msm_drm.h": (HEADERS, "include/uapi/drm/msm_drm.h", "MSM"),
}


DRM = {
    "(unsigned)DRM_IOCTL_GEM_CLOSE": GEM_CLOSE.request,
    "(unsigned)DRM_IOCTL_PRIME_HANDLE_TO_FD": HANDLE_TO_FD.request,
    "(unsigned)DRM_IOCTL_PRIME_FD_TO_HANDLE": FD_TO_HANDLE.request,
    "sizeof(struct drm_gem_close)": GemClose.SIZE,
    "sizeof(struct drm_prime_handle)": PrimeHandle.SIZE,
    "offsetof(struct drm_prime_handle, handle)": 0,
    "offsetof(struct drm_prime_handle, flags)": 4,
    "offsetof(struct drm_prime_handle, fd)": 8,
    "DRM_CLOEXEC | DRM_RDWR": RIGHTS,
    "(unsigned)DRM_IOCTL_SYNCOBJ_CREATE": SYNC_CREATE.request,
    "(unsigned)DRM_IOCTL_SYNCOBJ_DESTROY": SYNC_DESTROY.request,
    "DRM_IOCTL_SYNCOBJ_WAIT & 0xff": SYNC_WAIT.request & 0xFF,
    **{
        f"offsetof(struct drm_syncobj_wait, {field.name})": field.offset
        for field in SyncWait.FIELDS
    },
}


def test_drm_itself(tmp_path: Path) -> None:
    """What any DRM driver has, in headers that compilers come with."""
    headers = [
        (compiler, compiler.include / "drm" / "drm.h") for compiler in COMPILERS.values()
        if compiler is not None and (compiler.include / "drm" / "drm.h").exists()
    ]  # fmt: skip
    if not headers:
        pytest.skip(LACKING["wheel"])
    for compiler, header in headers:
        found = compiler.values(["fcntl.h", str(header)], list(DRM), tmp_path)
        wrong = differences(DRM, dict(zip(DRM, found, strict=True)))
        check(not wrong, "; ".join(wrong))


def differences(expected: dict[str, int], values: dict[str, int]) -> list[str]:
    return [
        f"{name} is {values.get(name, 'missing')}, not {value}"
        for name, value in expected.items()
        if values.get(name) != value
    ]


@pytest.mark.parametrize("name", TABLES)
def test_the_table_of_a_header(name: str) -> None:
    kind, values = TABLES[name]["kind"], TABLES[name]["values"]
    expected = expectations(kind)
    wrong = differences(expected, values)
    check(not wrong, f"{name}: " + "; ".join(wrong))
    check(
        len(expected) > (100 if kind != "BIND" else 40), "a table with nothing in it proves nothing"
    )


@pytest.mark.parametrize("name", FETCHED)
def test_a_header_that_was_fetched(name: str, c_compiler: CCompiler, tmp_path: Path) -> None:
    reference, path, kind = FETCHED[name]
    folder = find(reference)
    if folder is None:
        what = "Mesa" if reference is MESA else "kernel"
        pytest.skip(f"no {what} source: make references")
    values = evaluate(c_compiler, str(folder / path), tmp_path, kind)
    wrong = differences(expectations(kind), values)
    check(not wrong, "; ".join(wrong))

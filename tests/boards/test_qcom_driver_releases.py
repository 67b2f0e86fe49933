"""The Adreno driver on each release of its kernels, and on what they do by default."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from boards.qcom.hardware import SILENT
from boards.qcom.registration import KERNELS
from drivers.base.errors import OutOfMemory, Unsupported
from drivers.choice import choose
from drivers.gpu.iface import Use
from drivers.qcom import doctor
from drivers.qcom.kgsl import memory
from drivers.qcom.opening import open_iface
from tests.boards.test_qcom_tools import KGSL, MSM, machine
from tests.fake_machine import X86
from tests.qcom_devices import QcomMachine, opened
from tests.reliability.qcom_scene import NOWHERE, N, binary, work
from tests.support import check

CHIPS = {"KGSL": "a630", "MSM": "a660"}
RELEASES = [(iface, one) for iface, names in KERNELS.items() for one in names]


@pytest.mark.parametrize(("iface", "release"), RELEASES)
def test_a_life_on_each_release(iface: str, release: str) -> None:
    one = QcomMachine(CHIPS[iface], iface, kernel=release, coherent=iface == "MSM")
    with opened(one, iface) as device:
        work(device)
        graph = device.compute_queue().barrier().bind()
        graph.replay()
        device.synchronize()
        graph.close()
    check(not (found := one.found()), str(found))


@pytest.mark.parametrize("iface", CHIPS)
def test_a_stray_access_is_silent(iface: str) -> None:
    """The load gives 0, the store is dropped, and nothing is raised.

    # src: kgsl_iommu.c kgsl_iommu_fault_handler(); Linux adreno_gpu.c adreno_fault_handler()
    """
    one = QcomMachine(CHIPS[iface], iface, page_faults=SILENT)
    with opened(one, iface) as device:
        program, b, c = device.load(binary(device)), device.alloc(N * 4), device.alloc(N * 4)
        device.copy_in(b, memoryview(np.full(N, 5, np.int32)))
        device.launch(program, [NOWHERE, b, c], 1)
        device.launch(program, [b, b, NOWHERE], 1)
        device.synchronize()
        out = np.zeros(N, np.int32)
        device.copy_out(memoryview(out), c)
        np.testing.assert_array_equal(out, np.full(N, 3 * 0 + 5))
        work(device)


def test_pages_of_16_kib() -> None:
    """KGSL maps an object at its id times a page of the kernel's.

    # src: kgsl.c kgsl_mmap(), get_mmap_entry(): vma->vm_pgoff is the id
    """
    one = QcomMachine("a630", "KGSL", page_bytes=1 << 14, coherent=False)
    with opened(one) as device:
        check(device.iface.bytes_held % (1 << 14) == 0)
        work(device)
    check(not (found := one.found()), str(found))


def test_an_object_of_4_gib_is_refused() -> None:
    """By its size, before KGSL answers EINVAL. # src: kgsl.c gpumem_alloc_entry()"""
    with opened(QcomMachine("a630")) as device:
        gpu: Any = device.iface
        with pytest.raises(OutOfMemory, match="less than 4 GiB"):
            memory.allocate(gpu, 1 << 32, Use.DEVICE, "too large", host=True)
        with pytest.raises(OutOfMemory):
            device.alloc(1 << 32)
        work(device)


@pytest.mark.parametrize(
    ("iface", "release", "wanted"),
    [("KGSL", "4.4.302-perf", "4.9"), ("KGSL", "3.18.140", "4.9"), ("KGSL", "4.9.186", ""),
     ("KGSL", "5.15.123-android13", ""), ("MSM", "5.10.0-28-arm64", "5.15"), ("MSM", "5.15.0", ""),
     ("MSM", "6.1.0-37-arm64", ""), ("MSM", "10.0", ""), ("MSM", "?", "")],
)  # fmt: skip
def test_an_older_kernel_is_refused_by_name(iface: str, release: str, wanted: str) -> None:
    parts = {"KGSL": KGSL, "MSM": MSM}[iface]
    files = {**X86, **parts, "/proc/sys/kernel/osrelease": f"{release}\n".encode()}
    lines = [line for line in doctor.rows(machine(files), {}) if "written for" in line.text]
    check(len(lines) == bool(wanted), str(lines))
    check(all(wanted in one.advice and release in one.text for one in lines), str(lines))
    if wanted:
        with pytest.raises(Unsupported, match=f"{wanted} and later"):
            open_iface(machine(files), choose({"QCOM": "1", "QCOM_IFACE": iface}))

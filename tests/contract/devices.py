"""Every device that the contract suite runs on: one line each, and what it cannot do.

A new device is a new entry of `DEVICES`: how to open it, and a reason beside each ability that it
lacks. What is not listed there is tested.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

import drivers
from boards.amd.machine import Options as AmdOptions
from boards.nv.layouts import DEFAULT
from compilers import toolchains
from compilers.cpu.firmware import firmware
from compilers.ir import Kernel
from drivers.base.contracts import Binary, Device
from drivers.world.linux import LinuxWorld
from tests.boards.driver_harness import device_on
from tests.contract.null_vendor.compiler import assemble
from tests.contract.null_vendor.opening import open_null
from tests.cuda.made_up import cuda
from tests.metal.made_up import metal
from tests.nv_boards import CHIPS, KERNELS, need, nv_board
from tests.opencl import opencl
from tests.qcom_devices import CHIPS as ADRENOS
from tests.qcom_devices import qcom_device
from tests.support import check
from tests.webgpu import webgpu

Build: TypeAlias = Callable[[Kernel, Device], Binary]
LANES = "lanes"
ABILITIES: Final = {LANES: "workgroups have lanes, which share memory"}


def built(kernel: Kernel, device: Device) -> Binary:
    """What the device's default compiler makes of a kernel."""
    features = device.limits.features
    return toolchains.build(kernel, device.compilers[0], device.arch, features)


@dataclass(frozen=True)
class Entry:
    """One device of the suite."""

    name: str
    open: Callable[[], AbstractContextManager[Device]]
    cannot: Mapping[str, str] = field(default_factory=dict)
    """Of ABILITIES, and why not."""
    build: Build = built

    def can(self, ability: str) -> bool:
        return ability not in self.cannot


@contextmanager
def _cpu() -> Iterator[Device]:
    world = LinuxWorld()
    with drivers.open("CPU", world=world, environ={"CPU_THREADS": "2"}, firmware=firmware) as made:
        yield made
    check((world.fds, world.maps, world.mapped_bytes) == (0, 0, 0), "close gives all back")


def _amd(chip: str, queue: str, kernel: str = "") -> Callable[[], AbstractContextManager[Device]]:
    @contextmanager
    def opened() -> Iterator[Device]:
        options = AmdOptions(kernel=kernel) if kernel else None
        with device_on(chip, queue, options) as (_, device):
            yield device

    return opened


def _cl(platform: str, **settings: str) -> Callable[[], AbstractContextManager[Device]]:
    @contextmanager
    def opened() -> Iterator[Device]:
        with opencl(platform, **settings) as device:
            yield device

    return opened


def _webgpu(library: str) -> Callable[[], AbstractContextManager[Device]]:
    @contextmanager
    def opened() -> Iterator[Device]:
        with webgpu(library) as device:
            yield device

    return opened


def _nv(
    chip: str, compiler: str, kernel: int = DEFAULT
) -> Callable[[], AbstractContextManager[Device]]:
    @contextmanager
    def opened() -> Iterator[Device]:
        with nv_board(chip, compiler, kernel) as device:
            yield device

    return opened


def _qcom(chip: str, iface: str, **options: object) -> Callable[[], AbstractContextManager[Device]]:
    @contextmanager
    def opened() -> Iterator[Device]:
        with qcom_device(chip, iface, **options) as device:
            yield device

    return opened


@contextmanager
def _nv_here() -> Iterator[Device]:
    with drivers.open("NV") as device:
        yield device


@contextmanager
def _metal() -> Iterator[Device]:
    with metal() as device:
        yield device


@contextmanager
def _cuda(**settings: str) -> Iterator[Device]:
    need(ptx="CUDA_PTX" in settings)
    with cuda(**settings) as device:
        yield device


@contextmanager
def _null() -> Iterator[Device]:
    with open_null() as device:
        yield device


HERE: Final = "this machine's NVIDIA GPU"
DEVICES: Final = (
    Entry("cpu", _cpu, {LANES: "a work item is one thread's"}),
    Entry("gfx1100 board over KFD, PM4", _amd("gfx1100", "PM4")),
    Entry("gfx1100 board over KFD, AQL", _amd("gfx1100", "AQL")),
    Entry("gfx1100 board over KFD of Linux 6.1", _amd("gfx1100", "PM4", "6.1")),
    Entry("gfx1100 board over KFD of Linux 7.3", _amd("gfx1100", "AQL", "7.3")),
    Entry("gfx942 board over KFD, AQL", _amd("gfx942", "AQL")),
    Entry("gfx1100 board over PCI", _amd("gfx1100", "PCI PM4")),
    Entry("gfx1100 board over USB", _amd("gfx1100", "USB PM4")),
    *(Entry(f"{chip} board, nvrtc", _nv(chip, "NVRTC")) for chip in CHIPS),
    *(Entry(f"{chip} board, PTX", _nv(chip, "PTX")) for chip in CHIPS),
    *(Entry(f"ga102 board under {one}", _nv("ga102", "NVRTC", one)) for one in KERNELS),
    *(Entry(f"{chip} board over KGSL", _qcom(chip, "KGSL")) for chip in ADRENOS),
    *(Entry(f"{chip} board over msm", _qcom(chip, "MSM")) for chip in ADRENOS),
    Entry("a630 board over KGSL 4.9", _qcom("a630", "KGSL", kernel="4.9", coherent=False)),
    Entry("a630 board over KGSL 5.15", _qcom("a630", "KGSL", kernel="5.15", coherent=False)),
    Entry("a660 board over msm 6.1", _qcom("a660", "MSM", kernel="6.1")),
    Entry("a660 board over msm 7.3", _qcom("a660", "MSM", kernel="7.3")),
    Entry("CL on PoCL", _cl("pocl"), {LANES: "a work item takes a range of the grid"}),
    Entry("CL on Intel's runtime", _cl("intel"), {LANES: "a work item takes a range of the grid"}),
    Entry("CL on PoCL, lanes and cl_mem", _cl("pocl", CL_LANES="1", CL_MEMORY="BUFFER")),
    Entry(
        "CL on Intel's runtime, lanes and coarse", _cl("intel", CL_LANES="1", CL_MEMORY="COARSE")
    ),
    *((Entry(HERE, _nv_here),) if os.path.exists("/dev/nvidiactl") else ()),
    Entry("METAL on a made-up Metal", _metal),
    Entry("CUDA on a made-up libcuda, nvrtc", _cuda),
    Entry("CUDA on a made-up libcuda, PTX", partial(_cuda, CUDA_PTX="1")),
    Entry("WEBGPU on wgpu-native", _webgpu("wgpu")),
    Entry("WEBGPU on Dawn of 2025", _webgpu("dawn")),
    Entry("WEBGPU on Dawn", _webgpu("standard")),
    Entry("null vendor", _null, build=assemble),
)

"""Every kind of device there is: one record each, and the only place that lists them.

Names, environment variables, interfaces, compilers, the order of the default device and the checks
of `python -m drivers.probe` are read from here. What a record names as "module:function" is
imported when it is first needed. Where a driver is not written yet, `opens` is "".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from drivers.base.imports import check_imports
from drivers.base.kernel_driver import KernelDriver


@dataclass(frozen=True, slots=True)
class Way:
    """One way to a kind of device: an interface of a kernel, a bus, or a library."""

    name: str
    """"KFD", as AMD_IFACE=KFD spells it; "" where a kind has one way."""
    check: str
    """"module:function" from `drivers.machine.checks.Machine` to a Result: what is missing."""
    why: str
    """Why it has its place in the order of the default device; or why it is `named_only`."""
    named_only: bool = False
    """Whether it is taken only where the user names it: the device would be unbound or booted."""
    taped: bool = False
    """Whether a recording holds all of it, though it is `named_only`: a replay reaches nothing."""
    offers: str = ""
    """"module:function" from (World, environ) to what may be the default device; "": nothing."""
    lists: str = ""
    """"module:function" from (World, environ) to the numbers of devices that can be opened, by
    inspecting files alone; "": those of `offers`."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """One compiler as something that is installed or not."""

    name: str
    purpose: str
    install: str
    package: str = ""
    """The Python package that brings it."""
    files: tuple[str, ...] = ()
    """Libraries, one of which it is."""
    program: bool = False
    """Whether a clang on PATH is it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of device: what it is, what it needs, and how it is opened."""

    name: str
    """As in "AMD:1", AMD=1 and AMD_IFACE."""
    title: str
    needs: str
    """What the machine must have."""
    ways: tuple[Way, ...]
    opens: str = ""
    """"module:function" from (World, Choice, Firmware | None) to a Device. One of a kind that is
    opened over PCI takes `state=`, too: where locks and records of claimed GPUs are."""
    written: tuple[str, ...] = ()
    """Names of the ways that the driver knows."""
    compilers: Mapping[str, str] = field(default_factory=dict)
    """Environment variable -> the compiler that it selects."""
    builders: tuple[Compiler, ...] = ()
    """The same as things to install, for the doctor; those of a kind before it are not repeated."""
    flags: tuple[str, ...] = ()
    """Other environment variables that choose the kind."""
    older: Mapping[str, str] = field(default_factory=dict)
    """Other spellings of variables, from when they were this kind's alone: name -> older name."""
    aql: str = ""
    """Variable that says whether its compute queues read AQL packets; "": they never do."""
    hang_s: str = ""
    """Variable with the time without progress after which its queues count as hung; "": none."""
    rounds: str = ""
    """Variable that lets its matrix units round the factors of float32 products; "": they never do.
    """
    flush16: str = ""
    """Variable that lets float16 be computed where subnormal numbers are 0; "": it never is."""
    images: str = ""
    """Variable that has kernels read their operands as images; "": they never do."""
    visible: Mapping[str, bool] = field(default_factory=dict)
    """Variables that list its GPUs that a process may use, in the order in which they apply, and
    whether repeated entries are read over."""
    dlpack: int = 0
    """DLPack's device type of its memory; 0: its tensors are not exported.
    # src: dmlc/dlpack include/dlpack/dlpack.h, DLDeviceType"""
    borrows: str = ""
    """"module:function" from (device, `drivers.base.lent.Lent`) to (a buffer, the byte of it where
    the lent memory begins): memory of other libraries; "": it takes none."""
    lends: str = ""
    """"module:function" from a buffer to (the pointer that DLPack has for it, an object that keeps
    that valid); "": the host's address."""
    exports: str = ""
    """"module:function" from a buffer to `drivers.base.lent.Exported`, its memory as a dma-buf; "":
    there is none."""
    handles: str = ""
    """"module:function" from a device to the handles by name with which other libraries share its
    memory; "": there are none."""
    streams: str = ""
    """"module:function" from a device to its `drivers.base.lent.Streams`; "": DLPack has no streams
    for its memory."""
    array_interface: str = ""
    """Name of the attribute by which arrays of other libraries describe its memory; "": none."""
    firmware: str = ""
    """Which manifest of `firmware_manifests` is its; "": its driver loads no firmware."""
    kernel: KernelDriver | None = None
    """The kernel driver of its GPUs, for the doctor and the rules of claiming."""
    doctor: str = ""
    """"module:function" from (World, environ) to the doctor's lines of its GPUs; "": none."""
    recovers: str = ""
    """"module:function" of (World, Record): readies a claimed GPU whose owner was killed for the
    kernel driver that it goes back to; "": kernel drivers need no help."""
    packets: Mapping[str, str] = field(default_factory=dict)
    """Packet formats of `python -m queues.decode` -> "module:function" from a chip to a decoder."""
    plays: str = ""
    """"module:function" from (path, chip, vram_bytes=, any_firmware=) to (accesses, differences in
    words): plays a register trace to a software GPU; "": the driver writes none."""
    identifiers: str = ""
    """"module:function" from nothing to `drivers.world.identifiers.Identifiers`; "": its ioctls
    need no care in a recording."""
    smoke: str = ""
    """"module:function" from ("smoke", arch) to a Binary: c[i] = a[i] + b[i] for i < n."""
    unread: str = ""
    """"module:function" from a device to a `benchmarks.host_cost.Unread`; "": not measured so."""

    @property
    def ifaces(self) -> tuple[str, ...]:
        """Values of its _IFACE variable; none where there is one way."""
        return tuple(way.name for way in self.ways if way.name)

    @property
    def tuning(self) -> tuple[str, ...]:
        """Variables that say how its kernels are compiled and waited for."""
        return tuple(filter(None, (self.hang_s, self.rounds, self.flush16, self.images)))


def named(place: str) -> Any:
    """The object that "module:function" names."""
    check_imports()
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


_BOOTED: Final = "claiming may unbind it from its kernel driver; then it is reset and booted"

BEST_FIRST: Final = (
    Kind(
        "AMD",
        "AMD GPU",
        "/dev/kfd of the amdgpu kernel module, or a PCI GPU that is free",
        (
            Way("KFD", "drivers.amd.checks:kfd", "a GPU that amdgpu shares with other programs",
                offers="drivers.amd.kfd.offers:offered"),
            Way("PCI", "drivers.amd.checks:pci", _BOOTED, named_only=True),
            Way("USB", "drivers.amd.checks:usb", "it would be reset and booted", named_only=True,
                taped=True),
        ),
        opens="drivers.amd.opening:open_kind",
        written=("KFD", "PCI", "USB"),
        compilers={"AMD_LLVM": "LLVM", "AMD_HIP": "HIP"},
        older={"UNBOUND_DMA": "AMD_DMA", "UNBOUND_REGISTER_TRACE": "AMD_TRACE"},
        borrows="drivers.gpu.lent:borrow",
        exports="drivers.gpu.lent:export",
        aql="AMD_AQL",
        hang_s="AMD_HANG_S",
        visible={"ROCR_VISIBLE_DEVICES": False, "HIP_VISIBLE_DEVICES": True},
        firmware="amd",
        kernel=KernelDriver(
            "amdgpu",
            nodes={"/dev/kfd": "AMD compute: `modprobe amdgpu` on a machine with an AMD GPU"},
            shared=("kfd",),
            firmware="amdgpu",
            vendor=0x1002,  # src: pci-ids.ucw.cz
        ),
        builders=(
            Compiler("COMGR", "for AMD_HIP=1", "Debian's libamd-comgr2, or ROCm's comgr",
                     files=("libamd_comgr.so.3", "libamd_comgr.so.2")),
        ),
        doctor="drivers.amd.doctor:rows",
        recovers="drivers.amd.pci.handover:recover",
        packets={
            "pm4": "queues.amd.decode:pm4_decoder",
            "sdma": "queues.amd.decode:sdma_decoder",
            "aql": "queues.amd.decode:aql_decoder",
        },
        plays="drivers.amd.pci.trace_player:play_file",
        smoke="compilers.amd.smoke:firmware",
        unread="drivers.amd.tools.unread:leave_unread",
    ),
    Kind(
        "NV",
        "NVIDIA GPU",
        "/dev/nvidiactl (NVIDIA's open modules), or an unbound PCI GPU",
        (
            Way("NVK", "drivers.nv.checks:nvk",
                "a GPU that NVIDIA's kernel driver shares with other programs",
                lists="drivers.nv.tools.look:numbers"),
            Way("PCI", "drivers.probe.kinds:nv_pci", _BOOTED, named_only=True),
        ),
        opens="drivers.nv.opening:open_kind",
        identifiers="drivers.nv.recorded:NvIdentifiers",
        written=("NVK",),
        compilers={"NV_PTX": "PTX"},
        hang_s="NV_HANG_S",
        visible={"NVIDIA_VISIBLE_DEVICES": True, "CUDA_VISIBLE_DEVICES": False},
        rounds="NV_TF32",
        packets={
            "nv": "queues.nv.decode:push_decoder",
            "qmd": "queues.nv.decode:qmd_decoder",
        },
        smoke="compilers.nv.smoke:firmware",
        unread="drivers.nv.unread:leave_unread",
        doctor="drivers.nv.doctor:rows",
        kernel=KernelDriver(
            "nvidia",
            modules=("nvidia_uvm",),
            nodes={
                "/dev/nvidiactl": "NVIDIA: `modprobe nvidia` on a machine with an NVIDIA GPU",
                "/dev/nvidia-uvm": "NVIDIA memory: `modprobe nvidia-uvm`",
            },
            shared=("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"),
            numbered="nvidia",
            firmware="nvidia",
            vendor=0x10DE,  # src: pci-ids.ucw.cz
        ),
        builders=(
            Compiler("nvrtc", "for NV=1 and CUDA=1", "pip install nvidia-cuda-nvrtc",
                     package="nvidia-cuda-nvrtc", files=("libnvrtc.so.13", "libnvrtc.so.12")),
        ),
    ),
    Kind(
        "QCOM",
        "Qualcomm Adreno GPU",
        "/dev/kgsl-3d0, or msm on /dev/dri/renderD*",
        (
            Way("KGSL", "drivers.qcom.checks:kgsl",
                "an Adreno under Qualcomm's kernel driver: the GPU of its machine",
                lists="drivers.qcom.checks:kgsl_numbers"),
            Way("MSM", "drivers.qcom.checks:msm",
                "the same under the mainline kernel driver, where there is no KGSL",
                lists="drivers.qcom.checks:msm_numbers"),
        ),
        opens="drivers.qcom.opening:open_kind",
        identifiers="drivers.qcom.recorded:QcomIdentifiers",
        written=("KGSL", "MSM"),
        compilers={"QCOM_IR3": "IR3", "QCOM_CL": "CL"},
        hang_s="QCOM_HANG_S",
        flush16="QCOM_FLUSH16",
        images="QCOM_IMAGES",
        packets={"qcom": "queues.qcom.decode:stream_decoder"},
        smoke="compilers.qcom.smoke:firmware",
        unread="drivers.qcom.unread:leave_unread",
        doctor="drivers.qcom.doctor:rows",
        borrows="drivers.qcom.interop:borrow",
        exports="drivers.gpu.lent:export",
        kernel=KernelDriver(
            "msm",
            nodes={"/dev/kgsl-3d0": "Qualcomm's own kernel driver, on its machines only"},
            firmware="qcom",
            compatible="qcom,",  # src: Linux Documentation/devicetree/bindings/arm/qcom.yaml
        ),
    ),
    Kind(
        "METAL",
        "Apple GPU",
        "macOS 13 or later",
        (Way("", "drivers.metal.checks:metal",
             "the GPU of an Apple machine, which has no other interface"),),
        opens="drivers.metal.opening:open_kind",
        written=("",),
        dlpack=8,
        borrows="drivers.metal.lent:borrow",
        lends="drivers.metal.lent:lend",
        handles="drivers.metal.lent:handles",
    ),
    Kind(
        "CUDA",
        "NVIDIA GPU through CUDA",
        "libcuda.so.1 of NVIDIA's driver",
        (Way("", "drivers.cuda.checks:cuda",
             "an NVIDIA GPU through its vendor's runtime: after our own driver of it"),),
        opens="drivers.cuda.opening:open_kind",
        written=("",),
        compilers={"CUDA_PTX": "PTX"},
        rounds="CUDA_TF32",
        dlpack=2,
        borrows="drivers.cuda.lent:borrow",
        lends="drivers.cuda.lent:lend",
        handles="drivers.cuda.lent:handles",
        streams="drivers.cuda.lent:streams",
        array_interface="__cuda_array_interface__",
    ),
    Kind(
        "CL",
        "any GPU through OpenCL",
        "libOpenCL.so.1 and a vendor file in OpenCL/vendors",
        (Way("", "drivers.cl.checks:opencl",
             "a GPU that has an OpenCL driver alone; OpenCL on processors is not offered"),),
        opens="drivers.cl.opening:open_kind",
        written=("",),
        flags=("GPU",),
        dlpack=4,
        borrows="drivers.cl.lent:borrow",
        lends="drivers.cl.lent:lend",
        handles="drivers.cl.lent:handles",
    ),
    Kind(
        "WEBGPU",
        "any GPU through WebGPU",
        "a WebGPU library (Dawn or wgpu-native)",
        (Way("", "drivers.webgpu.checks:webgpu",
             "a GPU through one more layer; software adapters are not offered"),),
        opens="drivers.webgpu.opening:open_kind",
        written=("",),
    ),
    Kind(
        "CPU",
        "the processor itself",
        "x86-64 or AArch64",
        (Way("", "drivers.cpu.checks:cpu", "the processor, which every machine has",
             lists="drivers.cpu.checks:numbers"),),
        opens="drivers.cpu.opening:open_kind",
        written=("",),
        compilers={"CPU_LLVM": "LLVM", "LLVM": "LLVM", "CLANG": "CLANG"},
        flags=("CLANG", "LLVM"),
        builders=(
            Compiler("LLVM", "for most devices", "pip install llvmlite", package="llvmlite"),
            Compiler("clang", "for CLANG=1", "a package clang, or pip install ziglang",
                     package="ziglang", program=True),
        ),
        dlpack=1,
        borrows="drivers.cpu.lent:borrow",
    ),
)  # fmt: skip
"""In the order in which they become the default device; the last always can.

A kind whose driver is not written yet has its place, and offers nothing.
"""
BY_NAME: Final[Mapping[str, Kind]] = {kind.name: kind for kind in BEST_FIRST}
NAMES: Final = tuple(BY_NAME)


def kernel_drivers() -> Iterator[KernelDriver]:
    """Those of GPUs, in the same order."""
    return (kind.kernel for kind in BEST_FIRST if kind.kernel is not None)


def ways() -> Iterator[tuple[Kind, Way]]:
    """Every way to a device, in that order."""
    return ((kind, way) for kind in BEST_FIRST for way in kind.ways)

"""One check for each way to a device: what it needs, read where Linux keeps it."""

from __future__ import annotations

import os

from drivers.amd.kfd.offers import kfd_offers
from drivers.base.offer import Offer, Passed
from drivers.choice import choose, visible_amd
from drivers.cpu.features import read_processor
from drivers.machine.buses import AMD, NVIDIA, PCI_ROOT, USB_BRIDGES
from drivers.machine.system import clang_description, find_library
from drivers.machine.text import entries, first_line
from drivers.probe import Check, Finding, Machine

ICD_FOLDER = "/etc/OpenCL/vendors"
_GROUPS_ADVICE = "add this user to the groups render and video, then log in again"


def cpu(machine: Machine) -> Finding:
    """The processor, and the compilers that make code for it."""
    processor = read_processor(machine.world)
    wheels = {
        name: f"{name} {version}"
        for name in ("llvmlite", "ziglang")
        if (version := machine.packages(name))
    }
    clang = clang_description(machine.world, machine.environ) or wheels.get("ziglang")
    found = {"LLVM": wheels.get("llvmlite"), "CLANG": clang}
    compilers = {name: where for name, where in found.items() if where}
    limits = processor.limits
    details: dict[str, object] = {
        "arch": processor.arch,
        "threads": limits.threads,
        "vector_bits": 8 * limits.vector_bytes,
        "memory_bytes": limits.memory_bytes,
        "features": sorted(limits.features),
        "compilers": compilers,
    }
    shown = ", ".join(f"{name} ({where})" for name, where in compilers.items()) or "none"
    reason = (
        f"{processor.arch}, {limits.threads} threads, {8 * limits.vector_bytes}-bit vectors; "
        f"compilers: {shown}"
    )
    if not compilers:
        return Finding("CPU", "", False, reason, "pip install llvmlite, or ziglang", details)
    return Finding("CPU", "", True, reason, "", details)


def _node(machine: Machine, kind: str, iface: str, path: str, missing: str, advice: str) -> Finding:
    """A device node that must exist and be readable and writable."""
    world = machine.world
    if not world.exists(path):
        return Finding(kind, iface, False, f"{path} does not exist: {missing}", advice)
    if not world.access(path, os.R_OK | os.W_OK):
        return Finding(kind, iface, False, f"{path} may not be opened by this user", _GROUPS_ADVICE)
    return Finding(kind, iface, True, f"{path} can be opened")


def amd_kfd(machine: Machine) -> Finding:
    """AMD through the amdgpu kernel driver: what may become the default device, too."""
    missing, advice = _module_missing(machine, AMD, "AMD", "amdgpu")
    node = _node(machine, "AMD", "KFD", "/dev/kfd", missing, advice)
    if not node.ready:
        return node
    found = list(kfd_offers(machine.world, visible_amd(machine.environ)))
    offers = [one for one in found if isinstance(one, Offer)]
    passed = [one for one in found if isinstance(one, Passed)]
    against = [one.reason if one.name == "AMD KFD" else str(one) for one in passed]
    reason = "; ".join([*(f"{one.name}: {one.title}" for one in offers), *against])
    advice = next((one.advice for one in passed if one.advice), "")
    return Finding("AMD", "KFD", bool(offers), reason, advice or "python -m drivers.amd.probe")


def _module_missing(machine: Machine, vendor: int, name: str, module: str) -> tuple[str, str]:
    """Why a kernel driver's node is not there, as far as the GPUs on PCI show."""
    gpus = [str(gpu) for gpu in machine.gpus if gpu.vendor == vendor]
    if gpus:
        return f"{'; '.join(gpus)}", f"`modprobe {module}`, and see `dmesg` for its messages"
    missing = f"the {module} kernel module is not loaded, or there is no {name} GPU"
    return missing, f"see `lspci -d {vendor:04x}:`; with a GPU there: `modprobe {module}`"


def _pci(machine: Machine, kind: str, vendor: int, name: str, module: str) -> Finding:
    """A GPU that no driver holds, with registers this user may map."""
    gpus = [gpu for gpu in machine.gpus if gpu.vendor == vendor]
    details = {"gpus": [str(gpu) for gpu in gpus]}
    if not gpus:
        return Finding(
            kind, "PCI", False, f"no {name} GPU is on PCI", f"see `lspci -d {vendor:04x}:`"
        )
    shown = "; ".join(details["gpus"])
    free = [gpu for gpu in gpus if gpu.driver in ("", "vfio-pci")]
    if not free:
        advice = f"leave it to {module}, or unbind it first (never one that drives a display)"
        return Finding(kind, "PCI", False, shown, advice, details)
    path = f"{PCI_ROOT}/{free[0].address}/resource0"
    if free[0].driver == "" and not machine.world.access(path, os.R_OK | os.W_OK):
        advice = f"bind {free[0].address} to vfio-pci and give this user its /dev/vfio group"
        return Finding(kind, "PCI", False, f"{shown}; {path} may not be opened", advice, details)
    return Finding(kind, "PCI", True, shown, "", details)


def amd_pci(machine: Machine) -> Finding:
    """AMD without a kernel driver: a known chip that may be claimed, and its firmware."""
    from drivers.amd.pci.survey import candidates

    found = candidates(machine.world, choose(machine.environ))
    if not found:
        advice = f"see `lspci -d {AMD:04x}:`"
        return Finding("AMD", "PCI", False, "no AMD GPU is on PCI", advice)
    details = {"gpus": [str(one.function) for one in found]}
    for one in found:
        if one.ready:
            reason = f"{one.function}; {one.facts()[1]}; AMD_IFACE=PCI would claim and boot it"
            return Finding("AMD", "PCI", True, reason, "", details)
    first = found[0]
    obstacle = first.obstacles[0]
    advice = obstacle.advice or "python -m drivers.amd.probe --iface PCI says more"
    return Finding("AMD", "PCI", False, f"{first.function}; {obstacle.reason}", advice, details)


def amd_usb(machine: Machine) -> Finding:
    """AMD behind a PCIe-over-USB bridge."""
    bridges = [usb for usb in machine.usb if (usb.vendor, usb.product) in USB_BRIDGES]
    if not bridges:
        ids = " or ".join(f"{vendor:04x}:{product:04x}" for vendor, product in sorted(USB_BRIDGES))
        return Finding(
            "AMD",
            "USB",
            False,
            f"no GPU enclosure with USB id {ids}",
            "see `lsusb`; an ASM2464PD enclosure needs firmware that opens its PCIe side",
        )
    shown = ", ".join(str(bridge) for bridge in bridges)
    return Finding("AMD", "USB", True, shown, "", {"bridges": shown})


def nv_nvk(machine: Machine) -> Finding:
    """NVIDIA through its kernel module."""
    missing, advice = _module_missing(machine, NVIDIA, "NVIDIA", "nvidia")
    first = _node(machine, "NV", "NVK", "/dev/nvidiactl", missing, advice)
    if not first.ready:
        return first
    uvm = _node(
        machine,
        "NV",
        "NVK",
        "/dev/nvidia-uvm",
        "the nvidia-uvm kernel module is not loaded",
        "`modprobe nvidia-uvm`",
    )
    version = first_line(machine.world, "/proc/driver/nvidia/version")
    if uvm.ready and version:
        return Finding("NV", "NVK", True, version, "", {"version": version})
    return uvm


def nv_pci(machine: Machine) -> Finding:
    """NVIDIA without a kernel driver."""
    return _pci(machine, "NV", NVIDIA, "NVIDIA", "nvidia (NV_IFACE=NVK)")


def qcom_kgsl(machine: Machine) -> Finding:
    """Adreno through Qualcomm's kernel driver."""
    return _node(
        machine,
        "QCOM",
        "KGSL",
        "/dev/kgsl-3d0",
        "this is no Qualcomm machine, or its kernel has no msm_kgsl",
        "on a Qualcomm machine with a mainline kernel use QCOM_IFACE=MSM",
    )


def qcom_msm(machine: Machine) -> Finding:
    """Adreno through the mainline kernel driver."""
    nodes = [path for path, driver in machine.nodes.items() if driver.startswith("msm")]
    if nodes:
        return _node(machine, "QCOM", "MSM", nodes[0], "it went away", "look again")
    others = ", ".join(f"{path} ({driver or '?'})" for path, driver in machine.nodes.items())
    return Finding(
        "QCOM",
        "MSM",
        False,
        f"no /dev/dri/renderD* of the msm kernel driver; there is: {others or 'none at all'}",
        "on a Qualcomm machine: `modprobe msm`",
    )


def cuda(machine: Machine) -> Finding:
    """NVIDIA's CUDA library."""
    path = find_library(machine.world, machine.environ, "libcuda.so.1")
    if path is None:
        return Finding(
            "CUDA", "", False, "libcuda.so.1 is not installed", "install NVIDIA's driver package"
        )
    if not machine.world.exists("/dev/nvidiactl"):
        return Finding(
            "CUDA", "", False, f"{path}, but no /dev/nvidiactl", "`modprobe nvidia nvidia-uvm`"
        )
    return Finding("CUDA", "", True, path)


def opencl(machine: Machine) -> Finding:
    """An OpenCL loader, and at least one vendor's library for it."""
    path = find_library(machine.world, machine.environ, "libOpenCL.so.1")
    if path is None:
        advice = "install ocl-icd-libopencl1 and a vendor's package (pocl-opencl-icd for the CPU)"
        return Finding("CL", "", False, "libOpenCL.so.1 is not installed", advice)
    vendors = [name for name in entries(machine.world, ICD_FOLDER) if name.endswith(".icd")]
    if not vendors:
        advice = "install a vendor's OpenCL package (pocl-opencl-icd for the CPU)"
        return Finding("CL", "", False, f"{path}, but no vendor in {ICD_FOLDER}", advice)
    return Finding("CL", "", True, f"{path}: {', '.join(vendors)}", "", {"vendors": vendors})


def metal(machine: Machine) -> Finding:
    """Apple's API, which only macOS has."""
    system = first_line(machine.world, "/proc/sys/kernel/ostype")
    if system:
        return Finding(
            "METAL", "", False, f"this is {system}; Metal is macOS", "use a Mac with Apple silicon"
        )
    return Finding("METAL", "", True, "macOS")


def webgpu(machine: Machine) -> Finding:
    """A library with the standard webgpu.h."""
    wgpu = machine.packages("wgpu")
    for name in ("libwgpu_native.so", "libwebgpu_dawn.so"):
        path = find_library(machine.world, machine.environ, name)
        if path:
            return Finding("WEBGPU", "", True, path)
    if wgpu:
        return Finding("WEBGPU", "", True, f"wgpu-native in the Python package wgpu {wgpu}")
    return Finding(
        "WEBGPU", "", False, "no wgpu-native or Dawn library", "pip install 'unbound[webgpu]'"
    )


CHECKS: dict[tuple[str, str], Check] = {
    ("CPU", ""): cpu,
    ("AMD", "KFD"): amd_kfd,
    ("AMD", "PCI"): amd_pci,
    ("AMD", "USB"): amd_usb,
    ("NV", "NVK"): nv_nvk,
    ("NV", "PCI"): nv_pci,
    ("QCOM", "KGSL"): qcom_kgsl,
    ("QCOM", "MSM"): qcom_msm,
    ("CUDA", ""): cuda,
    ("CL", ""): opencl,
    ("METAL", ""): metal,
    ("WEBGPU", ""): webgpu,
}
"""Every way to a device, in the order of the table."""

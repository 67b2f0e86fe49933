"""What kind of Linux this is where that decides which devices there can be: one line for each."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.machine.text import entries, first_line, try_text

DXG: Final = "/dev/dxg"
"""WSL 2's only GPU node. # src: microsoft/WSL2-Linux-Kernel drivers/hv/dxgkrnl"""
_WSL: Final = "microsoft"
"""In the kernel's release, in any case: "4.4.0-19041-Microsoft" (WSL 1), "...-microsoft-standard-
WSL2"."""
_TEGRA, _TEGRA_MACHINE = "/etc/nv_tegra_release", "nvidia,tegra"
"""# src: NVIDIA Jetson Linux Developer Guide; Linux devicetree/bindings/arm/tegra.yaml"""
_COMPATIBLE: Final = "/proc/device-tree/compatible"
_ANDROID: Final = "/system/build.prop"
_TERMUX: Final = "/data/data/com.termux/files/usr"
"""# src: termux-packages, TERMUX_PREFIX"""
_CONTAINERS: Final = ("/.dockerenv", "/run/.containerenv", "/run/systemd/container")
"""# src: moby daemon/initlayer; containers/common; systemd, "The Container Interface" """
_GPU_NODES: Final = ("/dev/dri", "/dev/kfd", "/dev/nvidiactl", "/dev/kgsl-3d0", "/dev/vfio", DXG)
_AUXILIARY: Final = "/proc/self/auxv"
_PAGE_SIZE: Final = 6  # src: include/uapi/linux/auxvec.h, AT_PAGESZ
_ENTRY: Final = struct.Struct("=QQ")
USUAL_PAGE_BYTES: Final = 4096
_LOADS: Final = "modprobe"
_KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Surroundings:
    """An environment that has other devices than a usual machine."""

    name: str
    works: str
    """What works in it, and what to do for more."""
    no_modules: bool = True
    """Whether advice to load a kernel module leads nowhere in it."""
    cuda_without_node: bool = False
    """Whether libcuda works though there is no /dev/nvidiactl."""

    def __str__(self) -> str:
        return f"{self.name}: {self.works}"

    def leads_nowhere(self, advice: str) -> bool:
        """Whether advice is to load a kernel module where that cannot be done."""
        return self.no_modules and _LOADS in advice


def surroundings(world: World) -> Surroundings | None:
    """The first that fits; None on a usual machine. Raises: MalformedInput."""
    release = first_line(world, "/proc/sys/kernel/osrelease")
    if world.exists(DXG) or _WSL in release.casefold():
        return _wsl(world, release)
    if world.exists(_ANDROID) or world.exists(_TERMUX):
        return Surroundings(
            "Android (Termux)" if world.exists(_TERMUX) else "Android",
            "CPU=1 works with clang (`pkg install clang`), QCOM=1 where the vendor's policy lets "
            "this app open /dev/kgsl-3d0; llvmlite has no wheel here: use a proot Debian for it",
        )
    if world.exists(_TEGRA) or _TEGRA_MACHINE in _compatible(world):
        return Surroundings(
            "NVIDIA Jetson", "its GPU has another kernel driver (nvgpu) than NV=1 knows: CUDA=1 "
            "works with the libcuda of JetPack, WEBGPU=1 with its Vulkan driver, and CPU=1",
            cuda_without_node=True,
        )  # fmt: skip
    if in_container(world) and not any(world.exists(path) for path in _GPU_NODES):
        return Surroundings(
            "a container without device nodes", "CPU=1 works; for a GPU start it with its nodes: "
            "--device=/dev/kfd --device=/dev/dri (AMD), --gpus all (NVIDIA); kernel modules are "
            "loaded outside",
        )  # fmt: skip
    if not entries(world, "/proc"):
        return Surroundings(
            "no /proc", "the CPU device and most checks read it: mount proc (in a chroot: "
            "`mount -t proc proc /proc`)",
        )  # fmt: skip
    return _pages(world)


def _wsl(world: World, release: str) -> Surroundings:
    if not world.exists(DXG):
        return Surroundings(
            "WSL without a GPU" if "wsl2" in release.casefold() else "WSL 1",
            "CPU=1 works; a GPU needs WSL 2 with /dev/dxg: update WSL, and Windows' GPU driver",
        )
    return Surroundings(
        "WSL 2", "its GPU is /dev/dxg, which no driver here talks to: AMD=1 and NV=1 need Linux's "
        "own drivers; here use CUDA=1 (NVIDIA), CL=1 or WEBGPU=1 with the libraries of Windows' "
        "driver in /usr/lib/wsl/lib, or CPU=1",
        cuda_without_node=True,
    )  # fmt: skip


def in_container(world: World) -> bool:
    """Whether a container's runtime left its mark."""
    return any(world.exists(path) for path in _CONTAINERS)


def _compatible(world: World) -> str:
    """Names of the machine, from its firmware; src: Devicetree Specification 0.4, 2.3.1."""
    return try_text(world, _COMPATIBLE)


def page_bytes(world: World) -> int:
    """Size of the kernel's pages, from this process's auxiliary vector; 0 where it is not known."""
    try:
        data = world.read(_AUXILIARY, 1 << 16)
    except DeviceError:
        return 0
    whole = len(data) - len(data) % _ENTRY.size
    return int(dict(_ENTRY.iter_unpack(data[:whole])).get(_PAGE_SIZE, 0))


def _pages(world: World) -> Surroundings | None:
    nbytes = page_bytes(world)
    if nbytes in (0, USUAL_PAGE_BYTES):
        return None
    return Surroundings(
        f"a kernel with pages of {nbytes // _KIB} KiB", "CPU=1 and devices behind libraries (CL=1, "
        "CUDA=1, WEBGPU=1) work; AMD=1, NV=1 and QCOM=1 were written for pages of 4 KiB: choose "
        "such a kernel for them",
        no_modules=False,
    )  # fmt: skip

"""NVIDIA's generations as data: classes, what an SM has, how launches are encoded.

A chip is known by its compute class, which RM lists: several classes of other generations are in
the same list (AMPERE_CHANNEL_GPFIFO_A on Hopper, for example), so all of them follow from that one.
# src: NVIDIA/open-gpu-kernel-modules src/nvidia/generated/g_gpu_class_list.c, class/*.h;
# src: open-gpu-doc classes/compute
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from drivers.base.errors import Unsupported
from queues.nv.words import Target

WARP_LANES: Final = 32
MAX_BLOCK: Final = 1024
"""Lanes of a workgroup. # src: CUDA C++ Programming Guide, "Technical Specifications" (all)"""
PAGE_BYTES: Final = 4096
KIB: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Chips with one compute class."""

    name: str
    compute: int
    gpfifo: int
    copy: int
    usermode: int
    """Class of the doorbell's page. Without params it is in BAR0. # src: tinygrad ops_nv.py"""
    qmd: str
    """Version of its QMD, as `queues.nv.qmd` names it."""
    max_shared_bytes: int
    """Of one workgroup, with the reserved part."""
    shared_kib: tuple[int, ...]
    """How much of an SM's L1 may be shared memory.
    # src: Mesa src/nouveau/winsys/nouveau_device.c sm_smem_sizes_kB"""
    reserved_shared_bytes: int = KIB
    """Of each workgroup, for the system. # src: CUDA C++ Programming Guide, sm_80 and later"""


_AMPERE: Final = (0, 8, 16, 32, 64, 100)
_HOPPER: Final = (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)

TURING: Final = Generation(
    name="Turing", compute=0xC5C0, gpfifo=0xC46F, copy=0xC5B5, usermode=0xC461, qmd="02_03",
    max_shared_bytes=64 * KIB, shared_kib=(32, 64), reserved_shared_bytes=0,
)  # fmt: skip
GA100: Final = Generation(
    name="Ampere A100", compute=0xC6C0, gpfifo=0xC56F, copy=0xC6B5, usermode=0xC561,
    qmd="03_00", max_shared_bytes=164 * KIB, shared_kib=(0, 8, 16, 32, 64, 100, 132, 164),
)  # fmt: skip
GA10X: Final = Generation(
    name="Ampere", compute=0xC7C0, gpfifo=0xC56F, copy=0xC7B5, usermode=0xC561,
    qmd="03_00", max_shared_bytes=100 * KIB, shared_kib=_AMPERE,
)  # fmt: skip
AD10X: Final = Generation(
    name="Ada", compute=0xC9C0, gpfifo=0xC56F, copy=0xC7B5, usermode=0xC561,
    qmd="03_00", max_shared_bytes=100 * KIB, shared_kib=_AMPERE,
)  # fmt: skip
GH100: Final = Generation(
    name="Hopper", compute=0xCBC0, gpfifo=0xC86F, copy=0xC8B5, usermode=0xC661, qmd="04_00",
    max_shared_bytes=228 * KIB, shared_kib=_HOPPER,
)  # fmt: skip
GB100: Final = Generation(
    name="Blackwell B100", compute=0xCDC0, gpfifo=0xC96F, copy=0xC9B5, usermode=0xC661,
    qmd="05_00", max_shared_bytes=228 * KIB, shared_kib=_HOPPER,
)  # fmt: skip
GB20X: Final = Generation(
    name="Blackwell", compute=0xCEC0, gpfifo=0xCA6F, copy=0xCAB5, usermode=0xC761,
    qmd="05_00", max_shared_bytes=100 * KIB, shared_kib=_AMPERE,
)  # fmt: skip
NEWEST_FIRST: Final = (GB20X, GB100, GH100, AD10X, GA10X, GA100, TURING)
BY_COMPUTE: Final = {one.compute: one for one in NEWEST_FIRST}

SM_VERSIONS: Final = {
    0x705: 75, 0x800: 80, 0x802: 80, 0x806: 86, 0x809: 89, 0x900: 90, 0xA00: 100, 0xA01: 110,
    0xA03: 103, 0xA04: 120, 0xC00: 120, 0xC01: 121,
}  # fmt: skip
"""What RM reports -> the architecture of compilers.
# src: ctrl2080gr.h NV2080_CTRL_GR_INFO_SM_VERSION_*; GB20x reports 10.4 (tinygrad ops_nv.py);
# src: CUDA 13.0 release notes: sm_101 of CUDA 12 is sm_110"""


def generation_of(classes: frozenset[int]) -> Generation:
    """The newest generation whose compute class RM lists. Raises: Unsupported."""
    for one in NEWEST_FIRST:
        if one.compute in classes:
            return one
    raise Unsupported(
        "this NVIDIA GPU has no compute class that this stack knows",
        hint="Turing and later are supported (GTX 16, RTX 20 and later, A100, H100)",
    )


def sm_of(version: int) -> int:
    """86 for the SM version 0x806 that RM reports. Raises: Unsupported."""
    sm = SM_VERSIONS.get(version)
    if sm is None:
        raise Unsupported(
            f"SM version {version:#x} is not known here",
            hint=f"known: {', '.join(f'sm_{one}' for one in sorted(set(SM_VERSIONS.values())))}",
        )
    return sm


CHIPS: Final = {
    "tu102": (0x705, TURING), "ga100": (0x800, GA100), "ga102": (0x806, GA10X),
    "ad102": (0x809, AD10X), "gh100": (0x900, GH100), "gb100": (0xA00, GB100),
    "gb202": (0xA04, GB20X),
}  # fmt: skip
"""One chip of each generation, with its SM version, for decoders and tests."""
SHARED_WINDOW: Final = 0xFE << 32
LOCAL_WINDOW: Final = 0xFF << 32
"""Where shared and private memory appear among generic addresses: above everything allocated.
# src: alignment, 4 GiB from Hopper on: Mesa nvk_cmd_dispatch.c"""


_SASS_SHIFT, _SASS_MINOR = 4, 0xF


def target_of(generation: Generation, sm_version: int) -> Target:
    """What words for a chip of this generation depend on. Raises: Unsupported."""
    return Target(
        sm=sm_of(sm_version),
        sass=sm_version >> _SASS_SHIFT | sm_version & _SASS_MINOR,
        gpfifo=generation.gpfifo,
        compute=generation.compute,
        copy=generation.copy,
        qmd=generation.qmd,
        max_shared_bytes=generation.max_shared_bytes,
        shared_kib=generation.shared_kib,
        shared_window=SHARED_WINDOW,
        local_window=LOCAL_WINDOW,
    )

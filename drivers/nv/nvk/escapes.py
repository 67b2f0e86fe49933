"""The ioctls of /dev/nvidiactl and /dev/nvidia0, which NVIDIA calls escapes, and their structs.

A call has two results: errno of the ioctl, and `status` inside of the struct, an NV_STATUS
(`drivers/nv/nvk/status.py`). All of these are the same in every release from 535 on.
# src: src/nvidia/arch/nvalloc/unix/include/{nv-ioctl.h, nv-ioctl-numbers.h, nv_escape.h,
# src: nv-unix-nvos-params-wrappers.h}, src/common/sdk/nvidia/inc/nvos.h
"""

from __future__ import annotations

from typing import Final

from drivers.base.ioctl import Ioctl, Struct, chars, i32, u8, u16, u32, u64

NV: Final = "F"
"""NV_IOCTL_MAGIC."""
VERSION_BYTES: Final = 64
QUERY: Final = ord("2")
"""NV_RM_API_VERSION_CMD_QUERY: report the version, compare nothing."""
RECOGNIZED: Final = 1
MAX_CARDS: Final = 32
"""NV_MAX_DEVICES. # src: nvlimits.h"""


class RmApiVersion(Struct, size=72):
    """nv_ioctl_rm_api_version_t."""

    cmd: int = u32()
    reply: int = u32()
    version_string: bytes = chars(VERSION_BYTES)


class CardInfo(Struct, size=72):
    """nv_ioctl_card_info_t: one GPU that the kernel driver has."""

    valid: int = u8()
    pad: bytes = chars(3)
    domain: int = u32()
    bus: int = u8()
    slot: int = u8()
    function: int = u8()
    pad2: int = u8()
    vendor_id: int = u16()
    device_id: int = u16()
    gpu_id: int = u32()
    interrupt_line: int = u16()
    pad3: bytes = chars(2)
    reg_address: int = u64()
    reg_size: int = u64()
    fb_address: int = u64()
    fb_size: int = u64()
    minor_number: int = u32()
    dev_name: bytes = chars(10)
    pad4: bytes = chars(2)


class CardInfos(Struct, size=72 * MAX_CARDS):
    """CARD_INFO takes as many as its size says."""

    cards: bytes = chars(72 * MAX_CARDS)


class RegisterFd(Struct, size=4):
    """nv_ioctl_register_fd_t."""

    ctl_fd: int = i32()


class RmFree(Struct, size=16):
    """NVOS00_PARAMETERS."""

    h_root: int = u32()
    h_object_parent: int = u32()
    h_object_old: int = u32()
    status: int = u32()


class RmAlloc(Struct, size=32):
    """NVOS21_PARAMETERS. `h_object_new` of 0: the kernel driver chooses the handle."""

    h_root: int = u32()
    h_object_parent: int = u32()
    h_object_new: int = u32()
    h_class: int = u32()
    p_alloc_parms: int = u64()
    params_size: int = u32()
    status: int = u32()


class RmControl(Struct, size=32):
    """NVOS54_PARAMETERS."""

    h_client: int = u32()
    h_object: int = u32()
    cmd: int = u32()
    flags: int = u32()
    params: int = u64()
    params_size: int = u32()
    status: int = u32()


class RmAllocMemory(Struct, size=56):
    """nv_ioctl_nvos02_parameters_with_fd: memory that this process has already."""

    h_root: int = u32()
    h_object_parent: int = u32()
    h_object_new: int = u32()
    h_class: int = u32()
    flags: int = u32()
    pad: int = u32()
    p_memory: int = u64()
    limit: int = u64()
    status: int = u32()
    pad2: int = u32()
    fd: int = i32()
    pad3: int = u32()


class RmMapMemory(Struct, size=56):
    """nv_ioctl_nvos33_parameters_with_fd: what a following mmap of `fd` maps."""

    h_client: int = u32()
    h_device: int = u32()
    h_memory: int = u32()
    pad: int = u32()
    offset: int = u64()
    length: int = u64()
    p_linear_address: int = u64()
    status: int = u32()
    flags: int = u32()
    fd: int = i32()
    pad2: int = u32()


class RmUnmapMemory(Struct, size=32):
    """NVOS34_PARAMETERS."""

    h_client: int = u32()
    h_device: int = u32()
    h_memory: int = u32()
    pad: int = u32()
    p_linear_address: int = u64()
    status: int = u32()
    flags: int = u32()


CARD_INFO = Ioctl("NV_ESC_CARD_INFO", "WR", NV, 200, CardInfos)
REGISTER_FD = Ioctl("NV_ESC_REGISTER_FD", "WR", NV, 201, RegisterFd)
CHECK_VERSION_STR = Ioctl("NV_ESC_CHECK_VERSION_STR", "WR", NV, 210, RmApiVersion)
RM_ALLOC_MEMORY = Ioctl("NV_ESC_RM_ALLOC_MEMORY", "WR", NV, 0x27, RmAllocMemory)
RM_FREE = Ioctl("NV_ESC_RM_FREE", "WR", NV, 0x29, RmFree)
RM_CONTROL = Ioctl("NV_ESC_RM_CONTROL", "WR", NV, 0x2A, RmControl)
RM_ALLOC = Ioctl("NV_ESC_RM_ALLOC", "WR", NV, 0x2B, RmAlloc)
RM_MAP_MEMORY = Ioctl("NV_ESC_RM_MAP_MEMORY", "WR", NV, 0x4E, RmMapMemory)
RM_UNMAP_MEMORY = Ioctl("NV_ESC_RM_UNMAP_MEMORY", "WR", NV, 0x4F, RmUnmapMemory)

ESCAPES: Final[dict[str, Ioctl[Struct]]] = {
    item.name: item for item in list(globals().values()) if isinstance(item, Ioctl)
}
"""All of them by the kernel driver's name."""


def cards(answer: CardInfos) -> list[CardInfo]:
    """The GPUs of an answer to CARD_INFO."""
    raw, size = answer.cards, CardInfo.SIZE
    found = [CardInfo.of(raw[at : at + size]) for at in range(0, len(raw), size)]
    return [card for card in found if card.valid]

"""msm's ioctls: structs with their sizes, numbers, flags.

# src: include/uapi/drm/msm_drm.h, drm.h; tests/abi compares
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

from drivers.base.ioctl import Ioctl, Struct, i32, i64, u32, u64

TYPE: Final = ord("d")
COMMAND_BASE: Final = 0x40
PIPE_3D0: Final = 0x10


class Param(IntEnum):
    """MSM_PARAM_*."""

    GPU_ID = 0x01
    GMEM_SIZE = 0x02
    CHIP_ID = 0x03
    MAX_FREQ = 0x04
    TIMESTAMP = 0x05
    PRIORITIES = 0x07
    SUSPENDS = 0x0A
    VA_START = 0x0E
    VA_SIZE = 0x0F


class BoFlag(IntFlag):
    """MSM_BO_*."""

    GPU_READONLY = 0x2
    CACHED = 0x10000
    WC = 0x20000
    CACHED_COHERENT = 0x80000


class Info(IntEnum):
    """MSM_INFO_*."""

    GET_OFFSET, GET_IOVA, SET_NAME, GET_NAME, SET_IOVA = range(5)


class SubmitBoFlag(IntFlag):
    """MSM_SUBMIT_BO_*."""

    READ = 1
    WRITE = 2


NO_IMPLICIT: Final = 0x80000000
"""MSM_SUBMIT_NO_IMPLICIT."""
CMD_BUF: Final = 1
QUEUE_FAULTS: Final = 0
"""MSM_SUBMITQUEUE_PARAM_FAULTS."""


class ParamCall(Struct, size=24):
    """struct drm_msm_param."""

    pipe: int = u32()
    param: int = u32()
    value: int = u64()
    len: int = u32()
    pad: int = u32()


class GemNew(Struct, size=16):
    """struct drm_msm_gem_new."""

    nbytes: int = u64()
    flags: int = u32()
    handle: int = u32()


class GemInfo(Struct, size=24):
    """struct drm_msm_gem_info."""

    handle: int = u32()
    info: int = u32()
    value: int = u64()
    len: int = u32()
    pad: int = u32()


class SubmitBo(Struct, size=16):
    """struct drm_msm_gem_submit_bo."""

    flags: int = u32()
    handle: int = u32()
    presumed: int = u64()


class SubmitCmd(Struct, size=32):
    """struct drm_msm_gem_submit_cmd."""

    type: int = u32()
    submit_idx: int = u32()
    submit_offset: int = u32()
    nbytes: int = u32()
    pad: int = u32()
    nr_relocs: int = u32()
    relocs: int = u64()


class GemSubmit(Struct, size=72):
    """struct drm_msm_gem_submit."""

    flags: int = u32()
    fence: int = u32()
    nr_bos: int = u32()
    nr_cmds: int = u32()
    bos: int = u64()
    cmds: int = u64()
    fence_fd: int = i32()
    queueid: int = u32()
    in_syncobjs: int = u64()
    out_syncobjs: int = u64()
    nr_in_syncobjs: int = u32()
    nr_out_syncobjs: int = u32()
    syncobj_stride: int = u32()
    pad: int = u32()


class WaitFence(Struct, size=32):
    """struct drm_msm_wait_fence; the time is one of CLOCK_MONOTONIC."""

    fence: int = u32()
    flags: int = u32()
    tv_sec: int = i64()
    tv_nsec: int = i64()
    queueid: int = u32()


class SubmitQueue(Struct, size=12):
    """struct drm_msm_submitqueue."""

    flags: int = u32()
    prio: int = u32()
    id: int = u32()


class QueueQuery(Struct, size=24):
    """struct drm_msm_submitqueue_query."""

    data: int = u64()
    id: int = u32()
    param: int = u32()
    len: int = u32()
    pad: int = u32()


class QueueClose(Struct, size=4):
    """A submit queue's id."""

    id: int = u32()


class GemClose(Struct, size=8):
    """struct drm_gem_close."""

    handle: int = u32()
    pad: int = u32()


GEM_CLOSE = Ioctl("DRM_IOCTL_GEM_CLOSE", "W", TYPE, 0x09, GemClose)
GET_PARAM = Ioctl("DRM_IOCTL_MSM_GET_PARAM", "WR", TYPE, COMMAND_BASE + 0x00, ParamCall)
GEM_NEW = Ioctl("DRM_IOCTL_MSM_GEM_NEW", "WR", TYPE, COMMAND_BASE + 0x02, GemNew)
GEM_INFO = Ioctl("DRM_IOCTL_MSM_GEM_INFO", "WR", TYPE, COMMAND_BASE + 0x03, GemInfo)
GEM_SUBMIT = Ioctl("DRM_IOCTL_MSM_GEM_SUBMIT", "WR", TYPE, COMMAND_BASE + 0x06, GemSubmit)
WAIT_FENCE = Ioctl("DRM_IOCTL_MSM_WAIT_FENCE", "W", TYPE, COMMAND_BASE + 0x07, WaitFence)
QUEUE_NEW = Ioctl("DRM_IOCTL_MSM_SUBMITQUEUE_NEW", "WR", TYPE, COMMAND_BASE + 0x0A, SubmitQueue)
QUEUE_CLOSE = Ioctl("DRM_IOCTL_MSM_SUBMITQUEUE_CLOSE", "W", TYPE, COMMAND_BASE + 0x0B, QueueClose)
QUEUE_QUERY = Ioctl("DRM_IOCTL_MSM_SUBMITQUEUE_QUERY", "W", TYPE, COMMAND_BASE + 0x0C, QueueQuery)

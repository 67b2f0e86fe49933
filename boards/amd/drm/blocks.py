"""IP blocks of a render node, as AMDGPU_INFO counts and describes them. A board has no video block.

src: Linux 6.12, amdgpu/amdgpu_kms.c amdgpu_info_ioctl(), amdgpu_hw_ip_info()
"""

from __future__ import annotations

import errno
import struct
from types import SimpleNamespace

from boards.amd.cp.engine_types import Chip
from boards.amd.drm import types as d

_SEVERAL_XCCS = ((9, 4, 3), (9, 5, 0))
"""src: amdgpu_discovery.c: gfx_v9_4_3 and an XCP manager, which has no graphics ring"""
_OWN_MINOR = {(5, 2, 0): 2, (5, 2, 2): 2, (5, 2, 4): 2, (4, 4, 2): 4, (4, 4, 4): 4}
"""By SDMA: minor version of its block. src: sdma_v5_2.c, sdma_v4_4_2.c; the others have 0"""
_RINGS = {d.HW_IP_GFX: 1, d.HW_IP_COMPUTE: 4, d.HW_IP_DMA: 2}
"""src: amdgpu_ctx.c amdgpu_ctx_num_entities[]"""
_GFX_ALIGN, _DMA_ALIGN = (32, 32), (256, 4)
"""Of an indirect buffer: its start, its size."""


def count(chip: Chip, args: SimpleNamespace) -> bytes:
    """HW_IP_COUNT; with several XCCs, of the one partition that has all. Raises: OSError EINVAL."""
    counts = {
        d.HW_IP_GFX: chip.xccs, d.HW_IP_COMPUTE: chip.xccs, d.HW_IP_DMA: _engines(chip),
    }  # fmt: skip
    if args.word_0 not in counts:
        raise OSError(errno.EINVAL, f"a board has no IP block of type {args.word_0}")
    return struct.pack("<I", counts[args.word_0])


def _engines(chip: Chip) -> int:
    return chip.sdma_engines + chip.sdma_xgmi_engines


def info(chip: Chip, args: SimpleNamespace) -> bytes:
    """HW_IP_INFO: all zero for a block that is not there. Raises: OSError EINVAL."""
    kind, instance = args.word_0, args.word_1
    if instance or kind > d.HW_IP_LAST:
        raise OSError(errno.EINVAL, f"no IP block of type {kind}, instance {instance}")
    rings = _RINGS.get(kind, 0)
    if kind == d.HW_IP_GFX and chip.gc in _SEVERAL_XCCS:
        rings = 0
    if kind == d.HW_IP_DMA:
        version, minor = chip.sdma, _OWN_MINOR.get(chip.sdma, 0)
        rings, align = min(rings, _engines(chip)), _DMA_ALIGN
    elif kind in (d.HW_IP_GFX, d.HW_IP_COMPUTE):
        version, minor = chip.gc, 4 if chip.gc in _SEVERAL_XCCS else 0
        align = _GFX_ALIGN
    else:
        return bytes(d.HW_IP.size)
    major, middle, revision = version
    return d.HW_IP.make(
        hw_ip_version_major=major, hw_ip_version_minor=minor, available_rings=(1 << rings) - 1,
        ib_start_alignment=align[0], ib_size_alignment=align[1],
        ip_discovery_version=major << 16 | middle << 8 | revision,
    )  # fmt: skip

"""AMDGPU_INFO of a render node: what the kernel reports of a GPU, its memory and its firmware.

src: Linux 6.12, amdgpu/amdgpu_kms.c amdgpu_info_ioctl(), amdgpu_firmware_info()
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from types import SimpleNamespace

from boards.amd.chip_data import GB_ADDR_CONFIG, RLC_VERSION
from boards.amd.drm import blocks
from boards.amd.drm import types as d
from boards.amd.drm.device import device_info
from boards.amd.hardware import RESERVED_BYTES, Gpu, Hardware
from boards.machine import host

_VM_RESERVED_BYTES = 8 << 20
"""src: amdgpu_vm.h AMDGPU_VM_RESERVED_VRAM"""
_SMALL_BAR_BYTES = 256 << 20
_MAX_REGISTERS, _MAX_SE, _MAX_SH = 128, 4, 2
"""src: amdgpu_kms.c; amdgpu_gfx.h AMDGPU_GFX_MAX_SE, AMDGPU_GFX_MAX_SH_PER_SE"""
_GB_ADDR_CONFIG = 0x263E
"""In dwords: GC's first segment, 0x1260 (gfx9: 0x2000), and 0x13DE (gfx9: 0x63E)."""


class Info:
    """The queries of one GPU."""

    def __init__(self, hardware: Hardware, gpu: Gpu) -> None:
        self._hardware, self._gpu = hardware, gpu
        self._queries: dict[int, Callable[[SimpleNamespace], bytes]] = {
            d.ACCEL_WORKING: lambda args: struct.pack("<I", 1),
            d.HW_IP_INFO: lambda args: blocks.info(gpu.chip, args),
            d.HW_IP_COUNT: lambda args: blocks.count(gpu.chip, args),
            d.TIMESTAMP: lambda args: struct.pack("<Q", hardware.clock.ticks()),
            d.FW_VERSION: self._firmware,
            d.VRAM_USAGE: lambda args: struct.pack("<Q", self._vram_used()),
            d.VIS_VRAM_USAGE: lambda args: struct.pack("<Q", self._visible_used()),
            d.GTT_USAGE: lambda args: struct.pack("<Q", hardware.gtt_memory.used_bytes),
            d.VRAM_GTT_SIZES: lambda args: self._sizes(),
            d.MEMORY: lambda args: self._memory(),
            d.READ_MMR_REG: self._registers,
            d.DEV_INFO: lambda args: device_info(gpu.chip),
        }

    def answer(self, args: SimpleNamespace) -> None:
        """Store the answer, cut to return_size. Raises: OSError EINVAL, EFAULT."""
        if not args.return_size or not args.return_pointer:
            raise OSError(errno.EINVAL, "nowhere to store an answer")
        query = self._queries.get(args.query)
        if query is None:
            raise OSError(errno.EINVAL, f"AMDGPU_INFO {args.query:#x} is not on a board")
        data = query(args)[: args.return_size]
        if data:
            host.copy_to_user(args.return_pointer, data)

    def _visible_bytes(self) -> int:
        options = self._hardware.options
        bar_bytes = options.vram_bytes if options.large_bar else _SMALL_BAR_BYTES
        return min(options.vram_bytes, bar_bytes)

    def _usable(self) -> tuple[int, int]:
        """Of all VRAM, and of what the BAR shows: less what firmware and page tables keep."""
        kept = RESERVED_BYTES + _VM_RESERVED_BYTES
        usable = max(0, self._hardware.options.vram_bytes - kept)
        return usable, min(usable, self._visible_bytes() - RESERVED_BYTES)

    def _vram_used(self) -> int:
        return RESERVED_BYTES + self._gpu.memory.used_bytes

    def _visible_used(self) -> int:
        """Buffers lie at the lowest free addresses, so that the BAR's part fills first."""
        return min(self._vram_used(), self._visible_bytes())

    def _sizes(self) -> bytes:
        usable, visible = self._usable()
        gtt_bytes = self._hardware.options.gtt_bytes
        return d.VRAM_GTT.make(
            vram_size=usable, vram_cpu_accessible_size=visible, gtt_size=gtt_bytes
        )

    def _memory(self) -> bytes:
        usable, visible = self._usable()
        options, gtt = self._hardware.options, self._hardware.gtt_memory
        return (
            _heap(options.vram_bytes, usable, self._vram_used())
            + _heap(self._visible_bytes(), visible, self._visible_used())
            + _heap(options.gtt_bytes, options.gtt_bytes, gtt.used_bytes)
        )

    def _firmware(self, args: SimpleNamespace) -> bytes:
        """FW_VERSION. Firmware that a board has not is of version 0. Raises: OSError EINVAL."""
        words: list[int] = [getattr(args, word) for word in d.QUERY_FW.values()]
        kind, instance, index = words
        chip = self._gpu.chip
        engines = chip.sdma_engines + chip.sdma_xgmi_engines
        if (
            instance
            or kind not in d.FW_TYPES
            or (kind == d.FW_MEC and index > 1)
            or (kind == d.FW_SDMA and index >= engines)
            or (kind == d.FW_TA and index not in d.TA_INDEXES)
        ):
            raise OSError(errno.EINVAL, f"no firmware {kind:#x}, {instance}, {index}")
        versions = {
            (d.FW_MEC, 0): chip.properties["fw_version"],
            (d.FW_SDMA, index): chip.properties["sdma_fw_version"],
            (d.FW_RLC, index): RLC_VERSION,
        }
        return d.FIRMWARE.make(ver=versions.get((kind, index), 0))

    def _registers(self, args: SimpleNamespace) -> bytes:
        """READ_MMR_REG; of the registers that the kernel allows a board has GB_ADDR_CONFIG.

        Raises: OSError EINVAL, EFAULT for a register that may not be read.
        """
        words: list[int] = [getattr(args, word) for word in d.MMR_REG.values()]
        first, count, instance, _ = words
        engine, array = instance & d.MMR_INDEX_MASK, instance >> d.MMR_SH_SHIFT & d.MMR_INDEX_MASK
        if (
            (engine != d.MMR_INDEX_MASK and engine >= _MAX_SE)
            or (array != d.MMR_INDEX_MASK and array >= _MAX_SH)
            or count > _MAX_REGISTERS
        ):
            raise OSError(errno.EINVAL, f"{count} registers of instance {instance:#x}")
        for register in range(first, first + count):
            if register != _GB_ADDR_CONFIG:
                raise OSError(errno.EFAULT, f"register {register:#x} may not be read here")
        return struct.pack("<I", GB_ADDR_CONFIG[self._gpu.chip.family]) * count


def _heap(total: int, usable: int, used: int) -> bytes:
    return d.HEAP.make(
        total_heap_size=total, usable_heap_size=usable, heap_usage=used,
        max_allocation=usable * 3 // 4,
    )  # fmt: skip

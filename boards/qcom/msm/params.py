"""What GET_PARAM says.

src: Linux 6.12, drivers/gpu/drm/msm/adreno/adreno_gpu.c, adreno_get_param
"""

from __future__ import annotations

import errno

from boards.qcom.hardware import AdrenoGpu
from boards.qcom.msm.gem import VA_START
from boards.qcom.msm.queues import PRIORITIES

FAULTS, SYSPROF, COMM, CMDLINE = 0x09, 0x0B, 0x0C, 0x0D
_NO_SPEEDBIN = 0xFFFF << 32
_GMEM_BASE = 0x100000


def read(gpu: AdrenoGpu, param: int, faults: int) -> int:
    """A parameter. Raises: OSError EINVAL."""
    chip = gpu.chip
    known_by_number = chip.generation < 7
    values = {
        0x01: chip.gpu_id if known_by_number else 0,
        0x02: chip.gmem_bytes,
        0x03: chip.chip_id if known_by_number else chip.chip_id | _NO_SPEEDBIN,
        0x04: chip.max_hz,
        0x05: gpu.engine.machine.always_on(),
        0x06: 0 if chip.lpac else _GMEM_BASE,
        0x07: PRIORITIES,
        0x08: 0,
        FAULTS: gpu.faults + faults,
        0x0A: 0,
        0x0E: VA_START,
        0x0F: chip.va_bytes,
        0x10: chip.bank_bit,
        0x11: 0,
        0x12: 6,
        0x13: 1 if chip.bank_bit > 15 else 0,
    }
    if param not in values:
        raise OSError(errno.EINVAL, f"no parameter {param:#x}")
    return values[param]

"""What GET_PARAM says.

src: Linux 5.15 to 7.3, drivers/gpu/drm/msm/adreno/adreno_gpu.c, adreno_get_param
"""

from __future__ import annotations

import errno

from boards.machine.behaviour import Rules
from boards.qcom.hardware import AdrenoGpu
from boards.qcom.msm.gem import VA_START
from boards.qcom.msm.queues import PRIORITIES

FAULTS, SYSPROF, COMM, CMDLINE = 0x09, 0x0B, 0x0C, 0x0D
_TIMESTAMP = 0x05
_SINCE = {
    "va_params": (0x0E, 0x0F), "bank_params": (0x10, 0x11, 0x12, 0x13),
    "prr_params": (0x14, 0x15), "aqe_param": (0x17,),
}  # fmt: skip
_TRAP_BASE = 0x1_FFFF_FFFF_F000
_NO_SPEEDBIN = 0xFFFF << 32
_GMEM_BASE = 0x100000


def read(gpu: AdrenoGpu, param: int, faults: int, rules: Rules) -> int:
    """A parameter; `faults`: those of the address space. Raises: OSError EINVAL."""
    chip, power = gpu.chip, gpu.engine.machine.power
    unknown = [numbers for name, numbers in _SINCE.items() if name not in rules]
    if param == _TIMESTAMP:
        power.wake()
        if not gpu.engine.jobs:
            power.rest()
    known_by_number = chip.generation < 7
    values = {
        0x01: chip.gpu_id if known_by_number else 0,
        0x02: chip.gmem_bytes,
        0x03: chip.chip_id if known_by_number else chip.chip_id | _NO_SPEEDBIN,
        0x04: chip.max_hz,
        _TIMESTAMP: power.always_on(),
        0x06: 0 if chip.lpac else _GMEM_BASE,
        0x07: PRIORITIES,
        0x08: 0,
        FAULTS: gpu.faults if "faults_of_all" in rules else faults,
        0x0A: power.suspended,
        0x0E: VA_START,
        0x0F: chip.va_bytes,
        0x10: chip.bank_bit,
        0x11: 0,
        0x12: 6,
        0x13: 1 if chip.bank_bit > 15 else 0,
        0x14: _TRAP_BASE,
        0x15: 0,
        0x17: 0,
    }
    if param not in values or any(param in numbers for numbers in unknown):
        raise OSError(errno.EINVAL, f"no parameter {param:#x}")
    return values[param]

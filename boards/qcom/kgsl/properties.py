"""What GETPROPERTY says and SETPROPERTY takes.

src: msm_kgsl.h; kgsl.c, adreno.c (adreno_getproperty) of Qualcomm's downstream kernels
"""

from __future__ import annotations

import errno
import struct
from types import SimpleNamespace

from boards.qcom.chips import AdrenoChip
from boards.qcom.kgsl import abi
from boards.qcom.kgsl.contexts import Contexts
from boards.qcom.user import UserMemory

DEVICE_INFO, MMU_ENABLE, VERSION, GPU_RESET_STAT = 0x1, 0x6, 0x8, 0x9
PWR_CONSTRAINT, UCHE_GMEM_VADDR, HIGHEST_BANK_BIT, DEVICE_BITNESS = 0x12, 0x13, 0x17, 0x18
MIN_ACCESS_LENGTH, UBWC_MODE, SPEED_BIN, CONTEXT_PROPERTY = 0x1A, 0x1B, 0x25, 0x28
GPU_MODEL, IS_LPAC_ENABLED, GPU_VA64_SIZE = 0x29, 0x2B, 0x2C
_DEVICE_3D0 = 0
_GMEM_VA = 0x100000
_VA_BYTES = 1 << 39
_MODEL_BYTES = 32
_CONTEXT = struct.Struct("<QIII")
_FAULTS = 1


def _ubwc(chip: AdrenoChip) -> int:
    """# src: adreno-gpulist.h: KGSL_UBWC_2_0 of a630, 3_0 of a640, 4_0 of a650 and later"""
    return {630: 2, 640: 3}.get(chip.gpu_id, 4)


def _fixed(chip: AdrenoChip) -> dict[int, bytes]:
    info = bytearray(abi.DEVINFO.nbytes)
    abi.DEVINFO.store(info, SimpleNamespace(
        device_id=_DEVICE_3D0 + 1, chip_id=chip.chip_id, mmu_enabled=1, gmem_gpubaseaddr=0,
        gpu_id=chip.gpu_id, gmem_sizebytes=chip.gmem_bytes,
    ))  # fmt: skip
    word = struct.Struct("<I").pack
    return {
        DEVICE_INFO: bytes(info),
        MMU_ENABLE: word(1),
        VERSION: struct.pack("<4I", 3, 14, 3, 1),
        UCHE_GMEM_VADDR: struct.pack("<Q", _GMEM_VA),
        HIGHEST_BANK_BIT: word(chip.bank_bit),
        DEVICE_BITNESS: word(48),
        MIN_ACCESS_LENGTH: word(32),
        UBWC_MODE: word(_ubwc(chip)),
        SPEED_BIN: word(0),
        GPU_MODEL: chip.title.encode().ljust(_MODEL_BYTES, b"\0"),
        IS_LPAC_ENABLED: word(0),
        GPU_VA64_SIZE: struct.pack("<Q", _VA_BYTES),
    }


class Properties:
    """Of one process."""

    def __init__(self, chip: AdrenoChip, contexts: Contexts, user: UserMemory) -> None:
        self._fixed, self._contexts, self._user = _fixed(chip), contexts, user
        self.constraints: dict[int, int] = {}
        """By context: the power level that was asked for."""

    def read(self, args: SimpleNamespace) -> None:
        """GETPROPERTY. Raises: OSError EINVAL, EFAULT."""
        if args.type == GPU_RESET_STAT:
            self._reset(args)
            return
        if args.type == CONTEXT_PROPERTY:
            self._context(args)
            return
        value = self._fixed.get(args.type)
        if value is None:
            raise OSError(errno.EINVAL, f"no property {args.type:#x}")
        if args.sizebytes != len(value):
            raise OSError(errno.EINVAL, f"property {args.type:#x} has {len(value)} bytes")
        self._user.store(args.value, value)

    def _reset(self, args: SimpleNamespace) -> None:
        """src: adreno_prop_s... KGSL_PROP_GPU_RESET_STAT: the context's number in, state out."""
        if args.sizebytes != 4:
            raise OSError(errno.EINVAL, "the state of a reset has 4 bytes")
        number = int.from_bytes(self._user.load(args.value, 4), "little")
        context = self._contexts.get(number)
        self._user.store(args.value, context.reset.to_bytes(4, "little"))
        context.reset = abi.NO_ERROR

    def _context(self, args: SimpleNamespace) -> None:
        if args.sizebytes != 24:
            raise OSError(errno.EINVAL, "a context's property has 24 bytes")
        data, size, kind, number = _CONTEXT.unpack_from(self._user.load(args.value, 24))
        context = self._contexts.get(number)
        if kind != _FAULTS or size != 8:
            raise OSError(errno.EINVAL, f"property {kind} of a context, {size} bytes")
        self._user.store(data, struct.pack("<iI", context.faults, context.retired))

    def write(self, args: SimpleNamespace) -> None:
        """SETPROPERTY: a context's power level. Raises: OSError EINVAL, EFAULT."""
        if args.type != PWR_CONSTRAINT:
            raise OSError(errno.EINVAL, f"property {args.type:#x} cannot be set")
        if args.sizebytes != abi.CONSTRAINT.nbytes:
            raise OSError(errno.EINVAL, f"a constraint has {abi.CONSTRAINT.nbytes} bytes")
        wanted = abi.CONSTRAINT.load(self._user.load(args.value, abi.CONSTRAINT.nbytes))
        context = self._contexts.get(wanted.context_id)
        if wanted.type == 0:
            self.constraints.pop(context.id, None)
            return
        if wanted.type != 1 or wanted.size != 4:
            raise OSError(errno.EINVAL, f"constraint {wanted.type} of {wanted.size} bytes")
        level = int.from_bytes(self._user.load(wanted.data, 4), "little")
        if level > 1:
            raise OSError(errno.EINVAL, f"power level {level}")
        self.constraints[context.id] = level

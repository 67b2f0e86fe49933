"""Modes that an administrator sets: MIG, compute mode, confidential computing.

src: open-gpu-kernel-modules, src/nvidia/src/kernel/gpu/subdevice/subdevice_ctrl_gpu_kernel.c
subdeviceCtrlCmdGpuAcquireComputeModeReservation_IMPL(), subdevice.c subdeviceDestruct_IMPL(),
conf_compute/conf_compute_api.c: the same in 535.43.28 and 595.45.04
"""

from __future__ import annotations

from types import SimpleNamespace

from boards.nv import status
from boards.nv.hardware import NvHardware
from boards.nv.objects import Object
from boards.nv.status import RmError
from boards.nv.tree import Device

_NORMAL, _PROHIBITED = 0, 2
_HCC = 2
"""NV_CONF_COMPUTE_SYSTEM_GPUS_CAPABILITY_HCC, and ..._FEATURE_HCC_ENABLED."""


class ConfidentialCompute(Object):
    """NV_CONFIDENTIAL_COMPUTE, below a client."""


def acquire(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """ACQUIRE_COMPUTE_MODE_RESERVATION. Raises: RmError NOT_SUPPORTED, STATE_IN_USE."""
    gpu, mode = target.ancestor(Device).gpu, hardware.options.compute_mode
    if hardware.options.mig:
        raise RmError(status.NOT_SUPPORTED, "MIG is on")
    if mode == _PROHIBITED or (mode != _NORMAL and gpu.reserved_by):
        raise RmError(status.STATE_IN_USE, f"compute mode {mode}, held by {gpu.reserved_by:#x}")
    gpu.reserved_by = target.client.handle


def release(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """RELEASE_COMPUTE_MODE_RESERVATION. Raises: RmError NOT_SUPPORTED, STATE_IN_USE."""
    gpu = target.ancestor(Device).gpu
    if hardware.options.mig:
        raise RmError(status.NOT_SUPPORTED, "MIG is on")
    if gpu.reserved_by != target.client.handle:
        raise RmError(status.STATE_IN_USE, f"held by {gpu.reserved_by:#x}")
    gpu.reserved_by = 0


def rules(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """QUERY_COMPUTE_MODE_RULES."""
    args.rules = hardware.options.compute_mode


def capabilities(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """SYSTEM_GET_CAPABILITIES."""
    args.cpuCapability = args.environment = args.devToolsMode = args.multiGpuMode = 0
    args.gpusCapability = _HCC if any(gpu.chip.hopper for gpu in hardware.gpus) else 0
    args.ccFeature = _HCC if hardware.options.confidential else 0

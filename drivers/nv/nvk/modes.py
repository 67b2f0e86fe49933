"""Modes of a GPU that an administrator sets: MIG, compute mode, confidential computing.

RM lets any client make a channel in every compute mode: modes are kept by asking for the GPU's
reservation first, which RM's source has for what it calls "cuda exclusive" and "cuda prohibited".
RM gives it up when the subdevice that took it is freed.
# src: src/nvidia/src/kernel/gpu/subdevice/subdevice_ctrl_gpu_kernel.c
# src: subdeviceCtrlCmdGpuAcquireComputeModeReservation_IMPL(), subdevice.c subdeviceDestruct(): the
# src: same in 535.43.28 and 595.45.04; the flags of g_subdevice_nvoc.c: no root from 535 to 595
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from drivers.base.errors import Busy, Denied, DeviceError, Unsupported
from drivers.base.undo import Step
from drivers.nv.nvk.allocations import ConfidentialAlloc, RmClass
from drivers.nv.nvk.client import RmClient
from drivers.nv.nvk.controls import (
    ACQUIRE_COMPUTE_MODE_RESERVATION,
    PERF_BOOST,
    QUERY_COMPUTE_MODE_RULES,
    ComputeModeRules,
    PerfBoost,
)
from drivers.nv.nvk.status import NvStatus, check_status, hint
from queues.nv.generations import GH100, Generation

PROHIBITED: Final = 2
"""NV2080_CTRL_GPU_COMPUTE_MODE_RULES_COMPUTE_PROHIBITED. Those that are not 0 are exclusive."""
PROTECTED_PCIE: Final = 1
"""NV_CONF_COMPUTE_SYSTEM_MULTI_GPU_MODEPROTECTED_PCIE: as confidential computing, for channels.
# src: src/nvidia/src/kernel/rmapi/nv_gpu_ops.c nvGpuOpsQueryGpuConfidentialComputeCaps()"""

BOOST_CLEAR: Final = 0
BOOST_TO_MAX: Final = 2
BOOST_CUDA: Final = 1 << 4
BOOST_CUDA_HIGH: Final = 1 << 6
BOOST_UNTIL_CLEARED: Final = 0xFFFFFFFF
"""NV2080_CTRL_PERF_BOOST_FLAGS_* and _DURATION_INFINITE."""


def reserve(client: RmClient, subdevice: int, address: str) -> bool:
    """Take the GPU, as its compute mode allows, before the first object that computes.

    False: RM has no reservation of it. So it is with MIG, where a client without an instance gets
    no address space; the caller reports that as `divided`. Raises: Denied and Busy for compute
    modes, and what RM refuses.
    # src: kernel_mig_manager.c kmigmgrGetInstanceRefFromDevice_IMPL()
    """
    status = client.plain_control(subdevice, ACQUIRE_COMPUTE_MODE_RESERVATION)
    if status == NvStatus.NOT_SUPPORTED:
        return False
    if status == NvStatus.STATE_IN_USE:
        raise _refused(client, subdevice, address)
    check_status(status, f"{ACQUIRE_COMPUTE_MODE_RESERVATION.name}: the GPU at {address}")
    return True


def reservable(client: RmClient, subdevice: int) -> bool:
    """For a look at a GPU alone: whether RM has reservations of it, as far as that can be asked.

    In an exclusive mode the reservation is left to programs that compute; in the default mode it
    keeps none of them out.
    """
    if client.control(subdevice, QUERY_COMPUTE_MODE_RULES, ComputeModeRules()).rules:
        return True
    status = client.plain_control(subdevice, ACQUIRE_COMPUTE_MODE_RESERVATION)
    return status != NvStatus.NOT_SUPPORTED


def divided(address: str, error: DeviceError) -> Unsupported:
    """The error of a GPU in MIG mode, in place of the one that opening it ended with."""
    return Unsupported(
        f"the GPU at {address} is divided (MIG), and this driver opens no MIG instances "
        f"({error.message})",
        hint=f"As root: nvidia-smi -i {address} -mig 0; or use CUDA=1, which opens instances",
    )


def _refused(client: RmClient, subdevice: int, address: str) -> DeviceError:
    rules = client.control(subdevice, QUERY_COMPUTE_MODE_RULES, ComputeModeRules()).rules
    default = f"as root: nvidia-smi -i {address} -c DEFAULT"
    if rules == PROHIBITED:
        text = f"the GPU at {address} is in compute mode Prohibited: no program may compute on it"
        return Denied(text, hint=f"Use another GPU; or {default}")
    return Busy(
        f"the GPU at {address} is in an exclusive compute mode, and is in use",
        hint=f"Close the other program, which python -m drivers.nv.smi names; or {default}",
    )


def boost(client: RmClient, subdevice: int) -> Step:
    """Raise clocks until the step that comes back is run. It is a hint: RM may refuse it.

    Without it the first launches run at the clocks of an idle GPU.
    # src: kern_perf_boost.c subdeviceCtrlCmdKPerfBoost_IMPL(), no root from 535 to 595; the flags
    # src: are those of clients known to run (tinygrad ops_nv.py)
    """

    def ask(flags: int, duration_s: int) -> None:
        with hint():
            client.control(subdevice, PERF_BOOST, PerfBoost(flags=flags, duration=duration_s))

    ask(BOOST_TO_MAX | BOOST_CUDA | BOOST_CUDA_HIGH, BOOST_UNTIL_CLEARED)
    return partial(ask, BOOST_CLEAR | BOOST_CUDA, 0)


def check_plain(client: RmClient, generation: Generation, address: str) -> None:
    """Raises: Unsupported where channels have to be encrypted, which GPUs can do from Hopper on."""
    if generation.compute < GH100.compute:
        return
    args = ConfidentialAlloc(h_client=client.handle)
    what = "the modes of confidential computing"
    handle = client.alloc(what, client.handle, RmClass.NV_CONFIDENTIAL_COMPUTE, args)
    try:
        control = client.abi.cc_capabilities
        found: Any = client.control(handle, control, control.args())
    finally:
        client.free(handle, client.handle)
    pcie = getattr(found, "multi_gpu_mode", 0) == PROTECTED_PCIE
    if found.cc_feature or pcie:
        raise Unsupported(
            f"confidential computing is on: the GPU at {address} takes encrypted work alone, which "
            "this driver does not send",
            hint="Use CUDA=1, or have it turned off (nvidia-smi conf-compute shows its state)",
        )

"""Faults as RM reports them: error notifiers, MMU faults, the error states of SMs.

A fault tears down the channel group: RM writes a code to the channel's error notifier (in the
kernel's log an "Xid"), and the debugger's controls say what happened.
# src: src/common/sdk/nvidia/inc/{nverror.h, ctrl/ctrl83de/ctrl83dedebug.h}, dev_fault.ref
"""

from __future__ import annotations

from contextlib import suppress
from enum import IntEnum
from typing import Final

from drivers.base.errors import DeviceError
from drivers.gpu.incident import ECC, Incident, PageFault
from drivers.nv.nvk.allocations import Notification
from drivers.nv.nvk.channel import Channel
from drivers.nv.nvk.controls import (
    GET_MMU_FAULT_INFO,
    MAX_SMS,
    READ_MMU_FAULT_INFO,
    READ_SM_ERROR_STATES,
    SM_STATE_BYTES,
    ChannelMmuFault,
    MmuFaults,
    SmErrorStates,
)
from drivers.nv.nvk.warp_errors import warp_error

COPY_CLIENT: Final = "copy engine"
"""How a fault of the copy channel is told from one of the compute channel."""


class Xid(IntEnum):
    """ROBUST_CHANNEL_*."""

    GR_EXCEPTION = 13
    FIFO_ERROR_MMU_ERR_FLT = 31
    PBDMA_ERROR = 32
    CE0_ERROR = 39
    CE1_ERROR = 40
    CE2_ERROR = 41
    RESETCHANNEL_VERIF_ERROR = 43
    PREEMPTIVE_REMOVAL = 45
    GPU_ECC_DBE = 48
    GR_CLASS_ERROR = 69
    GPU_HAS_FALLEN_OFF_THE_BUS = 79
    CONTAINED_ERROR = 94
    UNCONTAINED_ERROR = 95
    GSP_RPC_TIMEOUT = 119
    GSP_ERROR = 120


_CAUSES: Final = {
    Xid.GR_EXCEPTION: "graphics exception", Xid.PBDMA_ERROR: "bad packet",
    Xid.GR_CLASS_ERROR: "bad method", Xid.GPU_ECC_DBE: ECC, Xid.CONTAINED_ERROR: ECC,
    Xid.UNCONTAINED_ERROR: ECC, Xid.RESETCHANNEL_VERIF_ERROR: "channel reset",
    Xid.PREEMPTIVE_REMOVAL: "removed by the kernel driver",
    Xid.CE0_ERROR: "copy engine error", Xid.CE1_ERROR: "copy engine error",
    Xid.CE2_ERROR: "copy engine error",
}  # fmt: skip
_GONE: Final = {
    Xid.GPU_HAS_FALLEN_OFF_THE_BUS: "it left the bus",
    Xid.GSP_RPC_TIMEOUT: "its GSP does not answer",
    Xid.GSP_ERROR: "its GSP stopped",
}  # fmt: skip
"""Codes that RM gives every channel of a GPU before it refuses all requests.
# src: osinit.c osHandleGpuLost(): gpuSetDisconnectedProperties(), krcRcAndNotifyAllChannels();
# kernel_gsp_tu102.c kgspHealthCheck(): kgspRcAndNotifyAllChannels(), gpuMarkDeviceForReset()
"""
_KINDS: Final = {
    0: "unmapped", 1: "unmapped", 2: "unmapped", 3: "beyond the address space", 5: "privileged",
    6: "read-only", 7: "write-only", 0xF: "no atomics",
}  # fmt: skip
"""NV_PFAULT_FAULT_TYPE. # src: swref/published/ampere/ga100/dev_fault.h"""
_ACCESSES: Final = {
    0: "read", 1: "write", 2: "atomic", 3: "prefetch", 4: "atomic", 8: "read", 9: "write",
    10: "atomic", 11: "prefetch",
}  # fmt: skip
"""NV_PFAULT_ACCESS_TYPE, virtual ones and, from 8 on, physical ones."""
_ESR_OFF, _PC64_OFF = 4, 32
"""hwwWarpEsr and hwwWarpEsrPc64 in NV83DE_SM_ERROR_STATE_REGISTERS."""
_FAULT_BYTES: Final = 16


class Faults:
    """Asks RM what happened to a channel."""

    def __init__(self, sms: int) -> None:
        self._sms = sms

    def of(self, channel: Channel, note: Notification) -> Incident:
        """The incident behind a notification. What RM does not answer is left out."""
        client = "" if channel.plan.compute else COPY_CLIENT
        code = int(note.info32)
        if code in _GONE:  # and nothing more can be asked
            return Incident(cause=_GONE[Xid(code)], gone=True)
        page = self._page(channel, client) if channel.plan.compute else None
        if page is None and code == Xid.FIFO_ERROR_MMU_ERR_FLT:
            page = _of_channel(channel, client)
        if page is not None:
            return Incident(page=page)
        if code == Xid.FIFO_ERROR_MMU_ERR_FLT:
            return Incident(page=PageFault(0, "unmapped", "", True, client))
        cause, pc = self._exception(channel) if code == Xid.GR_EXCEPTION else ("", 0)
        known = _CAUSES.get(Xid(code)) if code in Xid._value2member_map_ else None
        cause = cause or known or f"channel error {code}"
        return Incident(cause=f"{client}: {cause}" if client and cause != ECC else cause, pc=pc)

    def _page(self, channel: Channel, where: str) -> PageFault | None:
        """The first MMU fault that RM has for the engine."""
        if not channel.debugger:
            return None
        client = channel.gpu.client
        try:
            found = client.control(channel.debugger, READ_MMU_FAULT_INFO, MmuFaults())
        except DeviceError:
            return None
        if not found.count:
            return None
        first = memoryview(found.mmu_fault_info_list[:_FAULT_BYTES])
        address = int.from_bytes(first[:8], "little")
        kind, access = (int.from_bytes(first[at : at + 4], "little") for at in (8, 12))
        what = _KINDS.get(kind, f"MMU fault {kind}")
        return PageFault(address, what, _ACCESSES.get(access, f"access {access}"), False, where)

    def _exception(self, channel: Channel) -> tuple[str, int]:
        """(what a warp did, its program counter) of the first SM with an error.

        The first call asks for as many SMs as it has room for: a chip whose SMs are not numbered
        without gaps is read whole. Further ones may be refused, where a chip has fewer SMs.
        """
        with suppress(DeviceError):
            for start in range(0, max(self._sms, 1), MAX_SMS):
                found = self._error_from(channel, start)
                if found[0]:
                    return found
        return "", 0

    def _error_from(self, channel: Channel, start: int) -> tuple[str, int]:
        """The states of SMs from one on. Raises: what RM refuses."""
        args = SmErrorStates(
            h_target_channel=channel.handle, num_sms_to_read=MAX_SMS, starting_sm=start
        )
        found = channel.gpu.client.control(channel.debugger, READ_SM_ERROR_STATES, args)
        raw = found.sm_error_state_array
        for at in range(0, MAX_SMS * SM_STATE_BYTES, SM_STATE_BYTES):
            what = warp_error(_u32(raw, at + _ESR_OFF))
            if what:
                return what, _u32(raw, at + _PC64_OFF) | _u32(raw, at + _PC64_OFF + 4) << 32
        return "", 0


def _u32(raw: bytes, at: int) -> int:
    return int.from_bytes(raw[at : at + 4], "little")


def _of_channel(channel: Channel, client: str) -> PageFault | None:
    """The MMU fault of a channel without a debugger: its address, not what kind of access."""
    try:
        found = channel.gpu.client.control(channel.handle, GET_MMU_FAULT_INFO, ChannelMmuFault())
    except DeviceError:
        return None
    address = found.addr_hi << 32 | found.addr_lo
    if not address:
        return None
    return PageFault(address, _KINDS.get(found.fault_type, "unmapped"), "access", False, client)

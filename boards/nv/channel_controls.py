"""Controls of channels and groups: scheduling, tokens, what went wrong.

src: open-gpu-kernel-modules, ctrla06c.h, ctrla06fgpfifo.h, ctrlc36f.h, ctrl906f.h, ctrl83dedebug.h
"""

from __future__ import annotations

import struct
from types import SimpleNamespace

from boards.nv import faults, status
from boards.nv.channel import Channel, ChannelGroup
from boards.nv.hardware import NvHardware
from boards.nv.objects import Object
from boards.nv.status import RmError
from boards.nv.tree import Debugger

_SM_STATE = "<IIIIIxxxxQQII"
_MOST_SMS, _MOST_FAULTS = 100, 4
_ALL_REPORTED = 0xFFFF_FFFF
_NAMES = {0: b"FAULT_PDE", 2: b"FAULT_PTE", 6: b"FAULT_RO_VIOLATION", 15: b"FAULT_ATOMIC_VIOLATION"}


def schedule(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """GPFIFO_SCHEDULE of a group. Raises: RmError INVALID_STATE.

    A channel on the graphics engine in a space that UVM has comes after UVM_REGISTER_CHANNEL.
    src: kernel_channel_group_api.c kchangrpapiCtrlCmdGpFifoSchedule_IMPL(), kernel_channel.c
    kchannelIsSchedulable_IMPL(): 535 to 595
    """
    group = target.ancestor(ChannelGroup)
    if args.bEnable and not group.members():
        raise RmError(status.INVALID_STATE, "a group without channels cannot be scheduled")
    for channel in group.members():
        if channel.unbound:
            raise RmError(status.INVALID_STATE, f"UVM does not know channel {channel.handle:#x}")
    for channel in group.members():
        channel.stopped = False
    group.scheduled = bool(args.bEnable)


def schedule_one(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """GPFIFO_SCHEDULE of a channel, which goes with its group."""
    hardware.find("a channel of a group that is scheduled alone", f"{target.handle:#x}")
    raise RmError(status.INVALID_STATE, "schedule the group: NVA06C_CTRL_CMD_GPFIFO_SCHEDULE")


def bind(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """BIND. Raises: RmError INVALID_ARGUMENT for another engine than the group's."""
    if args.engineType != target.ancestor(Channel).group.engine:
        raise RmError(status.INVALID_ARGUMENT, f"engine {args.engineType} is not the group's")


def preempt(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """PREEMPT: work that never ends is not preempted in time. Raises: RmError TIMEOUT."""
    if args.bWait and any(channel.stuck for channel in target.ancestor(ChannelGroup).members()):
        raise RmError(status.TIMEOUT, "a grid does not end")


def token(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """What the doorbell takes; RM puts it in the second entry of the notifiers, too.

    src: kernel_channel.c kchannelNotifyWorkSubmitToken_IMPL(): 535 to 595
    """
    channel = target.ancestor(Channel)
    channel.token_taken = True
    args.workSubmitToken = channel.token
    at = faults.TOKEN_NOTIFIER * faults.NOTIFIER_BYTES
    notifier = channel.notifier
    if notifier is not None and notifier.nbytes >= at + faults.NOTIFIER_BYTES:
        notifier.store(at, faults.notifier(hardware.clock.now_ns(), channel.token, 0))


def mmu_fault(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """The last MMU fault of the channel's group; zeros without one."""
    report = target.ancestor(Channel).group.mmu_fault
    if report is not None:
        args.addrHi, args.addrLo = report.va >> 32, report.va & 0xFFFF_FFFF
        args.faultType, args.faultString = report.fault, _NAMES.get(report.fault, b"FAULT")


def sm_errors(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """The error registers of SMs, and whether there was an MMU fault."""
    group = target.ancestor(Debugger).group
    _check_channel(group, args.hTargetChannel)
    count = min(args.numSMsToRead, _MOST_SMS)
    states = [bytes(struct.calcsize(_SM_STATE))] * count
    for error in group.sm_errors:
        if not 0 <= error.sm - args.startingSM < count:
            continue
        states[error.sm - args.startingSM] = struct.pack(
            _SM_STATE, 0, error.warp_esr, error.pc & 0xFFFF_FFFF, _ALL_REPORTED, _ALL_REPORTED,
            error.address, error.pc, 0, 0,
        )  # fmt: skip
    args.states = b"".join(states)
    fault = group.mmu_fault
    args.mmuFaultValid = int(fault is not None)
    args.mmuFaultData = args.mmuFaultInfo = fault.fault if fault is not None else 0


def clear_sm_errors(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """Forget them."""
    group = target.ancestor(Debugger).group
    _check_channel(group, args.hTargetChannel)
    group.sm_errors.clear()


def debugger_faults(hardware: NvHardware, target: Object, args: SimpleNamespace) -> None:
    """MMU faults that were not read yet: reading takes them."""
    group = target.ancestor(Debugger).group
    taken, group.shown_faults = group.shown_faults[:_MOST_FAULTS], group.shown_faults[_MOST_FAULTS:]
    for number, fault in enumerate(taken):
        args.mmuFaultInfoList[2 * number] = fault.va
        args.mmuFaultInfoList[2 * number + 1] = fault.fault | fault.access << 32
    args.count = len(taken)


def _check_channel(group: ChannelGroup, handle: int) -> None:
    if handle and all(channel.handle != handle for channel in group.members()):
        raise RmError(status.INVALID_CHANNEL, f"{handle:#x} is no channel of the group")

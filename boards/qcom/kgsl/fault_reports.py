"""GET_FAULT_REPORT: the page faults that KGSL has kept for a context.

src: kgsl.c kgsl_ioctl_get_fault_report, kgsl_update_fault_count, kgsl_update_fault_details of
Qualcomm's downstream kernels. Faults older than five seconds are not dropped here.
"""

from __future__ import annotations

import errno
from types import SimpleNamespace

from boards.qcom.kgsl import abi
from boards.qcom.kgsl.contexts import Context
from boards.qcom.user import UserMemory


def fault_report(user: UserMemory, context: Context, args: SimpleNamespace) -> None:
    """The types, the counts, or the faults. Raises: OSError EINVAL, EFAULT."""
    if not context.flags & abi.CTX_FAULT_INFO or not context.invalid:
        raise OSError(errno.EINVAL, f"no faults are kept of context {context.id}")
    if not args.faultlist:
        args.faultnents = abi.FAULT_TYPES
        return
    if not args.faultsize:
        raise OSError(errno.EINVAL, "a list of faults of no bytes: the board's own rule")
    lists = _lists(user, args)
    if any(item.fault for item in lists):
        _details(user, context, lists)
    elif lists and context.page_faults:
        counted = SimpleNamespace(
            fault=0, type=abi.FAULT_PAGEFAULT, count=len(context.page_faults), size=0, padding=0
        )
        data = bytearray(abi.FAULT.nbytes)
        abi.FAULT.store(data, counted)
        user.store(args.faultlist, bytes(data[: args.faultsize]))


def _lists(user: UserMemory, args: SimpleNamespace) -> list[SimpleNamespace]:
    data = user.load(args.faultlist, args.faultsize * args.faultnents)
    starts = range(0, len(data), args.faultsize)
    size = min(args.faultsize, abi.FAULT.nbytes)
    return [abi.FAULT.load(data[at : at + size].ljust(abi.FAULT.nbytes, b"\0")) for at in starts]


def _details(user: UserMemory, context: Context, lists: list[SimpleNamespace]) -> None:
    """Of several lists of one type the last one is filled."""
    if any(item.type >= abi.FAULT_TYPES for item in lists):
        raise OSError(errno.EINVAL, "no such type of fault")
    wanted = [item for item in lists if item.type == abi.FAULT_PAGEFAULT]
    if not wanted:
        return
    item = wanted[-1]
    for place, (va, kind) in enumerate(list(context.page_faults)[: item.count]):
        data = bytearray(abi.PAGEFAULT_REPORT.nbytes)
        made = SimpleNamespace(fault_addr=va, reserved=[0, 0], fault_type=kind, pad=0)
        abi.PAGEFAULT_REPORT.store(data, made)
        user.store(item.fault + place * item.size, bytes(data[: item.size]))

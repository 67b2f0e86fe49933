"""What a client does in front of a board that is not a fault of either: each with its source.

Everything else that is refused, or that a board reports, fails the run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from tests.witness.record import Report


class Expected(NamedTuple):
    """One thing that may happen."""

    what: str
    """"violation", "refused" or "queue left"."""
    pattern: str
    reason: str
    source: str


EXPECTED = (
    Expected(
        "refused", r"kfd set_xnack_mode: .*this kernel has no shared virtual memory",
        "The board is a kernel without CONFIG_HSA_AMD_SVM; ROCr goes on without retry.",
        "amdkfd/kfd_chardev.c, kfd_ioctl_set_xnack_mode() outside CONFIG_HSA_AMD_SVM",
    ),
    Expected(
        "refused", r"kfd svm: .*this kernel has no shared virtual memory",
        "The same: ROCr asks for the attributes of the page that faulted.",
        "amdkfd/kfd_chardev.c, kfd_ioctl_svm() outside CONFIG_HSA_AMD_SVM",
    ),
    Expected(
        "refused", r"drm AMDGPU_INFO 0x3: .*no IP block of type [3-9]",
        "libdrm counts video engines, which a board has not.",
        "amdgpu_kms.c AMDGPU_INFO_HW_IP_COUNT: EINVAL without the block",
    ),
    Expected(
        "refused", r"kfd 0x82: .*no command 0x82",
        "DBG_TRAP as it was numbered before Linux 6.5; Debian 12's ROCr asks for its version.",
        "amdkfd/kfd_chardev.c kfd_ioctl(): ENOTTY beyond AMDKFD_COMMAND_END",
    ),
    Expected(
        "refused", r"kfd set_event: .*no event \d+",
        "ROCr wakes a thread whose event another thread has already destroyed at shutdown.",
        "ROCr 5.2.3 runtime.cpp Runtime::AsyncEventsLoop, AsyncEventsControl::Shutdown",
    ),
    Expected(
        "refused", r"kfd dbg_trap: ",
        "ROCr 6.4 writes a GPU core dump when a queue stops, and attaches itself to do so.",
        "amd_core_dump.cpp; a board answers ENOSYS as a kernel without the debugger",
    ),
)  # fmt: skip


def explained(what: str, text: str, own: Iterable[Expected] = ()) -> Expected | None:
    """The record that covers it, or None; `own` are those of one client alone."""
    known = (*EXPECTED, *own)
    return next((one for one in known if one.what == what and re.match(one.pattern, text)), None)


def surprises(report: Report, own: Iterable[Expected] = ()) -> Iterable[str]:
    """Whatever no record covers."""
    happened = [("violation", text) for _, text in report.violations]
    happened += [("refused", text) for text in report.refused]
    happened += [("trouble", text) for text in report.troubles]
    if not report.ended_early:
        happened += [("queue left", text) for text in report.queues_left]
    return [f"{what}: {text}" for what, text in happened if explained(what, text, own) is None]

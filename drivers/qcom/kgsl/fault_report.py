"""The page fault that KGSL keeps for an invalidated context made with KGSL_CONTEXT_FAULT_INFO.

The first request counts faults, the second one has an address to put them at. Page faults are
the first type of the list, and the first one of them is the oldest.

# src: msm_kgsl.h, struct kgsl_fault_report; downstream kgsl.c kgsl_ioctl_get_fault_report(),
# kgsl_update_fault_details(); kgsl_iommu.c kgsl_iommu_add_fault_info()
"""

from __future__ import annotations

from typing import Final

from drivers.base.contracts import Region, World
from drivers.gpu.incident import PageFault
from drivers.qcom.kgsl.abi import (
    GET_FAULT_REPORT,
    FaultList,
    FaultReport,
    FaultType,
    PageFaultReport,
    PageFaultType,
)

_REPORT_OFF: Final = 64
"""In the memory of requests; the list of fault types is at its beginning."""


def page_fault_of(world: World, fd: int, arena: Region, context: int) -> PageFault | None:
    """The first page fault of a context; None where it was stopped by something else.

    Raises: what KGSL refuses: EINVAL for a context that is not invalidated or has no report.
    """
    arena.write(0, bytes(FaultList.SIZE))
    _ask(world, fd, arena, context)
    found = FaultList.of(arena.read(0, FaultList.SIZE))
    if found.type != FaultType.PAGEFAULT or not found.count:
        return None
    arena.write(_REPORT_OFF, bytes(PageFaultReport.SIZE))
    wanted = FaultList(
        fault=arena.cpu_va + _REPORT_OFF, type=FaultType.PAGEFAULT, count=1,
        nbytes=PageFaultReport.SIZE,
    )  # fmt: skip
    arena.write(0, bytes(wanted.raw))
    _ask(world, fd, arena, context)
    return _read(PageFaultReport.of(arena.read(_REPORT_OFF, PageFaultReport.SIZE)))


def _ask(world: World, fd: int, arena: Region, context: int) -> None:
    """One request, of a list with one type."""
    call = FaultReport(
        faultlist=arena.cpu_va, faultnents=1, faultsize=FaultList.SIZE, context_id=context
    )
    GET_FAULT_REPORT(world, fd, call)


def _read(report: PageFaultReport) -> PageFault | None:
    """As errors have it; None where KGSL wrote none."""
    what = report.fault_type
    if not what:
        return None
    write, read = what & PageFaultType.WRITE, what & PageFaultType.READ
    access = "write" if write else "read" if read else "access"
    if what & PageFaultType.TRANSLATION:
        kind = "unmapped"
    else:
        kind = "read-only" if write and what & PageFaultType.PERMISSION else "memory"
    return PageFault(report.fault_addr, kind, access)

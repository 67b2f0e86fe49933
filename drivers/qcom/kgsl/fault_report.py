"""The page fault that KGSL keeps for an invalidated context made with KGSL_CONTEXT_FAULT_INFO.

The first request counts faults, the second one has an address to put them at. Page faults are
the first type of the list, and the first one of them is the oldest.

# src: msm_kgsl.h, struct kgsl_fault_report; downstream kgsl.c kgsl_ioctl_get_fault_report(),
# kgsl_update_fault_details(); kgsl_iommu.c kgsl_iommu_add_fault_info()
"""

from __future__ import annotations

from drivers.base.arena import Arena, Piece
from drivers.base.contracts import World
from drivers.gpu.incident import PageFault
from drivers.qcom.kgsl.abi import (
    GET_FAULT_REPORT,
    FaultList,
    FaultReport,
    FaultType,
    PageFaultReport,
    PageFaultType,
)


def page_fault_of(world: World, fd: int, arena: Arena, context: int) -> PageFault | None:
    """The first page fault of a context; None where it was stopped by something else.

    Raises: what KGSL refuses: EINVAL for a context that is not invalidated or has no report.
    """
    with arena.piece(bytes(FaultList.SIZE)) as piece:
        _ask(world, fd, piece, context)
        found = FaultList.of(piece.read())
    if found.type != FaultType.PAGEFAULT or not found.count:
        return None
    with arena.piece(bytes(PageFaultReport.SIZE)) as report:
        wanted = FaultList(
            fault=report.cpu_va, type=FaultType.PAGEFAULT, count=1, nbytes=report.nbytes
        )
        with arena.piece(wanted.raw) as piece:
            _ask(world, fd, piece, context)
        return _read(PageFaultReport.of(report.read()))


def _ask(world: World, fd: int, types: Piece, context: int) -> None:
    """One request, of a list with one type."""
    call = FaultReport(
        faultlist=types.cpu_va, faultnents=1, faultsize=FaultList.SIZE, context_id=context
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

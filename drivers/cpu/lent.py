"""Host memory of other libraries as buffers of the CPU device: at its address, without a copy."""

from __future__ import annotations

from functools import partial

from drivers.base.lent import ADDRESS, Lent, checked_kind
from drivers.cpu.buffer import CpuBuffer
from drivers.cpu.device import CpuDevice
from drivers.world.native import memory_at
from drivers.world.own_memory import check_mapped


def borrow(device: CpuDevice, lent: Lent) -> tuple[CpuBuffer, int]:
    """A buffer over the lent bytes, and where they begin in it: 0. The owner is kept.

    Raises: BadArgument for addresses that are not this process's; Unsupported for another kind.
    """
    checked_kind(lent, (ADDRESS,), device.name)
    if lent.bounds is None:
        check_mapped(lent.address, lent.nbytes, writable=not lent.readonly)
    view = memory_at(lent.address, lent.nbytes, partial(_returned, lent.owner)).cast("B")
    return device.wrap(view.toreadonly() if lent.readonly else view), 0


def _returned(owner: object) -> None:
    """The last view of lent memory is gone; with this call the reference to its owner is, too."""

"""What a process has open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from boards.qcom.memory import Memory
from boards.qcom.msm.device import Msm
from boards.qcom.msm.syncobjs import Syncobj


@dataclass(slots=True, eq=False)
class QcomFile:
    """An open file: a device node, a fence, a dma-buf, or a plain file."""

    path: str
    device: bool = False
    fence: Callable[[], bool] | None = None
    """Whether it has signalled."""
    dma_buf: Memory | None = None
    msm: Msm | None = None
    syncobj: Syncobj | None = None

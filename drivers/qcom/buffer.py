"""Buffers in the machine's memory, and the host's caches around its copies.

Where the SMMU does not look into the host's caches, buffers are seen through copies alone. A copy
cleans the lines that it wrote. Before it reads, lines are cleaned and then dropped: KGSL does whole
pages, where a neighbour's bytes may be in caches alone while another thread stores them.
"""

from __future__ import annotations

from typing import Final

from drivers.gpu.buffer import GpuBuffer
from drivers.qcom.kgsl.memory import CachedMemory

LINE_BYTES: Final = 64
"""A line of the host's caches, of all cores that Qualcomm sold with these GPUs."""


class QcomBuffer(GpuBuffer):
    """Memory of the machine that host and GPU see."""

    __slots__ = ()

    def _cached(self) -> CachedMemory | None:
        """Its memory, where the host's caches need care."""
        block = self.block
        held = None if block is None else block.bo
        return held if isinstance(held, CachedMemory) else None

    @property
    def host(self) -> memoryview | None:
        """The bytes, to read; None where a view would show what the caches have."""
        found = super().host
        return None if self._cached() is not None else found

    def before_read(self, nbytes: int) -> None:
        """What the GPU wrote is what the host reads."""
        held = self._cached()
        if held is not None:
            held.refresh(self.gpu_va - held.gpu_va, nbytes)

    def before_store(self, nbytes: int) -> None:
        """The rest of the last line is what the GPU wrote."""
        held, rest = self._cached(), nbytes % LINE_BYTES
        if held is not None and rest:
            held.refresh(self.gpu_va - held.gpu_va + nbytes - rest, LINE_BYTES)

    def after_store(self, nbytes: int) -> None:
        """What the host stored is in memory."""
        held = self._cached()
        if held is not None:
            held.clean(self.gpu_va - held.gpu_va, nbytes)

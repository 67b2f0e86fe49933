"""Buffers in the machine's memory, and the host's caches around its copies.

Where the SMMU does not look into the host's caches, buffers are seen through copies alone: those
invalidate what they read, and clean what they wrote.
"""

from __future__ import annotations

from drivers.base.contracts import Buffer
from drivers.gpu.buffer import GpuBuffer
from drivers.gpu.transfers import Transfers
from drivers.qcom.kgsl.memory import CachedMemory
from drivers.qcom.rings import QcomComputeRing, QcomCopyRing


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

    def host_bytes(self) -> memoryview | None:
        """A view for one copy: its owner has waited for the GPU."""
        held = self._cached()
        if held is not None:
            held.invalidate(self.gpu_va - held.gpu_va, self.nbytes)
        return super().host_bytes()

    def clean(self, nbytes: int) -> None:
        """The host has stored so many bytes: the GPU sees them."""
        held = self._cached()
        if held is not None:
            held.clean(self.gpu_va - held.gpu_va, nbytes)


class QcomTransfers(Transfers[QcomComputeRing, QcomCopyRing]):
    """Host copies."""

    def copy_in(self, dst: Buffer, va: int, src: memoryview) -> None:
        """Copy host memory to `va`, the start of `dst`, after everything submitted before."""
        super().copy_in(dst, va, src)
        if isinstance(dst, QcomBuffer) and src.nbytes:
            dst.clean(src.nbytes)

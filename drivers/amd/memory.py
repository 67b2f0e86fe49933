"""Buffers of an AMD device."""

from __future__ import annotations

from drivers.gpu.buffer import GpuBuffer


class AmdBuffer(GpuBuffer):
    """Memory on an AMD card, or host memory that it reaches."""

    __slots__ = ()

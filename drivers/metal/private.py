"""Copies between the host and memory that only the GPU sees, through a shared buffer."""

from __future__ import annotations

from drivers.metal.commands import Transfer
from drivers.metal.memory import MetalBuffer
from drivers.metal.owner import MetalOwner


def write(device: MetalOwner, dst: MetalBuffer, data: memoryview) -> None:
    """The first bytes of a buffer, when this returns. Raises: OutOfMemory, Hang."""
    if data.nbytes:
        staged = device.alloc(data.nbytes)
        device.copy_in(staged, data)
        _copy(device, dst, staged, data.nbytes)


def read(device: MetalOwner, dst: memoryview, src: MetalBuffer) -> None:
    """The same, from a buffer. Raises: OutOfMemory, Hang."""
    if dst.nbytes:
        staged = device.alloc(dst.nbytes)
        _copy(device, staged, src, dst.nbytes)
        device.copy_out(dst, staged)


def _copy(device: MetalOwner, dst: MetalBuffer, src: MetalBuffer, nbytes: int) -> None:
    ring = device.rings[0]
    with device.lock, device.alone():
        device.push(ring, [Transfer(device, ring, (dst.block, src.block), nbytes)])
    device.synchronize()

"""Memory that a CUDA device shares with other libraries, and the order between their streams.

All libraries of a process use one primary context for each device, so that an address of one is an
address of all, and a stream of one may wait for an event of another.
# src: CUDA Runtime API, "Interactions with the CUDA Driver API": primary contexts
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from drivers.base.errors import BadArgument, Unsupported
from drivers.base.lent import ADDRESS, Lent, check_address, check_inside, checked_kind
from drivers.cuda import abi
from drivers.cuda.device import CudaDevice
from drivers.cuda.memory import CudaBuffer
from drivers.world.native import memory_at
from drivers.world.own_memory import check_mapped

CUDA: Final = "cuda"
"""Kind of memory that `pointer` is a CUdeviceptr of."""
_PAGE_BYTES: Final = 4096
_NO_STREAM: Final = -1
_HANDLES: Final = 1 << 64


def handles(device: CudaDevice) -> dict[str, int]:
    """What another library needs to work beside the device: context, device, and the stream of its
    kernels, on which work of others runs in the order in which it is enqueued."""
    device.check_open()
    return {
        "CUdevice": device.facts.ordinal,
        "CUcontext": device.context.handle,
        "CUstream": device.rings[0].stream,
    }


def borrow(device: CudaDevice, lent: Lent) -> tuple[CudaBuffer, int]:
    """A buffer over the lent bytes, or over pages of the host; and the byte of it where they begin.
    The owner is kept until no work uses the memory.

    Raises: BadArgument for addresses that CUDA does not know, of another device, or bytes outside
    of their allocation; Unsupported for host memory that is read-only or not whole pages.
    """
    device.check_open()
    if checked_kind(lent, (CUDA, ADDRESS), device.name) == ADDRESS:
        return _borrow_pages(device, lent)
    check_address(lent)
    with device.working():
        device.check_open()
        kind, ordinal, start, nbytes = device.raw.range_of(lent.address)
        name = f"{lent.address:#x}"
        if not kind:
            raise BadArgument(
                f"{name} is not an address that CUDA knows",
                hint="pass a device pointer (torch: data_ptr() of a tensor on cuda) and owner=",
            )
        if kind != abi.MEMORYTYPE_DEVICE:
            raise Unsupported(
                f"{name} is memory of the host", hint='pass kind="address", or copy the elements'
            )
        if ordinal != device.facts.ordinal:
            raise BadArgument(
                f"{name} is memory of CUDA:{ordinal}, not of {device.name}",
                hint=f"name its device (CUDA:{ordinal}), or copy the elements",
            )
        check_inside(lent.address - start, lent.nbytes, nbytes, start)
        if lent.address % lent.align:
            raise BadArgument(
                f"{name} is not aligned to {lent.align} bytes",
                hint="copy the elements, or share memory that begins at a whole element",
            )
        made = device.lend(lent.address, lent.nbytes, lent.owner, readonly=lent.readonly)
    return made, 0


def _borrow_pages(device: CudaDevice, lent: Lent) -> tuple[CudaBuffer, int]:
    """The pages around the lent bytes, where all of them are the lender's."""
    if lent.readonly:
        raise Unsupported(
            f"{device.name} pins pages only where the process may write them",
            hint=f"copy the elements: asarray(..., device={device.name!r})",
        )
    if lent.bounds is None:
        check_mapped(lent.address, lent.nbytes, writable=True)
    skip = lent.address % _PAGE_BYTES
    first = lent.address - skip
    nbytes = -(-(skip + lent.nbytes) // _PAGE_BYTES) * _PAGE_BYTES
    start, size = lent.bounds or (lent.address, lent.nbytes)
    if first < start or first + nbytes > start + size:
        raise Unsupported(
            f"{lent.nbytes} bytes at {lent.address:#x} are not whole pages of {_PAGE_BYTES} bytes",
            hint="share memory of mmap and pass it as owner=, or copy the elements: "
            f"asarray(..., device={device.name!r})",
        )
    pages = memory_at(first, nbytes, partial(_returned, lent.owner)).cast("B")
    return device.wrap(pages), skip


def _returned(owner: object) -> None:
    """The pages are given back; with this call the reference to their owner is, too."""


def lend(buffer: CudaBuffer) -> tuple[int, object]:
    """The address of a buffer, and what keeps it valid while the device is open."""
    buffer.device.seen(buffer)
    return buffer.gpu_va, buffer


class Streams:
    """The order between work of the device and streams of other libraries."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device

    def mine(self) -> int:
        """The stream of the device's kernels. What others enqueue on it, kernels wait for."""
        device = self._device
        device.check_open()
        with device.working():
            device.rings[0].count()  # what others enqueue is not known to be done
        return device.rings[0].stream

    def follow(self, stream: int) -> None:
        """Work that another library enqueues on a stream from now on waits for the device's."""
        self._between(stream, self._order_theirs)

    def precede(self, stream: int) -> None:
        """Kernels from now on wait for everything that is on another library's stream."""
        self._between(stream, self._order_mine)

    def _between(self, stream: int, order: Callable[[int], None]) -> None:
        """# src: array API, __dlpack__(stream=): 1 legacy, 2 per-thread, -1: no order is wanted"""
        if type(stream) is not int or not _NO_STREAM <= stream < _HANDLES or not stream:
            shown = f"{stream!r:.40}" if type(stream) is not int else f"{stream:#x}"
            raise BufferError(
                f"stream {shown:.40} names no CUDA stream; pass 1 (the legacy default stream), 2 "
                "(the one of the thread), a handle, or -1 for no order"
            )
        device = self._device
        device.check_open()
        if stream == _NO_STREAM:
            return
        with device.working():
            device.pump()
            order(stream)

    def _order_theirs(self, stream: int) -> None:
        device = self._device
        for ring in device.rings:
            if ring.pending:
                raise BufferError(f"{ring.name} waits for a signal of the host: set it first")
            event = device.events.take_plain()
            try:
                device.api.do("cuEventRecord", event, ring.stream)
                ring.count()
                device.api.do("cuStreamWaitEvent", stream, event, 0)
            finally:
                device.events.give_plain(event)

    def _order_mine(self, stream: int) -> None:
        device = self._device
        event = device.events.take_plain()
        try:
            device.api.do("cuEventRecord", event, stream)
            for ring in device.rings:
                ring.follow(event)
                ring.count()
        finally:
            device.events.give_plain(event)


def streams(device: CudaDevice) -> Streams:
    """As `drivers.kinds` names it."""
    return Streams(device)

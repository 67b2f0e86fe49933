"""Memory and copies, each checked against the allocations that there are."""

from __future__ import annotations

import numpy as np

from boards.cuda import header
from boards.cuda.state import Allocation, Context, State, out, word
from boards.cuda.streams import Fault, Streams, Work
from boards.machine import host

_PORTABLE, _DEVICEMAP = 1, 2
"""CU_MEMHOSTREGISTER_PORTABLE: all contexts take the pages for pinned ones, not that alone which
registers them. src: cuda.h, cuMemHostRegister(); CUDA driver API, "Unified Addressing"."""
_HOST, _DEVICE = 1, 2
"""CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE."""
_TYPE, _MANAGED, _ORDINAL, _START, _SIZE = 2, 8, 9, 11, 12
_ATTRIBUTE_BYTES = {_TYPE: 4, _MANAGED: 4, _ORDINAL: 4, _START: 8, _SIZE: 8}


class Memory:
    """The functions of memory."""

    def __init__(self, state: State, streams: Streams) -> None:
        self._state, self._streams = state, streams

    def alloc(self, at: int, nbytes: int) -> None:
        """cuMemAlloc."""
        context = self._state.current()
        if not nbytes:
            raise self._state.refuse(header.INVALID_VALUE, "no bytes", "cuMemAlloc")
        out(at, context.device.take(context, nbytes).va, 8)

    def free(self, va: int) -> None:
        """cuMemFree."""
        found = self._own(va, "cuMemFree")
        self._gone(found)

    def register(self, va: int, nbytes: int, flags: int) -> None:
        """cuMemHostRegister."""
        context = self._state.current()
        if flags & ~_PORTABLE != _DEVICEMAP:
            raise self._state.refuse(header.INVALID_VALUE, "flags", f"of pages: {flags:#x}")
        if not nbytes or not host.mapped(va, nbytes):
            raise self._state.refuse(
                header.INVALID_VALUE, "host memory that is not there", f"{nbytes} bytes at {va:#x}"
            )
        if context.space.overlaps(va, nbytes):
            raise self._state.refuse(
                header.REGISTERED, "pages registered twice", f"{nbytes} bytes at {va:#x}"
            )
        data = np.frombuffer(host.view(va, nbytes), np.uint8)
        portable = bool(flags & _PORTABLE)
        context.device.map(Allocation(va, nbytes, data, context, host=True, portable=portable))

    def unregister(self, va: int) -> None:
        """cuMemHostUnregister."""
        context = self._state.current()
        found = context.memory.get(va)
        if found is None or not found.host:
            raise self._state.refuse(
                header.NOT_REGISTERED, "pages that are not registered", f"{va:#x}"
            )
        self._gone(found)

    def device_pointer(self, at: int, va: int, flags: int) -> None:
        """cuMemHostGetDevicePointer: of pages of this context, or portable ones of any."""
        found = self._state.current().memory.get(va) or self._state.portable(va)
        if found is None or not found.host or flags:
            raise self._state.refuse(
                header.INVALID_VALUE, "pages that are not registered", f"{va:#x}"
            )
        out(at, va, 8)

    def _own(self, va: int, call: str) -> Allocation:
        """An allocation of the current context by its address. Raises: Refused."""
        context = self._state.current()
        found = context.memory.get(va)
        if found is None or found.host:
            raise self._state.refuse(header.INVALID_VALUE, "no allocation", f"{call} of {va:#x}")
        return found

    def _gone(self, found: Allocation) -> None:
        if self._streams.uses(found.va, found.nbytes):
            self._state.find("memory freed in use", f"{found.nbytes} bytes at {found.va:#x}")
        found.context.device.give(found)

    def attributes(self, count: int, names: int, places: int, va: int) -> None:
        """cuPointerGetAttributes: of an address that CUDA does not know, all are 0."""
        self._state.current()
        found = self._state.allocation(va)
        for number in range(count):
            which = word(names + 4 * number, 4)
            if which not in _ATTRIBUTE_BYTES:
                raise self._state.refuse(header.INVALID_VALUE, "attribute", f"{which} of a pointer")
            values = {_TYPE: 0, _MANAGED: 0, _ORDINAL: -2, _START: 0, _SIZE: 0}
            if found is not None:
                values = {
                    _TYPE: _HOST if found.host else _DEVICE, _MANAGED: 0, _START: found.va,
                    _ORDINAL: found.context.device.ordinal, _SIZE: found.nbytes,
                }  # fmt: skip
            out(word(places + 8 * number), values[which], _ATTRIBUTE_BYTES[which])

    # Copies

    def to_device(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        """cuMemcpyHtoDAsync."""
        self._inside(dst, nbytes)
        self._on_host(src, nbytes)

        def run() -> None:
            self._part(dst, nbytes)[:] = np.frombuffer(host.view(src, nbytes), np.uint8)

        self._streams.add(stream, Work(run, [(dst, nbytes), (src, nbytes)]))

    def to_host(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        """cuMemcpyDtoHAsync."""
        self._inside(src, nbytes)
        self._on_host(dst, nbytes)

        def run() -> None:
            np.frombuffer(host.view(dst, nbytes), np.uint8)[:] = self._part(src, nbytes)

        self._streams.add(stream, Work(run, [(dst, nbytes), (src, nbytes)]))

    def between(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        """cuMemcpyDtoDAsync."""
        context = self._state.current()
        for va in (dst, src):
            found = self._inside(va, nbytes)
            if found is not None and found.context is not context:
                self._state.find("copy in a context of other memory", f"{va:#x}")
        self._copy(dst, src, nbytes, stream)

    def peer(
        self, dst: int, dst_context: int, src: int, src_context: int, nbytes: int, stream: int
    ) -> None:
        """cuMemcpyPeerAsync."""
        for va, handle in ((dst, dst_context), (src, src_context)):
            found, context = self._inside(va, nbytes), self._state.get(Context, handle)
            if found is not None and found.context is not context:
                raise self._state.refuse(
                    header.INVALID_VALUE, "copy in a context of other memory", f"{va:#x}"
                )
        self._copy(dst, src, nbytes, stream)

    def _copy(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        if nbytes and abs(dst - src) < nbytes:
            raise self._state.refuse(
                header.INVALID_VALUE, "copy onto itself", f"{nbytes} bytes of {src:#x} to {dst:#x}"
            )

        def run() -> None:
            self._part(dst, nbytes)[:] = self._part(src, nbytes)

        self._streams.add(stream, Work(run, [(dst, nbytes), (src, nbytes)]))

    def _inside(self, va: int, nbytes: int) -> Allocation | None:
        """The memory that a side of a copy lies in. Raises: Refused."""
        found = self._state.allocation(va)
        if nbytes and (found is None or va + nbytes > found.va + found.nbytes):
            raise self._state.refuse(
                header.INVALID_VALUE, "copy outside of memory", f"{nbytes} bytes at {va:#x}"
            )
        return found

    def _on_host(self, va: int, nbytes: int) -> None:
        """Raises: Refused for what is no memory of the process."""
        if nbytes and not host.mapped(va, nbytes):
            raise self._state.refuse(
                header.INVALID_VALUE, "host memory that is not there", f"{nbytes} bytes at {va:#x}"
            )

    def _part(self, va: int, nbytes: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        """Bytes of an allocation. Raises: Fault where it was freed before the copy ran."""
        found = self._state.allocation(va)
        if found is None:
            raise Fault(header.ILLEGAL_ADDRESS, f"a copy of freed memory at {va:#x}")
        off = va - found.va
        return np.asarray(found.data[off : off + nbytes])

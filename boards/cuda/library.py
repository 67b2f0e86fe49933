"""The library: functions by their symbols, called by the processor's own calling convention."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import Any

import _cffi_backend

from boards.cuda import header
from boards.cuda.graphs import Graphs
from boards.cuda.kernels import Kernels
from boards.cuda.memory import Memory
from boards.cuda.state import Context, Refused, Space, State, out
from boards.cuda.streams import Streams
from boards.machine import host

_TOTAL_BYTES = 4 << 30
_TITLE = b"made-up GPU\0"
_BEFORE_INIT = ("cuInit", "cuDriverGetVersion", "cuGetErrorName")


class MadeUpCuda:
    """One libcuda of one process. What a caller does wrong is in `violations`."""

    def __init__(
        self, devices: int = 2, total_bytes: int = _TOTAL_BYTES, version: int = 13000,
        *, peers: bool = True,
    ) -> None:  # fmt: skip
        self.state = State(devices, total_bytes)
        self.version, self.peers = version, peers
        self.streams = Streams(self.state)
        self.kernels = Kernels(self.state, self.streams)
        self.memory = Memory(self.state, self.streams)
        self.graphs = Graphs(self.state, self.streams, self.kernels)
        self.calls = 0
        self._pid = 0
        self._ffi = _cffi_backend.FFI()
        self._texts = {code: name.encode() + b"\0" for code, name in header.NAMES.items()}
        self._functions = self._table()
        self._callbacks: dict[str, Any] = {}

    def _table(self) -> dict[str, Callable[..., None]]:
        memory, streams, kernels, graphs = self.memory, self.streams, self.kernels, self.graphs
        return {
            "cuInit": self._init, "cuDriverGetVersion": self._driver_version,
            "cuGetErrorName": self._error_name, "cuDeviceGetCount": self._count,
            "cuDeviceGet": self._get, "cuDeviceGetName": self._name,
            "cuDeviceTotalMem_v2": self._total, "cuDeviceGetAttribute": self._attribute,
            "cuDevicePrimaryCtxRetain": self._retain,
            "cuDevicePrimaryCtxRelease_v2": self._release, "cuCtxPushCurrent_v2": self._push,
            "cuCtxPopCurrent_v2": self._pop, "cuDeviceCanAccessPeer": self._can_access,
            "cuCtxEnablePeerAccess": self._enable_peer, "cuMemAlloc_v2": memory.alloc,
            "cuMemFree_v2": memory.free, "cuMemHostRegister_v2": memory.register,
            "cuMemHostUnregister": memory.unregister,
            "cuMemHostGetDevicePointer_v2": memory.device_pointer,
            "cuPointerGetAttributes": memory.attributes,
            "cuMemcpyHtoDAsync_v2": memory.to_device, "cuMemcpyDtoHAsync_v2": memory.to_host,
            "cuMemcpyDtoDAsync_v2": memory.between, "cuMemcpyPeerAsync": memory.peer,
            "cuStreamCreate": streams.create, "cuStreamDestroy_v2": streams.destroy,
            "cuStreamQuery": streams.query, "cuStreamWaitEvent": streams.wait_event,
            "cuEventCreate": streams.event_create, "cuEventDestroy_v2": streams.event_destroy,
            "cuEventRecord": streams.event_record, "cuEventQuery": streams.event_query,
            "cuEventElapsedTime": streams.elapsed, "cuModuleLoadData": kernels.load,
            "cuModuleUnload": kernels.unload, "cuModuleGetFunction": kernels.function,
            "cuFuncGetAttribute": kernels.attribute,
            "cuFuncSetAttribute": kernels.set_attribute, "cuLaunchKernel": kernels.launch,
            "cuGraphCreate": graphs.create, "cuGraphDestroy": graphs.destroy,
            "cuGraphAddKernelNode_v2": graphs.add,
            "cuGraphInstantiateWithFlags": graphs.instantiate,
            "cuGraphExecKernelNodeSetParams_v2": graphs.set_params,
            "cuGraphExecDestroy": graphs.exec_destroy, "cuGraphLaunch": graphs.launch,
        }  # fmt: skip

    def address(self, symbol: str) -> int:
        """Of a function, as dlsym(3) gives it; 0: there is none."""
        if symbol not in self._functions:
            return 0
        if symbol not in self._callbacks:
            self._callbacks[symbol] = self._ffi.callback(
                header.signature(symbol), self._entry(symbol), error=header.UNKNOWN
            )
        return int(self._ffi.cast("uintptr_t", self._callbacks[symbol]))

    def _entry(self, symbol: str) -> Callable[..., int]:
        call = self._functions[symbol]

        def entry(*args: int) -> int:
            if self._pid and self._pid != os.getpid():
                return header.NOT_INITIALIZED
            with self.state.lock:
                self.calls += 1
                if not self._pid and symbol not in _BEFORE_INIT:
                    self.state.find("call before cuInit", symbol)
                    return header.NOT_INITIALIZED
                try:
                    call(*args)
                except Refused as refused:
                    return refused.code
                except Exception:
                    self.state.find("error of the made-up library", traceback.format_exc())
                    return header.UNKNOWN
            return header.SUCCESS

        return entry

    def report(self) -> list[tuple[str, str]]:
        """Violations since the last time."""
        with self.state.lock:
            found = [*self.state.violations]
            self.state.violations.clear()
            return found

    def leaks(self) -> list[tuple[str, str]]:
        """What is left, as violations, and those since the last time."""
        if left := self.state.live():
            self.state.find("leak", f"{left} objects")
        if any(self.state.stacks.values()):
            self.state.find("context left current", f"{self.state.stacks}")
        return self.report()

    # Devices and contexts

    def _init(self, flags: int) -> None:
        if flags:
            raise self.state.refuse(header.INVALID_VALUE, "flags", f"of cuInit: {flags:#x}")
        if not self.state.devices:
            raise Refused(header.NO_DEVICE)
        self._pid = os.getpid()

    def _driver_version(self, at: int) -> None:
        out(at, self.version, 4)

    def _error_name(self, code: int, at: int) -> None:
        text = self._texts.get(code)
        if text is None:
            raise Refused(header.INVALID_VALUE)
        out(at, int(self._ffi.cast("uintptr_t", self._ffi.from_buffer(text))), 8)

    def _count(self, at: int) -> None:
        out(at, len(self.state.devices), 4)

    def _get(self, at: int, ordinal: int) -> None:
        out(at, self.state.device(ordinal).ordinal, 4)

    def _name(self, at: int, room: int, ordinal: int) -> None:
        self.state.device(ordinal)
        text = _TITLE[:room]
        host.view(at, len(text))[:] = text

    def _total(self, at: int, ordinal: int) -> None:
        out(at, self.state.device(ordinal).total_bytes, 8)

    def _attribute(self, at: int, which: int, ordinal: int) -> None:
        major, minor = self.state.device(ordinal).capability
        known = {**header.ATTRIBUTES, header.MAJOR: major, header.MINOR: minor}
        if which not in known:
            raise self.state.refuse(header.INVALID_VALUE, "attribute", f"{which} of a device")
        out(at, known[which], 4)

    def _retain(self, at: int, ordinal: int) -> None:
        device = self.state.device(ordinal)
        if device.context is None:
            device.context = Context(device, 0, Space(self.state.spaces))
            device.context.handle = self.state.new(device.context)
        device.retained += 1
        out(at, device.context.handle, 8)

    def _release(self, ordinal: int) -> None:
        device = self.state.device(ordinal)
        context = device.context
        if context is None or not device.retained:
            raise self.state.refuse(
                header.INVALID_CONTEXT, "context released more than retained", f"{ordinal}"
            )
        device.retained -= 1
        if device.retained:
            return
        left = len(context.owned) + len(context.memory)
        if left and not context.lost:
            self.state.find("left in a context", f"{left} objects and allocations")
        if any(context in stack for stack in self.state.stacks.values()):
            self.state.find("context released while it is current", f"{ordinal}")
        for handle in list(context.owned):
            self.state.end(object, handle)
        for memory in list(context.memory.values()):
            device.give(memory)
        self.state.end(Context, context.handle)
        device.context = None

    def _push(self, handle: int) -> None:
        self.state.stack.append(self.state.get(Context, handle))

    def _pop(self, at: int) -> None:
        if not self.state.stack:
            raise self.state.refuse(header.INVALID_CONTEXT, "no current context", "to pop")
        out(at, self.state.stack.pop().handle, 8)

    def _can_access(self, at: int, ordinal: int, other: int) -> None:
        self.state.device(ordinal)
        self.state.device(other)
        out(at, int(self.peers and ordinal != other), 4)

    def _enable_peer(self, handle: int, flags: int) -> None:
        context, other = self.state.current(), self.state.get(Context, handle)
        if flags:
            raise self.state.refuse(header.INVALID_VALUE, "flags", f"of a peer: {flags:#x}")
        if not self.peers or other is context:
            raise Refused(header.PEER_UNSUPPORTED)
        if handle in context.peers:
            raise Refused(header.PEER_ENABLED)
        context.peers.add(handle)
        context.space.peers.append(other.space)

"""cl_khr_command_buffer on top of an OpenCL library that lacks it, as strict as its specification.

A command is a kernel object with its sizes; running a command buffer enqueues these. What OpenCL
forbids returns the status that it names: recording after the end, running before it, an update of
what was not recorded for it; and, where simultaneous use is not allowed, a second use or an update
while a run is under way.
# src: OpenCL-Docs 11125c3, api/opencl_runtime_layer.asciidoc, "Command-Buffers"
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from drivers.cl import abi
from drivers.cl.api import Api, Words
from drivers.cl.recorder import Recorder
from drivers.world.native import memory_at
from tests.opencl_watch import Watch

INVALID_VALUE, INVALID_OPERATION, INVALID_BUFFER, INVALID_COMMAND = -30, -59, -1138, -1141
SIZES: Final = 3


@dataclass
class Command:
    """A recorded kernel."""

    kernel: int
    sizes: Words
    mutable: bool


@dataclass
class Recorded:
    """A command buffer."""

    queue: int
    flags: int
    commands: dict[int, Command] = field(default_factory=dict)
    final: bool = False
    last: int = 0
    """The event of its last run."""


def words_at(address: int, count: int) -> list[int]:
    return memory_at(address, 8 * count, lambda: None).cast("B").cast("Q").tolist()


def put_word(address: int, value: int) -> None:
    memory_at(address, 8, lambda: None).cast("B").cast("Q")[0] = value


class Emulated:
    """The extension's functions over those of `api`."""

    def __init__(self, api: Api) -> None:
        self._call, self._number = api.functions, api.number
        self._buffers: dict[int, Recorded] = {}
        self._next = 1 << 40

    def recorder(self, watch: Watch) -> Recorder:
        """What `drivers.cl` takes for a device's own."""
        functions: dict[str, Callable[..., int]] = {
            "clCreateCommandBufferKHR": self.create,
            "clCommandNDRangeKernelKHR": self.record,
            "clFinalizeCommandBufferKHR": self.finalize,
            "clEnqueueCommandBufferKHR": self.enqueue,
            "clUpdateMutableCommandsKHR": self.update,
            "clReleaseCommandBufferKHR": self.release,
        }
        watched = {name: watch.wrapped(name, one) for name, one in functions.items()}
        return Recorder(watched, mutable=True, simultaneous=True)

    def _new(self) -> int:
        self._next += 16
        return self._next

    def create(self, count: int, queues: int, properties: int, status: int) -> int:
        (queue,), (kind, flags, end) = words_at(queues, 1), words_at(properties, 3)
        good = count == 1 and kind == abi.COMMAND_BUFFER_FLAGS and not end and not flags >> 2
        put_word(status, 0 if good else INVALID_VALUE & 0xFFFFFFFF)
        handle = self._new()
        self._buffers[handle] = Recorded(queue, flags)
        return handle if good else 0

    def record(
        self, buffer: int, queue: int, properties: int, kernel: int, dimensions: int,
        offset: int, whole: int, local: int, *rest: int,
    ) -> int:  # fmt: skip
        found, (waits, events, point, handle) = self._buffers.get(buffer), rest
        if found is None or found.final:
            return INVALID_BUFFER if found is None else INVALID_OPERATION
        if queue or dimensions != SIZES or offset or waits or events or point:
            return INVALID_VALUE
        mutable = False
        if properties:
            kind, fields, end = words_at(properties, 3)
            mutable = fields == abi.MUTABLE_DISPATCH_ARGUMENTS
            allowed = found.flags & abi.COMMAND_BUFFER_MUTABLE and not end
            if kind != abi.MUTABLE_DISPATCH_UPDATABLE_FIELDS or not mutable or not allowed:
                return INVALID_VALUE
        name = self._new()
        sizes = Words([*words_at(whole, SIZES), *words_at(local, SIZES)])
        found.commands[name] = Command(kernel, sizes, mutable)
        if handle:
            put_word(handle, name)
        return 0

    def finalize(self, buffer: int) -> int:
        found = self._buffers.get(buffer)
        if found is None or found.final:
            return INVALID_BUFFER if found is None else INVALID_OPERATION
        found.final = True
        return 0

    def _runs(self, found: Recorded) -> bool:
        """Whether its last run is not over."""
        if not found.last:
            return False
        about = "clGetEventInfo", found.last, abi.EVENT_COMMAND_EXECUTION_STATUS
        return self._number(*about) != abi.COMPLETE

    def enqueue(
        self, count: int, queues: int, buffer: int, waits: int, events: int, event: int
    ) -> int:
        found = self._buffers.get(buffer)
        if found is None or count or queues or waits or events or event:
            return INVALID_BUFFER if found is None else INVALID_VALUE
        shared = found.flags & abi.COMMAND_BUFFER_SIMULTANEOUS_USE
        if not found.final or (self._runs(found) and not shared):
            return INVALID_OPERATION
        for one in found.commands.values():
            sizes = one.sizes.at, one.sizes.at + 8 * SIZES
            status = self._call["clEnqueueNDRangeKernel"](
                found.queue, one.kernel, SIZES, 0, *sizes, 0, 0, 0
            )
            if status:
                return status
        made = Words([0])
        self._forget(found)
        status = self._call["clEnqueueMarkerWithWaitList"](found.queue, 0, 0, made.at)
        found.last = made.words[0]
        return status

    def update(self, buffer: int, count: int, kinds: int, configs: int) -> int:
        found = self._buffers.get(buffer)
        if found is None:
            return INVALID_BUFFER
        shared = found.flags & abi.COMMAND_BUFFER_SIMULTANEOUS_USE
        if not found.final or (self._runs(found) and not shared):
            return INVALID_OPERATION
        if any(word & 0xFFFFFFFF for word in words_at(kinds, (count + 1) // 2)):
            return INVALID_VALUE
        for at in words_at(configs, count):
            name, counts, more, handles, addresses, *others = words_at(
                at, abi.MUTABLE_DISPATCH_CONFIG_WORDS
            )
            one = found.commands.get(name)
            if one is None or not one.mutable:
                return INVALID_COMMAND
            if more or any(others):
                return INVALID_VALUE
            for number, size, value in self._arguments(handles, counts & 0xFFFFFFFF):
                status = self._call["clSetKernelArg"](one.kernel, number, size, value)
                if status:
                    return status
            for number, _, value in self._arguments(addresses, counts >> 32):
                status = self._call["clSetKernelArgSVMPointer"](one.kernel, number, value)
                if status:
                    return status
        return 0

    def _arguments(self, listed: int, count: int) -> list[list[int]]:
        """cl_mutable_dispatch_arg_khr: arg_index, arg_size, arg_value."""
        size = abi.MUTABLE_DISPATCH_ARG_WORDS
        return [words_at(listed + 8 * size * place, size) for place in range(count)]

    def _forget(self, found: Recorded) -> None:
        if found.last:
            self._call["clReleaseEvent"](found.last)
            found.last = 0

    def release(self, buffer: int) -> int:
        found = self._buffers.pop(buffer, None)
        if found is None:
            return INVALID_BUFFER
        self._forget(found)
        return 0

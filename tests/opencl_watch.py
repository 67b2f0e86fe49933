"""An OpenCL library under watch: calls are counted, objects too, and one call can be made to fail.

It wraps the functions of every library that `drivers.cl.libraries` loads, so that a driver under
test meets it wherever it calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from drivers.cl import abi
from drivers.cl.libraries import load, vendors
from drivers.world.linux import LinuxWorld
from drivers.world.native import memory_at

MAKES: Final[Mapping[str, str]] = {
    "clCreateContext": "context",
    "clCreateCommandQueue": "queue",
    "clCreateBuffer": "memory",
    "clCreateSubBuffer": "memory",
    "clCreateImage": "memory",
    "clRetainMemObject": "memory",
    "clSVMAlloc": "memory",
    "clCreateProgramWithSource": "program",
    "clCreateProgramWithBinary": "program",
    "clCreateKernel": "kernel",
    "clEnqueueMarkerWithWaitList": "event",
    "clEnqueueWriteBuffer": "event",
    "clCreateCommandBufferKHR": "command buffer",
}
ENDS: Final[Mapping[str, str]] = {
    "clReleaseContext": "context",
    "clReleaseCommandQueue": "queue",
    "clReleaseMemObject": "memory",
    "clSVMFree": "memory",
    "clReleaseProgram": "program",
    "clReleaseKernel": "kernel",
    "clReleaseEvent": "event",
    "clReleaseCommandBufferKHR": "command buffer",
}
EXTENSIONS: Final = {**abi.COMMAND_BUFFER_CALLS, **abi.MUTABLE_DISPATCH_CALLS}
EVERY: Final = {**abi.CALLS, **abi.SVM_CALLS, **EXTENSIONS}
NO_STATUS: Final = ("clSVMAlloc", "clSVMFree", "clGetExtensionFunctionAddressForPlatform")
"""Calls that fail by their result alone, or never."""


class Watch:
    """What was called. `fail_at`: the number of the call that fails, of those in `only`."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.live: Counter[str] = Counter()
        self.fail_at, self.status, self.only = -1, 0, ""
        self.failed = ""
        self.seen = 0

    def fail(self, status: int, at: int, only: str = "") -> None:
        """From now on, the call number `at` returns `status` and is not made."""
        self.fail_at, self.status, self.only, self.failed, self.seen = at, status, only, "", 0

    def wrapped(self, name: str, call: Callable[..., int]) -> Callable[..., int]:
        """The function as drivers call it."""

        def watched(*args: int) -> int:
            self.calls[name] += 1
            if self.only in ("", name):
                self.seen += 1
                if self.seen == self.fail_at + 1 and name != "clSVMFree":
                    self.failed = name
                    return self._failure(name, args)
            result = call(*args)
            if name in MAKES and args[-1] and (result == 0) == abi_status(name):
                self.live[MAKES[name]] += 1
            if name in ENDS:
                self.live[ENDS[name]] -= 1
            return result

        return watched

    def _failure(self, name: str, args: tuple[int, ...]) -> int:
        if abi_status(name):
            return self.status
        if name not in NO_STATUS:
            memory_at(args[-1], 4, lambda: None).cast("B").cast("i")[0] = self.status
        return 0

    @property
    def left(self) -> dict[str, int]:
        """Objects that were made and not released."""
        return {kind: count for kind, count in self.live.items() if count}


def abi_status(name: str) -> bool:
    """Whether a function returns a status."""
    return EVERY[name].returns_status


def watched_world() -> tuple[LinuxWorld, Watch]:
    """A world whose OpenCL libraries are watched."""
    world, watch = LinuxWorld(), Watch()
    for path in vendors(world):
        api = load(world, path)
        for platform in api.objects("clGetPlatformIDs", none=abi.PLATFORM_NOT_FOUND_KHR):
            extended = api.extension(platform, EXTENSIONS)
            api.extended[platform] = {
                name: watch.wrapped(name, one) for name, one in extended.items()
            }
        api.functions = {name: watch.wrapped(name, one) for name, one in api.functions.items()}
    return world, watch

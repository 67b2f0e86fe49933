"""A WebGPU library under watch: calls and objects are counted, and one call can be made to fail.

It wraps the functions of a library that `drivers.webgpu.libraries` loads. Errors are reported
through the callbacks that the driver gave to the library, as the library would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from drivers.webgpu import abi
from drivers.webgpu.api import Api
from drivers.webgpu.layout import Text
from drivers.webgpu.libraries import load, places
from drivers.world.linux import LinuxWorld
from drivers.world.native import memory_at
from tests.webgpu import LIBRARIES

KINDS: Final = (
    "Instance", "Adapter", "Device", "Queue", "Buffer", "ShaderModule", "BindGroup",
    "BindGroupLayout", "PipelineLayout", "ComputePipeline", "QuerySet", "CommandEncoder",
    "CommandBuffer", "ComputePassEncoder",
)  # fmt: skip
MAKES: Final = {
    "wgpuCreateInstance": "Instance",
    "wgpuDeviceGetQueue": "Queue",
    "wgpuDeviceCreateShaderModuleTrusted": "ShaderModule",
    "wgpuCommandEncoderFinish": "CommandBuffer",
    "wgpuCommandEncoderBeginComputePass": "ComputePassEncoder",
    **{f"wgpuDeviceCreate{kind}": kind for kind in KINDS},
}
ENDS: Final = {f"wgpu{kind}Release": kind for kind in KINDS}
ASKED: Final = {"wgpuInstanceRequestAdapter": "Adapter", "wgpuAdapterRequestDevice": "Device"}
"""Objects that come by callback: one for each call that is answered well."""
INFO_WORDS: Final = 5
CALLBACK_WORD, USERDATA_WORD = 2, 3
NULL, REPORT, LOST = "gives nothing", "reports an error", "loses the device"
FAULTS: Final = (NULL, REPORT, LOST)


class Watch:
    """What was called. `fault` at the call number `at` of those named `only`."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.calls: Counter[str] = Counter()
        self.live: Counter[str] = Counter()
        self.fault, self.only, self.at, self.seen = "", "", 0, 0
        self.failed = ""
        self._reporters: dict[str, int] = {}
        self._kind = 2

    def fail(self, fault: str, at: int, only: str, kind: int = 2) -> None:
        """From now on, the call number `at` of that name fails. `kind`: a WGPUErrorType."""
        self.fault, self.at, self.only, self._kind = fault, at, only, kind

    def wrapped(self, name: str, call: Callable[..., int]) -> Callable[..., int]:
        """The function as drivers call it."""

        def watched(*args: int) -> int:
            self.calls[name] += 1
            hit = name == self.only and self.seen == self.at
            self.seen += name == self.only
            if name == "wgpuAdapterRequestDevice":
                self._listen(args[1])
            if hit:
                self.failed = name
                return self._failure(name, call, args)
            return self._made(name, call(*args), args)

        return watched

    def _made(self, name: str, result: int, args: tuple[int, ...]) -> int:
        if name in MAKES and result:
            self.live[MAKES[name]] += 1
        if name in ASKED:
            self.live[ASKED[name]] += 1
        if name == "wgpuInstanceEnumerateAdapters" and args[-1]:
            self.live["Adapter"] += result
        if name in ENDS:
            self.live[ENDS[name]] -= 1
        return result

    def _listen(self, descriptor: int) -> None:
        """Where a device's errors are to be reported."""
        layout = self._api.layouts.of("DeviceDescriptor")
        raw = memory_at(descriptor, layout.nbytes, int)
        for what in ("uncapturedErrorCallbackInfo", "deviceLostCallbackInfo"):
            at, nbytes = layout.members[f"{what}.callback"]
            self._reporters[what] = int.from_bytes(raw[at : at + nbytes], "little")

    def _failure(self, name: str, call: Callable[..., int], args: tuple[int, ...]) -> int:
        if name in abi.FUTURES:
            return self._answer(name, args)
        makes = {**abi.CALLS, **abi.NATIVE_CALLS}[name][0] == "p"
        if self.fault == NULL and makes:
            return 0
        result = self._made(name, call(*args), args)
        if self._reporters:
            what = "deviceLost" if self.fault == LOST else "uncapturedError"
            self._report(self._reporters[f"{what}CallbackInfo"], 1 if what == "deviceLost" else 0)
        return result

    def _report(self, callback: int, reason: int) -> None:
        text = Text("made up")
        code = self._api.world.function(callback, 6)
        code(0, reason or self._kind, text.at, text.nbytes, 0, 0)

    def _answer(self, name: str, args: tuple[int, ...]) -> int:
        """A callback with another status than success."""
        words, text = args[-INFO_WORDS:], Text("made up")
        user = words[USERDATA_WORD : USERDATA_WORD + 2]
        message = [text.at, text.nbytes]
        if name == "wgpuQueueOnSubmittedWorkDone":
            message = message[: self._api.flavour.done_words]
        values = [3, *([0] if name in ASKED else []), *message, *user]
        self._api.world.function(words[CALLBACK_WORD], len(values))(*values)
        return 1

    @property
    def left(self) -> dict[str, int]:
        """Objects that were made and not released."""
        return {kind: count for kind, count in self.live.items() if count}


def watched_world(library: str) -> tuple[LinuxWorld, Watch]:
    """A world in which one of LIBRARIES is watched."""
    world = LinuxWorld()
    path = next(path for path in places(world) if LIBRARIES[library].path in path)
    api = load(world, path)
    watch = Watch(api)
    api.functions = {name: watch.wrapped(name, one) for name, one in api.functions.items()}
    return world, watch

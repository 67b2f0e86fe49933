"""The open device of an adapter: its errors, its loss, and objects made with both checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import RLock
from typing import Any, Final, NamedTuple

from drivers.base.errors import DeviceError, DeviceGone, Unsupported
from drivers.webgpu import abi
from drivers.webgpu.adapters import CALLBACK, Adapters, request
from drivers.webgpu.api import text_at
from drivers.webgpu.errors import error_of, lost
from drivers.webgpu.layout import Record, Text
from drivers.world.native import address_of, callback

_REPORT: Final = CALLBACK
"""(address of the device, reason or type, message, its length, userdata1, userdata2)"""
_UNSAFE: Final = "allow_unsafe_apis"
_COARSE: Final = "timestamp_quantization"
"""Dawn rounds times to 65.536 us unless it is off. # src: Dawn, Toggles.cpp"""


class _Lock(NamedTuple):
    """A lock, and whether this thread has it: asked without a state that Ctrl-C could leave."""

    lock: AbstractContextManager[bool]
    owned: Callable[[], bool]


def _owned() -> _Lock:
    lock: Any = RLock()
    return _Lock(lock, lock._is_owned)  # as threading.Condition asks


class Link:
    """A WGPUDevice with its queue."""

    def __init__(self, adapters: Adapters, adapter: int, features: Sequence[int]) -> None:
        self.api, self._adapters = adapters.api, adapters
        self.instance, self.adapter = adapters.instance, adapter
        self.errors: list[tuple[int, str] | BaseException] = []
        """What the library reported since the last check, and what was raised in a callback:
        Ctrl-C, for one. What that callback reports is lost."""
        self.gone: DeviceGone | None = None
        self._lock = _owned()
        self.device = self.queue = 0
        self.do = self.api.functions
        self._kept: list[object] = []
        self._open(features)

    def alone(self) -> AbstractContextManager[bool]:
        """The device's lock: one thread, and nothing that interrupts it, uses the library.

        Raises: Unsupported in a signal handler that interrupted such a use.
        """
        if self._lock.owned():
            raise Unsupported(
                "a signal handler uses a WebGPU device that it has interrupted",
                hint="set a flag there, and use the device after it",
            )
        return self._lock.lock

    def after_fork(self) -> None:
        """In a child: a thread of the parent may hold the lock."""
        self._lock = _owned()

    def _open(self, features: Sequence[int]) -> None:
        """Raises: DeviceError, after releasing what was opened."""
        api = self.api
        limits = self.limits()
        if not api.flavour.limits_at:
            limits["maxImmediateSize"] = 0
        listed = bytearray(b"".join(one.to_bytes(4, "little") for one in features) or bytes(4))
        descriptor = api.record(
            "DeviceDescriptor", requiredFeatureCount=len(features),
            requiredFeatures=address_of(listed), requiredLimits=limits.at,
        )  # fmt: skip
        lost_at, kept_lost = callback(_REPORT, self._lost, self.errors.append)
        error_at, kept_error = callback(_REPORT, self._error, self.errors.append)
        self._kept += [kept_lost, kept_error]
        descriptor["deviceLostCallbackInfo.mode"] = abi.ALLOW_SPONTANEOUS
        descriptor["deviceLostCallbackInfo.callback"] = lost_at
        descriptor["uncapturedErrorCallbackInfo.callback"] = error_at
        toggles = self._toggles() if api.flavour.toggles else None
        if toggles is not None:
            descriptor["next"] = toggles.at
        status, device, message = request(
            api, self.instance, "wgpuAdapterRequestDevice", self.adapter, descriptor.at,
            held=self._kept,
        )  # fmt: skip
        if status != abi.SUCCESS or not device:
            raise DeviceError(
                f"{api.name} opens no device: {message:.300}", hint="choose with WEBGPU_DEVICE"
            )
        self.device = device
        self.queue = self.do["wgpuDeviceGetQueue"](device)
        if not self.queue:
            self.do["wgpuDeviceRelease"](device)
            raise DeviceError("wgpuDeviceGetQueue gives no queue", hint="update the library")

    def _toggles(self) -> Record:
        made = self.api.record("DawnTogglesDescriptor", enabledToggleCount=1, disabledToggleCount=1)
        made["chain.sType"] = abi.TOGGLES
        texts = [Text(_UNSAFE), Text(_COARSE)]
        lists = [bytearray(text.at.to_bytes(8, "little")) for text in texts]
        made["enabledToggles"], made["disabledToggles"] = map(address_of, lists)
        made.held = (texts, lists)
        return made

    def limits(self) -> Record:
        """WGPULimits of the adapter, all that it has. Raises: DeviceError."""
        made = self.api.record("Limits")
        if self.do["wgpuAdapterGetLimits"](self.adapter, made.at) != abi.SUCCESS:
            raise DeviceError("wgpuAdapterGetLimits fails", hint="update the WebGPU library")
        return made

    def _lost(self, _: int, reason: int, data: int, length: int, *__: int) -> None:
        if reason & 0xFFFFFFFF != abi.LOST_DESTROYED:
            self.gone = lost(reason & 0xFFFFFFFF, text_at(data, length))

    def _error(self, _: int, kind: int, data: int, length: int, *__: int) -> None:
        self.errors.append((kind & 0xFFFFFFFF, text_at(data, length)))

    def check(self, call: str, nbytes: int = 0) -> None:
        """Raises: what the library reported since the last check; DeviceGone."""
        if self.gone is not None:
            raise self.gone
        if self.errors:
            raise error_of(call, *self.taken()[0], nbytes)

    def taken(self) -> list[tuple[int, str]]:
        """The reports since the last check. Raises: what was raised in a callback."""
        found = [self.errors.pop(0) for _ in range(len(self.errors))]
        for one in found:
            if isinstance(one, BaseException):
                raise one
        return [one for one in found if not isinstance(one, BaseException)]

    def make(self, call: str, descriptor: int, release: str, nbytes: int = 0) -> int:
        """A new object of the device. Raises: DeviceError, after releasing an invalid one."""
        made = self.do[call](self.device, descriptor)
        if self.errors or self.gone is not None:
            if made:
                self.do[release](made)
            self.check(call, nbytes)
        if not made:
            raise DeviceError(f"{call} gives no object", hint="update the WebGPU library")
        return made

    def poll(self) -> None:
        """Let the library call back."""
        if self.api.flavour.native:
            self.do["wgpuDevicePoll"](self.device, 0, 0)
        else:
            self.do["wgpuInstanceProcessEvents"](self.instance)

    def close(self) -> None:
        """Release queue, device, adapter and instance."""
        do = self.do
        do["wgpuQueueRelease"](self.queue)
        do["wgpuDeviceDestroy"](self.device)
        do["wgpuDeviceRelease"](self.device)
        self._adapters.close()

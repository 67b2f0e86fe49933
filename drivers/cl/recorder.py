"""What a device offers of cl_khr_command_buffer, found by asking it.

# src: OpenCL-Docs 11125c3, api/cl_khr_command_buffer.asciidoc and
# api/cl_khr_command_buffer_mutable_dispatch.asciidoc (version histories); OpenCL-Headers 15b536b
# CL/cl_ext.h (names, signatures, numbers)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from drivers.base.errors import DeviceError
from drivers.base.library import Native
from drivers.cl import abi
from drivers.cl.api import BITS32, Api, made
from drivers.cl.errors import error_of, signed

BASE: Final = "cl_khr_command_buffer"
MUTABLE: Final = "cl_khr_command_buffer_mutable_dispatch"
_ARRAYS_FROM: Final = (0, 9, 2)
"""The version from which clUpdateMutableCommandsKHR takes arrays; it took a linked list before."""
_NAME_BYTES: Final = 64
_ENTRY_BYTES: Final = 4 + _NAME_BYTES
"""cl_name_version: a cl_version, then a name."""
_MAJOR_SHIFT, _MINOR_SHIFT, _TEN_BITS, _TWELVE_BITS = 22, 12, (1 << 10) - 1, (1 << 12) - 1


@dataclass(frozen=True, slots=True)
class Recorder:
    """A device with command buffers."""

    functions: Mapping[str, Native]
    mutable: bool
    """Whether arguments of a recorded kernel can be replaced."""
    simultaneous: bool
    """Whether a command buffer may be enqueued, and updated, while it runs."""

    def do(self, call: str, *args: int) -> None:
        """A call that returns a status."""
        status = self.functions[call](*args) & BITS32
        if status:
            raise error_of(call, signed(status))

    def make(self, call: str, *args: int) -> int:
        """A call that returns a new object and stores a status behind its last argument."""
        return made(self.functions[call], call, *args)


def read_recorder(
    api: Api, platform: int, device: int, extensions: frozenset[str]
) -> Recorder | None:
    """Ask a device. None: it has none, none for an in-order queue with profiling, or no answer.

    Nothing but speed depends on it.
    """
    if BASE not in extensions:
        return None
    try:
        return _asked(api, platform, device, extensions)
    except DeviceError:
        return None


def _asked(api: Api, platform: int, device: int, extensions: frozenset[str]) -> Recorder | None:
    required = api.number(
        "clGetDeviceInfo", device, abi.DEVICE_COMMAND_BUFFER_REQUIRED_QUEUE_PROPERTIES
    )
    functions = api.extension(platform, abi.COMMAND_BUFFER_CALLS)
    if not functions or required & ~abi.QUEUE_PROFILING_ENABLE:
        return None
    able = api.number("clGetDeviceInfo", device, abi.DEVICE_COMMAND_BUFFER_CAPABILITIES)
    changes: Mapping[str, Native] = {}
    if MUTABLE in extensions and _version(api, device, MUTABLE) >= _ARRAYS_FROM:
        fields = api.number("clGetDeviceInfo", device, abi.DEVICE_MUTABLE_DISPATCH_CAPABILITIES)
        if fields & abi.MUTABLE_DISPATCH_ARGUMENTS:
            changes = api.extension(platform, abi.MUTABLE_DISPATCH_CALLS)
    return Recorder(
        functions={**functions, **changes},
        mutable=bool(changes),
        simultaneous=bool(able & abi.COMMAND_BUFFER_CAPABILITY_SIMULTANEOUS_USE),
    )


def _version(api: Api, device: int, name: str) -> tuple[int, int, int]:
    """Of an extension, as an OpenCL 3.0 device says it; (0, 0, 0) where it says none."""
    version = api.text("clGetDeviceInfo", device, abi.DEVICE_VERSION)
    if not version.startswith("OpenCL 3"):
        return 0, 0, 0
    raw = api.info("clGetDeviceInfo", device, abi.DEVICE_EXTENSIONS_WITH_VERSION)
    for at in range(0, len(raw) - _ENTRY_BYTES + 1, _ENTRY_BYTES):
        entry = raw[at : at + _ENTRY_BYTES]
        if entry[-_NAME_BYTES:].partition(b"\0")[0] == name.encode():
            word = int.from_bytes(entry[:-_NAME_BYTES], "little")
            major, minor = word >> _MAJOR_SHIFT, word >> _MINOR_SHIFT & _TEN_BITS
            return major, minor, word & _TWELVE_BITS
    return 0, 0, 0

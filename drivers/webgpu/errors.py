"""What a WebGPU library reports -> errors of this stack."""

from __future__ import annotations

import re
from typing import Final

from drivers.base.errors import (
    CompileError,
    DeviceError,
    DeviceGone,
    OutOfMemory,
)
from drivers.webgpu import abi

_PLACE: Final = re.compile(r":(\d{1,7}):(\d{1,7})")
"""wgpu-native: "wgsl:12:7"; Dawn: ":12:7 error"."""
_SHOWN: Final = 600


def error_of(call: str, kind: int, message: str, nbytes: int = 0) -> DeviceError:
    """The error of a call after which the library reported one."""
    what = abi.ERROR_TYPES.get(kind, f"error {kind}")
    text = f"{call}: {what}: {plain(message):.{_SHOWN}}"
    if kind == abi.ERROR_OUT_OF_MEMORY or "not enough memory" in message.lower():
        return OutOfMemory(
            text, requested=nbytes, used=0, cached=0, limit=0,
            hint="free tensors that are not needed, or work on smaller pieces",
        )  # fmt: skip
    return DeviceError(text, hint="report this line with the WebGPU library's version")


def lost(reason: int, message: str) -> DeviceGone:
    """The error of everything on a lost device."""
    return DeviceGone(
        f"the WebGPU device was lost (reason {reason}): {plain(message):.{_SHOWN}}",
        hint="close it, and open it again",
    )


def rejected(message: str, source: str) -> CompileError:
    """A kernel that the library's compiler does not take, with its line."""
    found = _PLACE.search(message)
    line = ""
    lines = source.splitlines()
    if found and 0 < int(found[1]) <= len(lines):
        line = f", line {found[1]}: {lines[int(found[1]) - 1].strip():.120}"
    return CompileError(
        f"the WebGPU library rejects the kernel{line}: {plain(message):.300}",
        log=message, source=source, hint="The error's `log` and `source` hold the rest",
    )  # fmt: skip


def plain(message: str) -> str:
    """A message in one line."""
    return " ".join(message.split())

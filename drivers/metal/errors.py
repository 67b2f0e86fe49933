"""Metal's errors as errors of this stack."""

from __future__ import annotations

import re
from typing import Final

from drivers.base.errors import (
    CompileError,
    DeviceError,
    DeviceFault,
    DeviceGone,
    Hang,
    OutOfMemory,
)
from drivers.metal.abi import CONSTANTS
from drivers.metal.api import Api

_PREFIX: Final = "MTL::CommandBufferError"
COMMAND_ERRORS: Final = {
    code: name.removeprefix(_PREFIX) for name, code in CONSTANTS.items() if name.startswith(_PREFIX)
}
_LINE: Final = re.compile(r"program_source:(\d+):\d+: error: (.*)")
_MEMORY_HINT: Final = "free tensors that are not needed, or work on smaller pieces"
_KERNEL_HINT: Final = "see what the kernels before it access; Metal's shader validation names them"


def described(api: Api, error: int) -> tuple[int, str]:
    """(code, description) of an NSError, inside a pool; of none: (0, "no error is given")."""
    if not error:
        return 0, "no error is given"
    return api.send["code"](error), api.text(api.send["localizedDescription"](error))


def rejected(log: str, source: str) -> CompileError:
    """The error for a source that Metal's compiler rejects; names the line where the log does."""
    found = _LINE.search(log)
    if found is None:
        shown = log.partition("\n")[0]
    else:
        lines, number = source.splitlines(), int(found[1])
        text = lines[number - 1].strip() if 0 < number <= len(lines) else ""
        shown = f"line {number}: {found[2]}: {text}"
    return CompileError(
        f"Metal's compiler rejects the kernel: {shown:.300}", log=log, source=source,
        hint="The error's `log` and `source` hold the rest",
    )  # fmt: skip


def failed(queue: str, code: int, text: str) -> DeviceError:
    """The error for a command buffer that ended with an MTLCommandBufferError."""
    kind = COMMAND_ERRORS.get(code, "unknown")
    message = f"work of {queue} failed: {kind} ({code}): {text:.300}"
    if kind == "OutOfMemory":
        return no_memory(message, 0, 0)
    if kind in ("DeviceRemoved", "AccessRevoked"):
        return DeviceGone(message, hint="close the device, and open it again")
    if kind == "Timeout":
        return Hang(message, queue=queue, hint="make smaller kernels: macOS ends long ones")
    return DeviceFault(message, kind=kind, queue=queue, hint=_KERNEL_HINT)


def no_memory(message: str, requested: int, limit: int) -> OutOfMemory:
    """The error for memory that is not there."""
    return OutOfMemory(
        message, requested=requested, used=0, cached=0, limit=limit, hint=_MEMORY_HINT
    )

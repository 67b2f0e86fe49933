"""The format of a recording: one JSON object per line. recording_text.py reads it.

    {"recording": 1, "device": "AMD", "program": "add.py", "sha256": "...", "arguments": [],
     "environ": {"AMD_LLVM": "1"}}
    {"op": "read32", "args": [0, 64], "result": 1}
    {"op": "open", "args": ["/dev/kfd", 2], "error": ["Denied", 13, "open /dev/kfd"]}
    {"op": "write64", "args": [9, 64, 13], "result": null, "wrote": [[4, 0, "00021040..."]]}
    {"op": "monotonic_s", "args": [], "result": 0.002, "became": [[3, 16320, "0d000000"]]}

The first line, with how the recording was made, may be missing. Bytes are hex text; the second
number of an error is its errno, 0 when it has none. `wrote` is what the driver wrote to mapped
memory before the operation, `became` what the machine had written when it returned: lists of
[memory, offset, bytes], where a memory is the result of its mmap. Long bytes of `wrote` are a
digest, since they are only compared. What goes out over USB is `wrote`, too: to memory USB_MEMORY
and on, one for each device, the number of the transfer being the offset.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, TypeAlias

from drivers.base import errors
from drivers.base.errors import DeviceError, MalformedInput
from drivers.base.oserrors import errno_of, translate

VERSION: Final = 1
LONG_BYTES: Final = 1024
"""Size of a driver's write from which on a recording has its digest."""
USB_MEMORY: Final = 1 << 30
_DIGEST: Final = "sha256:"
Change: TypeAlias = tuple[int, int, str]
"""(memory, offset, bytes as text)."""
ERRORS = {
    cls.__name__: cls
    for cls in (
        DeviceError, errors.NotFound, errors.Denied, errors.Busy, errors.Unsupported,
        errors.MalformedInput, errors.UseAfterFree, errors.DeviceGone, errors.DeviceTimeout,
        errors.BadArgument,
    )
}  # fmt: skip
"""Classes of recorded errors."""


@dataclass(frozen=True, slots=True)
class Header:
    """How a recording was made: what to run again."""

    device: str
    """The name of the device: "AMD", "AMD:1"."""
    program: str
    """The name of the program's file, without folders."""
    sha256: str
    """Of the program's text."""
    arguments: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    """The settings that were in force."""

    def line(self) -> str:
        """The header as the first line of a recording."""
        shown = {
            "recording": VERSION, "device": self.device, "program": self.program,
            "sha256": self.sha256, "arguments": list(self.arguments),
            "environ": dict(self.environ),
        }  # fmt: skip
        return json.dumps(shown) + "\n"


@dataclass(frozen=True, slots=True)
class Entry:
    """One operation: its arguments, and its result or error."""

    op: str
    args: list[Any]
    result: Any = None
    error: tuple[str, int, str] | None = None
    wrote: tuple[Change, ...] = ()
    """What the driver wrote to memory since the last operation."""
    became: tuple[Change, ...] = ()
    """What the machine wrote to it until this one returned."""

    def line(self) -> str:
        """The entry as one line of a recording."""
        shown: dict[str, Any] = {"op": self.op, "args": self.args}
        if self.error is None:
            shown["result"] = self.result
        else:
            shown["error"] = list(self.error)
        if self.wrote:
            shown["wrote"] = self.wrote
        if self.became:
            shown["became"] = self.became
        return json.dumps(shown) + "\n"

    def failure(self) -> DeviceError | None:
        """The error to raise again, its errno in __cause__; None for a result."""
        if self.error is None:
            return None
        name, number, what = self.error
        if number:
            cause = OSError(number, os.strerror(number))
            error = translate(cause, what)
            error.__cause__ = cause
            return error
        return ERRORS[name](what)


def describe(error: DeviceError, what: str) -> tuple[str, int, str]:
    """How an error is recorded."""
    number = errno_of(error)
    name = type(error).__name__
    return (name if name in ERRORS else "DeviceError"), number, what if number else error.message


def wrote(memory: int, off: int, data: bytes) -> Change:
    """A write of the driver."""
    if len(data) < LONG_BYTES:
        return memory, off, data.hex()
    return memory, off, f"{_DIGEST}{len(data)}:{sha256(data).hexdigest()}"


def bad(number: int, rule: str) -> MalformedInput:
    """The error for a rule that a line breaks; the caller raises it."""
    return MalformedInput(f"recording, line {number}: {rule}", hint="record it again")


def unhex(text: str, number: int = 0) -> bytes:
    """Bytes of their hex text. Raises: MalformedInput."""
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise bad(number, "bytes are written as hex") from error

"""The form of a recording: one JSON object a line, read as hostile input.

    {"op": "read32", "args": [0, 64], "result": 1}
    {"op": "open", "args": ["/dev/kfd", 2], "error": ["Denied", 13, "open /dev/kfd"]}

Bytes are hex text. The second number of an error is its errno, 0 when it has none.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from drivers.base import errors
from drivers.base.errors import DeviceError, MalformedInput
from drivers.base.oserrors import errno_of, translate

MAX_BYTES = 64 << 20
MAX_LINE_BYTES = 4 << 20
_OPERATIONS: dict[str, str] = {
    "open": "int",
    "close": "NoneType",
    "read": "str",
    "write": "NoneType",
    "listdir": "list",
    "readlink": "str",
    "exists": "bool",
    "access": "bool",
    "device_number": "int",
    "owning_group": "int",
    "ioctl": "list",
    "ioctl_fd": "int",
    "pread": "str",
    "pwrite": "NoneType",
    "eventfd": "int",
    "wait_event": "bool",
    "mmap": "int",
    "symbol": "int",
    "monotonic_s": "float",
    "sleep": "NoneType",
    "read32": "int",
    "read64": "int",
    "write32": "NoneType",
    "write64": "NoneType",
    "read_bytes": "str",
    "write_bytes": "NoneType",
    "unmap": "NoneType",
}
"""The operations there are, with the type of their results."""
_BITS = {
    "read32": 32, "read64": 64, "symbol": 64, "device_number": 64, "open": 31, "mmap": 31,
    "owning_group": 32, "ioctl_fd": 31, "eventfd": 31,
}  # fmt: skip
_ERRORS = {
    cls.__name__: cls
    for cls in (
        DeviceError, errors.NotFound, errors.Denied, errors.Busy, errors.Unsupported,
        errors.MalformedInput, errors.UseAfterFree, errors.DeviceGone, errors.DeviceTimeout,
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """One operation: what was asked, and what came back or was raised."""

    op: str
    args: list[Any]
    result: Any = None
    error: tuple[str, int, str] | None = None

    def line(self) -> str:
        """The entry as one line of a recording."""
        shown: dict[str, Any] = {"op": self.op, "args": self.args}
        if self.error is None:
            shown["result"] = self.result
        else:
            shown["error"] = list(self.error)
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
        return _ERRORS[name](what)


def describe(error: DeviceError, what: str) -> tuple[str, int, str]:
    """How an error is recorded."""
    number = errno_of(error)
    name = type(error).__name__
    return (name if name in _ERRORS else "DeviceError"), number, what if number else error.message


def parse(data: bytes) -> list[Entry]:
    """The entries of a recording. Raises: MalformedInput with the line and the rule."""
    if len(data) > MAX_BYTES:
        raise MalformedInput(f"a recording of {len(data)} bytes; at most {MAX_BYTES} are read")
    return [
        _entry(line, number) for number, line in enumerate(data.splitlines(), 1) if line.strip()
    ]


def _bad(number: int, rule: str) -> MalformedInput:
    return MalformedInput(f"recording, line {number}: {rule}", hint="record it again")


def _entry(line: bytes, number: int) -> Entry:
    if len(line) > MAX_LINE_BYTES:
        raise _bad(number, f"{len(line)} bytes; at most {MAX_LINE_BYTES}")
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _bad(number, "not a JSON object") from error
    if not isinstance(value, dict) or not isinstance(value.get("op"), str):
        raise _bad(number, "no operation")
    op, args = value["op"], value.get("args")
    if op not in _OPERATIONS:
        raise _bad(number, f"unknown operation {op[:40]!a}")
    if not isinstance(args, list) or ("error" in value) == ("result" in value):
        raise _bad(number, "args and one of result and error are needed")
    if "error" in value:
        return Entry(op, args, error=_error(value["error"], number))
    result = value["result"]
    _check_result(op, result, number)
    return Entry(op, args, result)


def _error(value: Any, number: int) -> tuple[str, int, str]:
    if not isinstance(value, list) or [type(part) for part in value] != [str, int, str]:
        raise _bad(number, "an error is [class, errno, text]")
    name, code, what = value
    if name not in _ERRORS or not 0 <= code < 1 << 12:
        raise _bad(number, f"unknown error {str(name)[:40]!a} {code}")
    return name, code, what


def _check_result(op: str, result: Any, number: int) -> None:
    """The type, the range, and for bytes the hex digits."""
    given = type(result).__name__
    if given != _OPERATIONS[op]:
        raise _bad(number, f"{op} gives {_OPERATIONS[op]}, not {given}")
    if op in _BITS and not 0 <= result < 1 << _BITS[op]:
        raise _bad(number, f"{op} gives {_BITS[op]} bits")
    if op in {"read", "read_bytes", "pread"}:
        unhex(result, number)
    if op == "listdir" and not all(isinstance(name, str) for name in result):
        raise _bad(number, "listdir gives names")
    if op == "ioctl":
        if [type(part) for part in result] != [int, str]:
            raise _bad(number, "ioctl gives [result, argument]")
        unhex(result[1], number)


def unhex(text: str, number: int = 0) -> bytes:
    """Bytes of their hex text. Raises: MalformedInput."""
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise _bad(number, "bytes are written as hex") from error

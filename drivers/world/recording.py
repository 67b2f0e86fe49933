"""The format of a recording: one JSON object per line, read as untrusted input.

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

MAX_BYTES = 64 << 20
MAX_LINE_BYTES = 16 << 20
VERSION: Final = 1
LONG_BYTES: Final = 1024
"""Size of a driver's write from which on a recording has its digest."""
USB_MEMORY: Final = 1 << 30
_DIGEST: Final = "sha256:"
Change: TypeAlias = tuple[int, int, str]
"""(memory, offset, bytes as text)."""
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
    "reserve": "int",
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
    "unreserve": "NoneType",
    "usb": "list",
    "usb_start": "NoneType",
    "usb_wait": "list",
    "usb_cancel": "NoneType",
    "usb_close": "NoneType",
}
"""All operations, with the type of their results."""
_BITS = {
    "read32": 32, "read64": 64, "symbol": 64, "device_number": 64, "open": 31, "mmap": 31,
    "reserve": 64, "owning_group": 32, "ioctl_fd": 31, "eventfd": 31,
}  # fmt: skip
_ERRORS = {
    cls.__name__: cls
    for cls in (
        DeviceError, errors.NotFound, errors.Denied, errors.Busy, errors.Unsupported,
        errors.MalformedInput, errors.UseAfterFree, errors.DeviceGone, errors.DeviceTimeout,
        errors.BadArgument,
    )
}  # fmt: skip


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
        return _ERRORS[name](what)


def describe(error: DeviceError, what: str) -> tuple[str, int, str]:
    """How an error is recorded."""
    number = errno_of(error)
    name = type(error).__name__
    return (name if name in _ERRORS else "DeviceError"), number, what if number else error.message


def wrote(memory: int, off: int, data: bytes) -> Change:
    """A write of the driver."""
    if len(data) < LONG_BYTES:
        return memory, off, data.hex()
    return memory, off, f"{_DIGEST}{len(data)}:{sha256(data).hexdigest()}"


def parse(data: bytes) -> list[Entry]:
    """The entries of a recording. Raises: MalformedInput with the line and the rule."""
    return parse_all(data)[1]


def parse_all(data: bytes) -> tuple[Header | None, list[Entry]]:
    """The header, where there is one, and the entries. Raises: MalformedInput."""
    if len(data) > MAX_BYTES:
        raise MalformedInput(f"a recording of {len(data)} bytes; at most {MAX_BYTES} are read")
    header: Header | None = None
    entries: list[Entry] = []
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        value = _value(line, number)
        if number == 1 and "recording" in value:
            header = _header(value)
        else:
            entries.append(_entry(value, number))
    return header, entries


def _bad(number: int, rule: str) -> MalformedInput:
    return MalformedInput(f"recording, line {number}: {rule}", hint="record it again")


def _value(line: bytes, number: int) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise _bad(number, f"{len(line)} bytes; at most {MAX_LINE_BYTES}")
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _bad(number, "not a JSON object") from error
    if not isinstance(value, dict):
        raise _bad(number, "not a JSON object")
    return value


def _header(value: dict[str, Any]) -> Header:
    if value["recording"] != VERSION:
        raise _bad(1, f"a recording of another version than {VERSION}")
    texts = [value.get(name) for name in ("device", "program", "sha256")]
    arguments, environ = value.get("arguments"), value.get("environ")
    if not isinstance(arguments, list) or not isinstance(environ, dict):
        raise _bad(1, "arguments are a list and environ is an object")
    pieces = [*texts, *arguments, *environ.values()]
    if not all(isinstance(piece, str) for piece in pieces):
        raise _bad(1, "device, program, sha256, arguments and environ are text")
    device, program, digest = (str(text) for text in texts)
    return Header(device, program, digest, tuple(arguments), environ)


def _entry(value: dict[str, Any], number: int) -> Entry:
    if not isinstance(value.get("op"), str):
        raise _bad(number, "no operation")
    op, args = value["op"], value.get("args")
    if op not in _OPERATIONS:
        raise _bad(number, f"unknown operation {op[:40]!a}")
    if not isinstance(args, list) or ("error" in value) == ("result" in value):
        raise _bad(number, "args and one of result and error are needed")
    changes = _changes(value.get("wrote", []), number), _changes(value.get("became", []), number)
    for _, _, text in changes[1]:
        unhex(text, number)
    if "error" in value:
        return Entry(op, args, None, _error(value["error"], number), *changes)
    result = value["result"]
    _check_result(op, result, number)
    return Entry(op, args, result, None, *changes)


def _changes(value: Any, number: int) -> tuple[Change, ...]:
    if not isinstance(value, list):
        raise _bad(number, "writes are a list")
    found: list[Change] = []
    for one in value:
        if not isinstance(one, list) or [type(part) for part in one] != [int, int, str]:
            raise _bad(number, "a write is [memory, offset, bytes]")
        memory, off, text = one
        if not 0 <= memory < 1 << 31 or not 0 <= off < 1 << 63:
            raise _bad(number, f"a write to memory {memory}, byte {off}")
        found.append((memory, off, text))
    return tuple(found)


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
    if op in {"listdir", "usb", "usb_wait"} and not all(isinstance(one, str) for one in result):
        raise _bad(number, f"{op} gives texts")
    if op == "usb" and len(result) != len(("name", "product")):
        raise _bad(number, "usb gives name and product")
    if op == "usb_wait":
        for text in result:
            unhex(text, number)
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

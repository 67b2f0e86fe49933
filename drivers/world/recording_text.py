"""A recording read as untrusted input: line by line, within limits.

A player needs one line at a time, so no more than that is in memory, and what a driver never asks
for is never parsed. A line is bounded in bytes and in elements, and numbers are finite.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any, Final

from drivers.base.inputs import read_lines
from drivers.base.outside_json import parse
from drivers.world.recording import ERRORS, VERSION, Change, Entry, Header, bad, unhex

MAX_BYTES: Final = 64 << 20
"""Of the whole text, unpacked."""
MAX_LINE_BYTES: Final = 16 << 20
MAX_LINES: Final = 1 << 19
MAX_ELEMENTS: Final = 1 << 17
"""Of one line, in all its lists and objects."""
MAX_ARGS: Final = 16
"""Of an operation; `World` has none with more than 6."""
MAX_CHANGES: Final = 1 << 15
"""Of one operation's `wrote` or `became`: runs of adjacent words."""
MAX_TEXT: Final = 4096
"""Characters of an error's text."""
MAX_TEXTS: Final = 256
"""Arguments and settings of the header."""
END_S: Final = float(1 << 40)
"""A clock's reading lies before it: thousands of years."""
END_RESULT: Final = 1 << 31
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


def opened(path: str) -> Generator[bytes, None, None]:
    """The lines of a recording in a file; close it to close the file. Raises: as `read_lines`."""
    return read_lines(path, MAX_BYTES, MAX_LINE_BYTES)


def read(lines: Iterable[bytes]) -> tuple[Header | None, Iterator[Entry]]:
    """The header, where there is one, and the entries, each read when it is asked for.

    Raises: MalformedInput with the line and the rule, the iterator too.
    """
    values = _values(lines)
    first = next(values, None)
    if first is None:
        return None, iter(())
    number, value = first
    if number == 1 and "recording" in value:
        return _header(value), (_entry(one, at) for at, one in values)
    return None, _entries(number, value, values)


def _entries(
    number: int, value: dict[str, Any], values: Iterator[tuple[int, dict[str, Any]]]
) -> Iterator[Entry]:
    yield _entry(value, number)
    for at, one in values:
        yield _entry(one, at)


def _values(lines: Iterable[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number, object) of each line that is not blank."""
    nbytes = 0
    for number, line in enumerate(lines, 1):
        nbytes += len(line)
        check_line(line, number, nbytes)
        if line.strip():
            yield number, _value(line, number)


def check_line(line: bytes, number: int, nbytes: int) -> None:
    """A line's size, and that of all up to its end. Raises: MalformedInput."""
    if nbytes > MAX_BYTES:
        raise bad(number, f"the text is longer than {MAX_BYTES} bytes")
    if number > MAX_LINES:
        raise bad(number, f"more than {MAX_LINES} lines")
    if len(line) > MAX_LINE_BYTES:
        raise bad(number, f"{len(line)} bytes; at most {MAX_LINE_BYTES}")


def _value(line: bytes, number: int) -> dict[str, Any]:
    try:
        value = parse(line, MAX_ELEMENTS)
    except ValueError as error:
        raise bad(number, f"not a JSON object: {str(error)[:100]}") from error
    except RecursionError as error:
        raise bad(number, "not a JSON object: too deep") from error
    if not isinstance(value, dict):
        raise bad(number, "not a JSON object")
    return value


def _header(value: dict[str, Any]) -> Header:
    if value["recording"] != VERSION:
        raise bad(1, f"a recording of another version than {VERSION}")
    texts = [value.get(name) for name in ("device", "program", "sha256")]
    arguments, environ = value.get("arguments"), value.get("environ")
    if not isinstance(arguments, list) or not isinstance(environ, dict):
        raise bad(1, "arguments are a list and environ is an object")
    if max(len(arguments), len(environ)) > MAX_TEXTS:
        raise bad(1, f"more than {MAX_TEXTS} arguments or settings")
    pieces = [*texts, *arguments, *environ.values()]
    if not all(isinstance(piece, str) for piece in pieces):
        raise bad(1, "device, program, sha256, arguments and environ are text")
    device, program, digest = (str(text) for text in texts)
    return Header(device, program, digest, tuple(arguments), environ)


def _entry(value: dict[str, Any], number: int) -> Entry:
    if not isinstance(value.get("op"), str):
        raise bad(number, "no operation")
    op, args = value["op"], value.get("args")
    if op not in _OPERATIONS:
        raise bad(number, f"unknown operation {op[:40]!a}")
    if not isinstance(args, list) or ("error" in value) == ("result" in value):
        raise bad(number, "args and one of result and error are needed")
    if len(args) > MAX_ARGS:
        raise bad(number, f"{len(args)} args; at most {MAX_ARGS}")
    changes = _changes(value.get("wrote", []), number), _changes(value.get("became", []), number)
    for _, _, text in changes[1]:
        if not unhex(text, number):
            raise bad(number, "a write of no bytes")
    if "error" in value:
        return Entry(op, args, None, _error(value["error"], number), *changes)
    result = value["result"]
    _check_result(op, result, number)
    return Entry(op, args, result, None, *changes)


def _changes(value: Any, number: int) -> tuple[Change, ...]:
    if not isinstance(value, list):
        raise bad(number, "writes are a list")
    if len(value) > MAX_CHANGES:
        raise bad(number, f"{len(value)} writes; at most {MAX_CHANGES}")
    found: list[Change] = []
    for one in value:
        if not isinstance(one, list) or [type(part) for part in one] != [int, int, str]:
            raise bad(number, "a write is [memory, offset, bytes]")
        memory, off, text = one
        if not 0 <= memory < 1 << 31 or not 0 <= off < 1 << 63:
            raise bad(number, f"a write to memory {memory}, byte {off}")
        found.append((memory, off, text))
    return tuple(found)


def _error(value: Any, number: int) -> tuple[str, int, str]:
    if not isinstance(value, list) or [type(part) for part in value] != [str, int, str]:
        raise bad(number, "an error is [class, errno, text]")
    name, code, what = value
    if name not in ERRORS or not 0 <= code < 1 << 12:
        raise bad(number, f"unknown error {str(name)[:40]!a} {code}")
    if len(what) > MAX_TEXT:
        raise bad(number, f"an error of {len(what)} characters; at most {MAX_TEXT}")
    return name, code, what


def _check_result(op: str, result: Any, number: int) -> None:
    """The type, the range, and for bytes the hex digits."""
    given = type(result).__name__
    if given != _OPERATIONS[op]:
        raise bad(number, f"{op} gives {_OPERATIONS[op]}, not {given}")
    if op in _BITS and not 0 <= result < 1 << _BITS[op]:
        raise bad(number, f"{op} gives {_BITS[op]} bits")
    if op == "monotonic_s" and not 0 <= result < END_S:
        raise bad(number, f"{op} gives seconds from 0 to 2^40, not {result!r}")
    if op in {"read", "read_bytes", "pread"}:
        unhex(result, number)
    if op in {"listdir", "usb", "usb_wait"} and not all(isinstance(one, str) for one in result):
        raise bad(number, f"{op} gives texts")
    if op == "usb" and len(result) != len(("name", "product")):
        raise bad(number, "usb gives name and product")
    if op == "usb_wait":
        for text in result:
            unhex(text, number)
    if op == "ioctl":
        if [type(part) for part in result] != [int, str]:
            raise bad(number, "ioctl gives [result, argument]")
        if not -END_RESULT <= result[0] < END_RESULT:
            raise bad(number, "ioctl gives an int of C")
        unhex(result[1], number)

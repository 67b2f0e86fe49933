"""Small text files of /proc and /sys, read as hostile input: bounded, ASCII, checked."""

from __future__ import annotations

import re
from collections.abc import Iterator

from drivers.base.contracts import World
from drivers.base.errors import DeviceError, MalformedInput, NotFound

LIMIT_BYTES = 1 << 16
MAX_ENTRIES = 4096
_SHOWN_CHARS = 40
_LINE_CHARS = 200


def read_text(world: World, path: str) -> str:
    """The text of a small file; bytes that are not printable ASCII become '?'."""
    text = world.read(path, LIMIT_BYTES).decode("ascii", "replace")
    return "".join(c if c.isascii() and (c.isprintable() or c in "\n\t") else "?" for c in text)


def try_text(world: World, path: str) -> str:
    """The text of a small file, "" where there is none or this user may not read it."""
    try:
        return read_text(world, path)
    except MalformedInput:
        raise
    except DeviceError:
        return ""


def first_line(world: World, path: str) -> str:
    """The first line of a small file, at most 200 characters; "" where there is none."""
    return try_text(world, path).strip().partition("\n")[0].replace("\t", " ")[:_LINE_CHARS]


def entries(world: World, path: str) -> list[str]:
    """Names in a directory, [] where there is none. Raises: MalformedInput for absurdly many."""
    try:
        names = world.listdir(path)
    except NotFound:
        return []
    if len(names) > MAX_ENTRIES:
        raise MalformedInput(f"{path} has {len(names)} entries; at most {MAX_ENTRIES} are read")
    return names


def link_name(world: World, path: str) -> str:
    """The last part of where a symbolic link points, "" where there is no link."""
    return link_target(world, path).rsplit("/", 1)[-1]


def link_target(world: World, path: str) -> str:
    """Where a symbolic link points, without unprintable characters; "" where there is no link."""
    try:
        target = world.readlink(path)
    except DeviceError:
        return ""
    return "".join(c for c in target if c.isascii() and c.isprintable())


def hex_number(world: World, path: str, bits: int) -> int:
    """A sysfs number such as 0x1002. Raises: MalformedInput."""
    text = read_text(world, path).strip()
    if not re.fullmatch(r"(0x)?[0-9a-fA-F]{1,16}", text) or int(text, 16) >> bits:
        raise MalformedInput(f"{path}: {text[:_SHOWN_CHARS]!r} is no {bits}-bit hex number")
    return int(text, 16)


def fields(text: str, separator: str = ":") -> Iterator[tuple[str, str]]:
    """The "name: value" lines of a /proc file."""
    for line in text.splitlines():
        name, found, value = line.partition(separator)
        if found:
            yield name.strip(), value.strip()

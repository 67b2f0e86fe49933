"""sysfs and /proc read so that a failure is never taken for an absence.

`drivers.machine.text` shows what it can; here a decision hangs on the answer, so only "there is no
such file" counts as nothing, and every other error is raised.
"""

from __future__ import annotations

import os
import re

from drivers.base.contracts import World
from drivers.base.errors import MalformedInput, NotFound
from drivers.machine.text import MAX_ENTRIES, read_text

_SHOWN_CHARS = 40
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]{0,127}").fullmatch
_DEVICE = re.compile(r"([0-9]{1,9}):([0-9]{1,9})").fullmatch
_DECIMAL = re.compile(r"[0-9]{1,18}").fullmatch


def text_or_none(world: World, path: str) -> str | None:
    """The stripped text of a small file; None when there is no such file."""
    try:
        return read_text(world, path).strip()
    except NotFound:
        return None


def proc_text(world: World, path: str) -> str:
    """A file of /proc that every Linux has. Raises: NotFound where /proc is not there."""
    try:
        return read_text(world, path)
    except NotFound as error:
        raise error.advised(
            "a GPU is taken and given back only where /proc shows who uses it: as root, "
            "mount -t proc proc /proc"
        ) from error.__cause__


def device_number(world: World, path: str) -> int | None:
    """What a file of sysfs called "dev" says ("226:128"); None when there is no such file."""
    text = text_or_none(world, path)
    if text is None:
        return None
    match = _DEVICE(text)
    if match is None:
        raise MalformedInput(f"{path}: {text[:_SHOWN_CHARS]!r} is not a device number")
    return os.makedev(int(match[1]), int(match[2]))


def names_in(world: World, path: str) -> list[str]:
    """Names in a directory, [] when there is none. Raises: MalformedInput for absurdly many."""
    try:
        names = world.listdir(path)
    except NotFound:
        return []
    if len(names) > MAX_ENTRIES:
        raise MalformedInput(f"{path} has {len(names)} entries; at most {MAX_ENTRIES} are read")
    return names


def linked_name(world: World, path: str) -> str:
    """The last part of where a link points, "" when there is no link. Raises: MalformedInput."""
    try:
        name = world.readlink(path).rsplit("/", 1)[-1]
    except NotFound:
        return ""
    if not _NAME(name):
        raise MalformedInput(f"{path} points to {name[:_SHOWN_CHARS]!r}, which is not a sysfs name")
    return name


def number_or(world: World, path: str, absent: int) -> int:
    """A decimal number in a file, `absent` when there is no such file. Raises: MalformedInput."""
    text = text_or_none(world, path)
    if text is None:
        return absent
    if not _DECIMAL(text):
        raise MalformedInput(f"{path}: {text[:_SHOWN_CHARS]!r} is not a decimal number")
    return int(text)

"""How much memory the control groups of this process allow, where that is less than the machine's.

A process that takes more is killed, not refused: the limit has to be known before. A group's limit
holds for everything below it, so every ancestor counts that is visible from here.
# src: Documentation/admin-guide/cgroup-v2.rst (memory.max), cgroup-v1/memory.rst; cgroups(7)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from drivers.base.contracts import World
from drivers.base.errors import Denied, MalformedInput, NotFound

_TABLE_LIMIT_BYTES: Final = 1 << 24
_FILE_LIMIT_BYTES: Final = 4096
_MAX_DEPTH: Final = 128
_FILES: Final = {"cgroup": "memory.limit_in_bytes", "cgroup2": "memory.max"}
"""By the file system's type: version 1, where "memory" is a hierarchy of its own, and 2."""


def memory_limit(world: World) -> int | None:
    """The smallest limit in bytes; None where there is none. Raises: MalformedInput."""
    try:
        groups = _groups(_text(world, "/proc/self/cgroup", _TABLE_LIMIT_BYTES))
        mounts = list(_mounts(_text(world, "/proc/self/mountinfo", _TABLE_LIMIT_BYTES)))
    except (NotFound, Denied):  # no control groups, no /proc, or a sandbox that hides it
        return None
    found = [
        limit
        for kind, root, place in mounts
        if kind in groups
        for folder in _folders(groups[kind], root, place)
        for limit in _limits(world, f"{folder}/{_FILES[kind]}")
    ]
    return min(found, default=None)


def _text(world: World, path: str, limit_bytes: int) -> str:
    return world.read(path, limit_bytes).decode("utf-8", "replace")


def _groups(text: str) -> dict[str, str]:
    """Type of file system -> the group whose limit counts, from /proc/self/cgroup."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            found["cgroup2"] = path
        elif "memory" in controllers.split(","):
            found["cgroup"] = path
    return found


def _mounts(text: str) -> Iterator[tuple[str, str, str]]:
    """(type, the group that is its root, place) of every mount with memory limits."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if len(fields) < 6 or len(kinds) < 3:  # src: fs/proc_namespace.c show_mountinfo()
            continue
        kind, options = kinds[0], kinds[2].split(",")
        if kind == "cgroup2" or (kind == "cgroup" and "memory" in options):
            yield kind, _unescaped(fields[3]), _unescaped(fields[4])


def _unescaped(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)


def _folders(group: str, root: str, place: str) -> Iterator[str]:
    """The group's folder and those of its ancestors, up to the mount; it alone from elsewhere."""
    root = root.rstrip("/")
    inside = group == root or group.startswith(f"{root}/")
    parts = [part for part in group[len(root) :].split("/") if part] if inside else []
    if ".." in parts or len(parts) > _MAX_DEPTH:
        parts = []
    for count in range(len(parts), -1, -1):
        yield "/".join([place.rstrip("/"), *parts[:count]])


def _limits(world: World, path: str) -> Iterator[int]:
    """What one group says; the first of all groups has no such file."""
    try:
        text = _text(world, path, _FILE_LIMIT_BYTES).strip()
    except (NotFound, Denied):
        return
    if text == "max":
        return
    if not re.fullmatch(r"[0-9]{1,20}", text):
        raise MalformedInput(f"{path} is {text[:40]!r}, not a number of bytes")
    yield int(text)

"""The user of this process, its limits, and the libraries and programs it would find."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from drivers.base.contracts import World
from drivers.base.errors import MalformedInput
from drivers.machine.text import fields, link_target, read_text, try_text

_LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/lib/wsl/lib",
)
_MAX_FOLDERS = 64
_ID = re.compile(r"\d{1,10}").fullmatch


@dataclass(frozen=True, slots=True)
class User:
    """Who runs this process: effective user id, and names (or numbers) of its groups."""

    uid: int
    groups: frozenset[str]


def current_user(world: World) -> User:
    """From /proc/self/status and /etc/group. Raises: MalformedInput."""
    status = dict(fields(read_text(world, "/proc/self/status")))
    numbers = f"{status.get('Uid', '')} {status.get('Gid', '')} {status.get('Groups', '')}".split()
    if len(status.get("Uid", "").split()) < 2 or not all(map(_ID, numbers)):
        raise MalformedInput("/proc/self/status has no numeric Uid, Gid and Groups")
    names = group_names(world)
    gids = [*status.get("Gid", "").split()[1:2], *status.get("Groups", "").split()]
    uid = int(status["Uid"].split()[1])
    return User(uid, frozenset(names.get(gid, gid) for gid in gids))


def group_names(world: World) -> dict[str, str]:
    """Group number (as text) to name, from /etc/group; src: group(5)."""
    rows = (line.split(":") for line in try_text(world, "/etc/group").splitlines())
    return {row[2]: row[0] for row in rows if len(row) > 2 and _ID(row[2])}


def memlock_bytes(world: World) -> int | None:
    """Soft limit on pinned memory; None is unlimited. Raises: MalformedInput."""
    text = read_text(world, "/proc/self/limits")
    found = re.search(r"^Max locked memory\s+(unlimited|\d{1,20})\s", text, re.MULTILINE)
    if found is None:
        raise MalformedInput("/proc/self/limits has no line 'Max locked memory'")
    return None if found[1] == "unlimited" else int(found[1])


def find_library(world: World, environ: Mapping[str, str], name: str) -> str | None:
    """Path of a shared library, as the loader would find it."""
    listed = environ.get("LD_LIBRARY_PATH", "").split(":")
    return _find(world, [*listed, *_LIBRARY_FOLDERS], name, os.R_OK)


def find_program(world: World, environ: Mapping[str, str], name: str) -> str | None:
    """Path of a program on PATH."""
    return _find(world, environ.get("PATH", "").split(":"), name, os.X_OK)


def _find(world: World, folders: list[str], name: str, mode: int) -> str | None:
    for folder in folders[:_MAX_FOLDERS]:
        path = f"{folder}/{name}"
        if path.startswith("/") and "\0" not in path and world.access(path, mode):
            return path
    return None


def clang_description(world: World, environ: Mapping[str, str]) -> str | None:
    """Where clang is and its version, which distributions keep in the link's target."""
    path = find_program(world, environ, "clang")
    if path is None:
        return None
    found = re.search(r"(?:llvm|clang)-(\d{1,3})\b", link_target(world, path))
    return f"{path} (version {found[1]})" if found else path

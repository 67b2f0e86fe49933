"""A made-up file system: folders, links, and files that answer when they are read or written."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

_MOST_LINKS, _MOST_STEPS = 40, 4096
"""src: include/linux/namei.h MAXSYMLINKS"""


@dataclass(slots=True)
class File:
    """A file: what reading gives, and what a write does (None: it is read-only)."""

    read: bytes | Callable[[], bytes] = b""
    write: Callable[[bytes], None] | None = None
    opens: Callable[[Any, int], Any] | None = None
    """(process, flags) -> what open(2) of a device node gives; None: a plain file."""

    def content(self) -> bytes:
        """What it holds now."""
        return self.read if isinstance(self.read, bytes) else self.read()


@dataclass(slots=True)
class Link:
    """A symbolic link, as it is written."""

    target: str


@dataclass(slots=True)
class Folder:
    """A folder; `more` are entries that are there without having been put."""

    own: dict[str, Node] = field(default_factory=dict)
    more: Callable[[], Mapping[str, Node]] | None = None

    def entries(self) -> Mapping[str, Node]:
        """Everything in it now."""
        return self.own if self.more is None else {**self.own, **self.more()}


Node: TypeAlias = File | Link | Folder


def _fail(number: int, path: str) -> OSError:
    return OSError(number, f"{path} in a made-up file system")


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


class FileTree:
    """Paths to nodes. Every method raises OSError with the errno of Linux."""

    def __init__(self) -> None:
        self.root = Folder()

    # Building

    def put(
        self,
        path: str,
        read: bytes | Callable[[], bytes] = b"",
        write: Callable[[bytes], None] | None = None,
    ) -> None:
        """Make a file, or replace it."""
        self.place(path, File(read, write))

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link."""
        self.place(path, Link(target))

    def place(self, path: str, node: Node) -> None:
        """Put a node; folders on the way are made."""
        *way, name = _parts(path)
        folder = self.root
        for part in way:
            inside = folder.own.setdefault(part, Folder())
            if not isinstance(inside, Folder):
                raise _fail(errno.ENOTDIR, path)
            folder = inside
        folder.own[name] = node

    def remove(self, path: str) -> None:
        """Take a file, link or whole folder away; nothing happens when it is not there."""
        *way, name = _parts(path)
        folder: Node = self.root
        for part in way:
            if not isinstance(folder, Folder) or part not in folder.own:
                return
            folder = folder.own[part]
        if isinstance(folder, Folder):
            folder.own.pop(name, None)

    # Reading

    def find(self, path: str, *, follow: bool = True) -> Node:
        """The node at a path; a link at its end is followed by default."""
        return self._walk(path, follow)[0]

    def real(self, path: str) -> str:
        """The path without links."""
        return "/" + "/".join(self._walk(path, True)[1])

    def _walk(self, path: str, follow: bool) -> tuple[Node, list[str]]:
        todo, seen = _parts(path)[::-1], list[str]()
        nodes: list[Node] = [self.root]
        links = 0
        for _ in range(_MOST_STEPS):
            if not todo:
                return nodes[-1], seen
            part = todo.pop()
            if part == "..":
                del seen[-1:]
                del nodes[len(seen) + 1 :]
                continue
            node = self._step(nodes[-1], part, path)
            if isinstance(node, Link) and (todo or follow):
                links += 1
                if links > _MOST_LINKS:
                    break
                if node.target.startswith("/"):
                    nodes, seen = [self.root], []
                todo += _parts(node.target)[::-1]
                continue
            nodes.append(node)
            seen.append(part)
        raise _fail(errno.ELOOP, path)

    def _step(self, folder: Node, part: str, path: str) -> Node:
        if not isinstance(folder, Folder):
            raise _fail(errno.ENOTDIR, path)
        node = folder.own.get(part)
        if node is None and folder.more is not None:
            node = folder.more().get(part)
        if node is None:
            raise _fail(errno.ENOENT, path)
        return node

    def exists(self, path: str) -> bool:
        """Whether a path leads anywhere."""
        try:
            self.find(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise
            return False
        return True

    def read(self, path: str) -> bytes:
        """What a file holds."""
        node = self.find(path)
        if isinstance(node, File):
            return node.content()
        raise _fail(errno.EISDIR, path)

    def write(self, path: str, data: bytes) -> None:
        """Write to a file, as one write(2)."""
        node = self.find(path)
        if not isinstance(node, File):
            raise _fail(errno.EISDIR, path)
        if node.write is None:
            raise _fail(errno.EACCES, path)
        node.write(data)

    def writable(self, path: str) -> bool:
        """Whether somebody may write to a file."""
        node = self.find(path)
        if not isinstance(node, File):
            return isinstance(node, Folder)
        return node.write is not None or node.opens is not None

    def listdir(self, path: str) -> list[str]:
        """Names in a folder, sorted."""
        node = self.find(path)
        if not isinstance(node, Folder):
            raise _fail(errno.ENOTDIR, path)
        return sorted(node.entries())

    def readlink(self, path: str) -> str:
        """Where a link points."""
        node = self.find(path, follow=False)
        if not isinstance(node, Link):
            raise _fail(errno.EINVAL, path)
        return node.target

"""Compiled binaries by content: in memory first, then in the user's cache directory.

An entry is one file, named by the hash of everything that its contents depend on. It is written
beside its place and moved there whole, so that a killed process leaves no half entry and concurrent
writers need no lock. It carries its length and hash: whatever else is found in its place is a miss.
Entries are machine code: they are only read from a directory that nobody else may write to.
"""

from __future__ import annotations

import functools
import hashlib
import os
import stat
import struct
import time
import warnings
from collections.abc import Iterator

from compilers import binary as codec
from drivers.base.contracts import Binary
from drivers.base.errors import MalformedInput
from drivers.choice import choose

FORMAT = b"1"
MAGIC = b"UNBCACHE"
SUFFIX = ".bin"
MEMORY_ENTRIES = 1024
DISK_LIMIT_BYTES = 512 << 20
LEFTOVER_S = 3600.0
"""A temporary file this old belongs to nobody any more: writing takes milliseconds."""

_HEAD = struct.Struct("<8sQ32s")
_TEMPORARY = ".tmp-"


def key_of(*parts: bytes) -> str:
    """The name of an entry: a hash of all `parts`, with their lengths."""
    digest = hashlib.sha256(FORMAT)
    for part in parts:
        digest.update(struct.pack("<Q", len(part)))
        digest.update(part)
    return digest.hexdigest()


def default_directory() -> str:
    """ "kernels" below the cache directory of `drivers.choice`; "" where there is none.

    Raises: BadChoice for a wrong environment variable.
    """
    chosen = choose(os.environ).cache_dir
    return os.path.join(chosen, "kernels") if chosen else ""


@functools.cache
def default() -> Cache:
    """The cache of this process in `default_directory()`."""
    return Cache(default_directory())


class Cache:
    """Two levels. `directory` "" keeps entries in memory only."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._memory: dict[str, Binary] = {}
        self._checked = self._tidied = False

    def get(self, key: str) -> Binary | None:
        """The entry, or None when it has to be compiled."""
        found = self._memory.get(key)
        if found is None and self._usable():
            found = self._read(key)
            if found is not None:
                self._remember(key, found)
        return found

    def put(self, key: str, binary: Binary) -> None:
        """Keep `binary` in memory and, where that is possible, on disk."""
        self._remember(key, binary)
        if not self._usable():
            return
        payload = codec.encode(binary)
        blob = _HEAD.pack(MAGIC, len(payload), _digest(key, payload)) + payload
        temporary = os.path.join(self.directory, _TEMPORARY + os.urandom(8).hex())
        try:
            if not self._tidied:  # only who writes pays for it: reading stays fast
                self._tidied = True
                self._tidy()
            _write(temporary, blob)
            os.replace(temporary, self._path(key))
        except OSError as error:
            self._give_up(error)

    def forget_memory(self) -> None:
        """Drop the first level: the next `get` reads the disk."""
        self._memory.clear()

    def entries(self) -> Iterator[tuple[str, Binary]]:
        """Every readable entry on disk: its key and contents."""
        names = os.listdir(self.directory) if self._usable() else []
        for name in sorted(names):
            if name.endswith(SUFFIX):
                found = self._read(name.removesuffix(SUFFIX))
                if found is not None:
                    yield name.removesuffix(SUFFIX), found

    def _path(self, key: str) -> str:
        return os.path.join(self.directory, key + SUFFIX)

    def _remember(self, key: str, binary: Binary) -> None:
        if len(self._memory) >= MEMORY_ENTRIES:
            self._memory.pop(next(iter(self._memory)), None)
        self._memory[key] = binary

    def _read(self, key: str) -> Binary | None:
        try:
            blob = _read_file(self._path(key))
        except FileNotFoundError:
            return None
        except OSError as error:
            self._give_up(error)
            return None
        try:
            return parse(key, blob)
        except MalformedInput:
            self._remove(self._path(key))
            return None

    def _remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return  # another process was first
        except OSError as error:
            self._give_up(error)

    def _usable(self) -> bool:
        """True while there is a directory; the first call makes it."""
        if not self._checked:
            self._checked = True
            if self.directory:
                try:
                    _prepare(self.directory)
                except OSError as error:
                    self._give_up(error)
        return bool(self.directory)

    def _give_up(self, error: OSError) -> None:
        """Go on without a disk, and say so once."""
        if self.directory:
            warnings.warn(
                f"kernels are compiled anew in every process: cannot use {self.directory}: "
                f"{error}. Make it a directory only you can write to, or set UNBOUND_CACHE",
                RuntimeWarning,
                stacklevel=4,
            )
            self.directory = ""

    def _tidy(self) -> None:
        """Remove what killed processes left, and the oldest entries above the size limit."""
        kept, used_bytes, now_s = [], 0, time.time()
        with os.scandir(self.directory) as listing:
            for file in listing:
                try:
                    facts = file.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # another process tidies too
                if file.name.startswith(_TEMPORARY) and now_s - facts.st_mtime > LEFTOVER_S:
                    self._remove(file.path)
                elif file.name.endswith(SUFFIX):
                    kept.append((facts.st_mtime, facts.st_size, file.path))
                    used_bytes += facts.st_size
        for _, nbytes, path in sorted(kept):
            if used_bytes <= DISK_LIMIT_BYTES:
                return
            self._remove(path)
            used_bytes -= nbytes


def parse(key: str, blob: bytes) -> Binary:
    """The contents of an entry file. Raises: MalformedInput when it is not the entry `key`."""
    if len(blob) < _HEAD.size:
        raise MalformedInput(f"cache entry {key}: {len(blob)} bytes")
    magic, nbytes, digest = _HEAD.unpack_from(blob)
    payload = blob[_HEAD.size :]
    if magic != MAGIC or nbytes != len(payload) or digest != _digest(key, payload):
        raise MalformedInput(f"cache entry {key}: its length or hash is wrong")
    return codec.decode(payload)


def _digest(key: str, payload: bytes) -> bytes:
    digest = hashlib.sha256(key.encode())
    digest.update(payload)
    return digest.digest()


def _prepare(directory: str) -> None:
    os.makedirs(directory, mode=0o700, exist_ok=True)
    facts = os.stat(directory, follow_symlinks=False)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise PermissionError("it is not a directory of this user")
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError("other users may write to it")


def _write(path: str, blob: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, flags, 0o600)
    try:
        with open(fd, "wb", buffering=0) as file:
            written = file.write(blob)
        if written != len(blob):
            raise OSError(f"only {written} of {len(blob)} bytes were written")
    except OSError:
        os.unlink(path)
        raise


def _read_file(path: str) -> bytes:
    """At most one byte more than an entry may have, so that too long stays visible."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(fd, "rb", buffering=0) as file:
        return file.read(codec.LIMIT_BYTES + _HEAD.size + 1)

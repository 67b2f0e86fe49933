"""Compiled binaries by content: in memory first, then in the user's cache directory.

An entry is one file, named by the hash of everything that its contents depend on. It is written to
a temporary file and renamed, so that a killed process leaves no half entry and concurrent writers
need no lock. It has its length and hash: any other contents are a miss. Entries are machine code:
they are only read from a directory that no other user may write to or replace
(`drivers/world/owned.py`).
"""

from __future__ import annotations

import functools
import hashlib
import os
import struct
import time
import warnings
from collections.abc import Iterator

from compilers import binary as codec
from drivers.base.contracts import Binary
from drivers.base.errors import Denied, MalformedInput, escaped
from drivers.base.oserrors import translate
from drivers.choice import choose
from drivers.world import owned

FORMAT = b"2"
MAGIC = b"UNBCACHE"
SUFFIX = ".bin"
MEMORY_ENTRIES = 1024
DISK_LIMIT_BYTES = 512 << 20
LEFTOVER_S = 3600.0
"""A temporary file this old is abandoned: writing takes milliseconds."""

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
        self._folder: owned.Folder | None = None
        self._tidied = False

    def get(self, key: str) -> Binary | None:
        """The entry, or None when it has to be compiled."""
        found = self._memory.get(key)
        if found is None and (folder := self._usable()) is not None:
            found = self._read(folder, key)
            if found is not None:
                self._remember(key, found)
        return found

    def put(self, key: str, binary: Binary) -> None:
        """Keep `binary` in memory and, where that is possible, on disk."""
        self._remember(key, binary)
        folder = self._usable()
        if folder is None:
            return
        payload = codec.encode(binary)
        blob = _HEAD.pack(MAGIC, len(payload), _digest(key, payload)) + payload
        temporary = _TEMPORARY + os.urandom(8).hex()
        try:
            if not self._tidied:  # only at a write: reading stays fast
                self._tidied = True
                self._tidy(folder)
            _write(folder.fd, temporary, blob)
            os.replace(temporary, key + SUFFIX, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
        except (OSError, Denied) as error:
            self._give_up(error)

    def forget_memory(self) -> None:
        """Drop the first level: the next `get` reads the disk."""
        self._memory.clear()

    def entries(self) -> Iterator[tuple[str, Binary]]:
        """Every readable entry on disk: its key and contents."""
        folder = self._usable()
        if folder is None:
            return
        for name in folder.names():
            if name.endswith(SUFFIX):
                found = self._read(folder, name.removesuffix(SUFFIX))
                if found is not None:
                    yield name.removesuffix(SUFFIX), found

    def _remember(self, key: str, binary: Binary) -> None:
        if len(self._memory) >= MEMORY_ENTRIES:
            self._memory.pop(next(iter(self._memory)), None)
        self._memory[key] = binary

    def _read(self, folder: owned.Folder, key: str) -> Binary | None:
        try:
            blob = folder.read(key + SUFFIX, codec.LIMIT_BYTES + _HEAD.size)
        except FileNotFoundError:
            return None
        except (OSError, Denied) as error:
            self._give_up(error)
            return None
        try:
            return parse(key, blob)
        except MalformedInput:
            self._remove(folder, key + SUFFIX)
            return None

    def _remove(self, folder: owned.Folder, name: str) -> None:
        try:
            os.unlink(name, dir_fd=folder.fd)
        except FileNotFoundError:
            return  # another process was first
        except OSError as error:
            self._give_up(error)

    def _usable(self) -> owned.Folder | None:
        """The directory; the first call creates and checks it, a later one if it was removed.

        There is no lock, which a fork could leave locked: a thread that finds no result makes its
        own check, and the caller's reference keeps the descriptor open.
        """
        if not self.directory:
            return None
        folder = self._folder
        if folder is not None and folder.lives():
            return folder
        try:
            self._folder = folder = owned.Folder(self.directory)
        except (OSError, Denied) as error:
            self._give_up(error)
            return None
        return folder

    def _give_up(self, error: OSError | Denied) -> None:
        """Continue without a disk, and warn once; a warning may be configured to raise."""
        directory, self.directory = self.directory, ""
        if directory:
            fix = "make it a directory only you can write to"
            if isinstance(error, OSError):
                fix = translate(error, f"write {directory}").hint
            warnings.warn(
                f"kernels are compiled anew in every process: cannot use {escaped(directory)}: "
                f"{escaped(str(error))}. To change that: {fix}; or set UNBOUND_CACHE",
                RuntimeWarning,
                stacklevel=4,
            )

    def _tidy(self, folder: owned.Folder) -> None:
        """Remove what killed processes left, and the oldest entries above the size limit."""
        kept, used_bytes, now_s = [], 0, time.time()
        for name in folder.names():
            try:
                facts = os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
            except FileNotFoundError:
                continue  # another process removes entries, too
            if name.startswith(_TEMPORARY) and now_s - facts.st_mtime > LEFTOVER_S:
                self._remove(folder, name)
            elif name.endswith(SUFFIX):
                kept.append((facts.st_mtime, facts.st_size, name))
                used_bytes += facts.st_size
        for _, nbytes, name in sorted(kept):
            if used_bytes <= DISK_LIMIT_BYTES:
                return
            self._remove(folder, name)
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


def _write(directory: int, name: str, blob: bytes) -> None:
    fd, _ = owned.open_file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, directory)
    try:
        with open(fd, "wb", buffering=0) as file:
            written = file.write(blob)
        if written != len(blob):
            raise OSError(f"only {written} of {len(blob)} bytes were written")
    except OSError:
        os.unlink(name, dir_fd=directory)
        raise

"""Joins the preloaded shim to a board: what a Vulkan driver asks of its device node, a World does.

The board runs in the client's own process, so memory and addresses are real ones.
"""

from __future__ import annotations

import errno
import os
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

import cffi

from boards.machine import host
from boards.machine.region import HostRegion, Reservation
from boards.qcom.hardware import AdrenoOptions
from boards.qcom.machine import open_qcom_board
from boards.qcom.world import QcomWorld

_CALLS = """
typedef struct {
    int64_t (*open_node)(const char *path, int64_t flags);
    int64_t (*close_node)(int64_t fd);
    int64_t (*ioctl_node)(int64_t fd, uint64_t request, uint64_t at);
    int64_t (*map_node)(int64_t fd, uint64_t at, uint64_t bytes, int64_t rights, uint64_t offset);
    int64_t (*unmap_node)(uint64_t at);
    int64_t (*number_of)(const char *path);
} Calls;
void board_install(const Calls *given);
"""
_SIZE_SHIFT, _SIZE_MASK, _NUMBER_MASK = 16, 0x3FFF, 0xFF
_TYPES = (
    "int64_t(const char*, int64_t)", "int64_t(int64_t)", "int64_t(int64_t, uint64_t, uint64_t)",
    "int64_t(int64_t, uint64_t, uint64_t, int64_t, uint64_t)", "int64_t(uint64_t)",
    "int64_t(const char*)",
)  # fmt: skip


class _ClientRange(Reservation):
    """A range that the client has chosen."""

    def __init__(self, va: int) -> None:
        self.cpu_va = va

    def place(self, at: int, nbytes: int) -> int:
        return self.cpu_va

    def vacate(self, va: int, nbytes: int) -> None:
        """The client's own munmap has done so."""


class Bridge:
    """A board, and what was asked of it."""

    def __init__(self, chip: str, iface: str, shim: str) -> None:
        self.world: QcomWorld = open_qcom_board(chip, options=AdrenoOptions(iface=iface))
        self.asked: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._fds: dict[int, int] = {}
        self._maps: dict[int, HostRegion] = {}
        self._ffi: Any = cffi.FFI()
        self._ffi.cdef(_CALLS)
        library: Any = self._ffi.dlopen(shim)
        calls: tuple[Any, ...] = (
            self._open, self._close, self._ioctl, self._map, self._unmap, self._number,
        )  # fmt: skip
        self._kept = [
            self._ffi.callback(kind, self._guarded(call))
            for kind, call in zip(_TYPES, calls, strict=True)
        ]
        given = self._ffi.new("Calls *", self._kept)
        self._kept.append(given)
        library.board_install(given)

    def _guarded(self, call: Callable[..., int]) -> Callable[..., int]:
        def guarded(*arguments: Any) -> int:
            try:
                return call(*arguments)
            except OSError as error:
                return -(error.errno or errno.EIO)
            except Exception:  # what the board itself has done wrong must be seen
                self.refused[f"the board: {traceback.format_exc()}"] += 1
                traceback.print_exc()
                return -errno.EIO

        return guarded

    def _open(self, path: Any, flags: int) -> int:
        number = self.world.open(self._ffi.string(path).decode(), flags & ~os.O_CLOEXEC)
        fd = os.memfd_create("board", os.MFD_CLOEXEC)
        self._fds[fd] = number
        return fd

    def _close(self, fd: int) -> int:
        self.world.close(self._fds.pop(fd))
        os.close(fd)
        return 0

    def _ioctl(self, fd: int, request: int, at: int) -> int:
        nbytes = request >> _SIZE_SHIFT & _SIZE_MASK
        memory = host.view(at, nbytes) if nbytes else memoryview(b"")
        argument = bytearray(memory)
        name = f"{request & _NUMBER_MASK:#x}"
        self.asked[name] += 1
        try:
            return self.world.ioctl(self._fds[fd], request, argument)
        except OSError as error:
            self.refused[f"{name}: {error}"] += 1
            raise
        finally:
            memory[:] = argument

    def _map(self, fd: int, at: int, nbytes: int, rights: int, offset: int) -> int:
        within = _ClientRange(at) if at else None
        try:
            region = self.world.mmap(
                self._fds[fd], nbytes, offset, write=bool(rights & host.PROT_WRITE), within=within
            )
        except OSError as error:
            self.refused[f"mmap of {nbytes:#x} at {offset:#x}: {error}"] += 1
            raise
        if not isinstance(region, HostRegion):
            raise OSError(errno.ENODEV, f"{region} cannot be mapped for a client")
        self._maps[region.cpu_va] = region
        return region.cpu_va

    def _unmap(self, at: int) -> int:
        self._maps.pop(at).close()
        return 0

    def _number(self, path: Any) -> int:
        return self.world.device_number(self._ffi.string(path).decode())

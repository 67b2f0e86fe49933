"""Sleeping on a memory word and waking its sleepers, through libc's `syscall`."""

from __future__ import annotations

import struct
from typing import Final

from drivers.base.contracts import Region, World

# src: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h
_SYS_FUTEX: Final = {"x86_64": 202, "aarch64": 98}
_FUTEX_WAIT_PRIVATE: Final = 0 | 128  # src: include/uapi/linux/futex.h
_FUTEX_WAKE_PRIVATE: Final = 1 | 128
_EVERYBODY: Final = (1 << 31) - 1
_NS_PER_S: Final = 10**9
_TIMESPEC: Final = struct.Struct("=qq")
_SLICES_NS: Final = (50_000_000, 5_000_000, 500_000, 50_000)
"""How long one sleep lasts at most: between two of them Python sees signals and deadlines."""


class Futex:
    """futex(2) on addresses of this process; the GIL is released while asleep."""

    def __init__(self, world: World, arch: str, region: Region, off: int) -> None:
        self._number = _SYS_FUTEX[arch]
        self._syscall = world.function(world.symbol("syscall"), 7)
        self._timespecs_va = region.cpu_va + off
        for index, ns in enumerate(_SLICES_NS):
            packed = _TIMESPEC.pack(*divmod(ns, _NS_PER_S))
            region.write(off + index * _TIMESPEC.size, packed)

    def sleep(self, cpu_va: int, seen: int, longest_s: float) -> None:
        """Until woken, while the uint32 at `cpu_va` is `seen`; about `longest_s`, at most 50 ms."""
        longest_ns = longest_s * _NS_PER_S
        index = next(
            (i for i, ns in enumerate(_SLICES_NS) if ns <= longest_ns), len(_SLICES_NS) - 1
        )
        timespec_va = self._timespecs_va + index * _TIMESPEC.size
        self._syscall(self._number, cpu_va, _FUTEX_WAIT_PRIVATE, seen, timespec_va, 0, 0)

    def wake(self, cpu_va: int) -> None:
        """Wake all sleepers on `cpu_va`."""
        self._syscall(self._number, cpu_va, _FUTEX_WAKE_PRIVATE, _EVERYBODY, 0, 0, 0)

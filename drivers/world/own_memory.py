"""Which memory this process can read and write: its own, on any machine and in any recording."""

from __future__ import annotations

import errno
import os
from typing import Final

from drivers.base.errors import BadArgument
from drivers.base.pages import PAGE_BYTES
from drivers.world.native import memory_at
from drivers.world.own_addresses import MAPS_PATH

_LAST_VA: Final = (1 << 63) - 1


def is_readable(cpu_va: int, nbytes: int) -> bool:
    """Whether this process can read those bytes, on any system.

    The kernel copies a byte of each page into a pipe, and reports an address that is none.
    # src: POSIX write(): EFAULT, as Linux and macOS give it for a buffer outside of the process
    """
    if cpu_va + nbytes > _LAST_VA:
        return False
    first = cpu_va - cpu_va % PAGE_BYTES
    source, target = os.pipe()
    try:
        for page in range(first, cpu_va + nbytes, PAGE_BYTES):
            os.write(target, memory_at(max(page, cpu_va), 1, _nothing))
            os.read(source, 1)
    except OSError as error:
        if error.errno != errno.EFAULT:
            raise
        return False
    finally:
        os.close(source)
        os.close(target)
    return True


def _nothing() -> None:
    """The byte belongs to somebody else."""


def check_mapped(cpu_va: int, nbytes: int, *, writable: bool) -> None:
    """Raises: BadArgument for addresses that this process cannot read (and write, if `writable`).

    A system without /proc does not say what may be written.
    # src: Linux Documentation/filesystems/proc.rst, /proc/PID/maps: "start-end rwxp ...", sorted
    """
    at, end = cpu_va, cpu_va + nbytes
    try:
        with open(MAPS_PATH, encoding="ascii", errors="replace") as maps:
            lines = maps.readlines()
    except FileNotFoundError:
        if not is_readable(cpu_va, nbytes):
            raise _unmapped(cpu_va, nbytes, "there") from None
        return
    for line in lines:
        place, rights = line.split(maxsplit=2)[:2]
        low, _, high = place.partition("-")
        if not int(low, 16) <= at < int(high, 16):
            continue
        if rights[0] != "r":
            break
        if writable and rights[1] != "w":
            raise BadArgument(
                f"{nbytes} bytes at {cpu_va:#x} are read-only ({rights}) from 0x{low} on",
                hint="pass readonly=True",
            )
        at = int(high, 16)
        if at >= end:
            return
    raise _unmapped(cpu_va, nbytes, f"at {at:#x}")


def _unmapped(cpu_va: int, nbytes: int, where: str) -> BadArgument:
    return BadArgument(
        f"{nbytes} bytes at {cpu_va:#x}: this process has no readable memory {where}",
        hint="the owner freed it, or the shape, strides or offset lead outside: pass owner=",
    )

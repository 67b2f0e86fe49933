"""Real memory of this process: memory files, reserved ranges, mappings at fixed places.

C calls go through cffi's backend, which knows the standard integer types without a C parser.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import cache
from typing import Any

import _cffi_backend

PAGE_BYTES = 4096
# src: include/uapi/asm-generic/mman-common.h, include/uapi/linux/mman.h
PROT_NONE, PROT_READ, PROT_WRITE, PROT_EXEC = 0, 1, 2, 4
_MAP_SHARED, _MAP_PRIVATE, _MAP_FIXED = 1, 2, 0x10
_MAP_ANONYMOUS, _MAP_NORESERVE = 0x20, 0x4000
_FAILED = (1 << 64) - 1
_MAX_ARGUMENTS = 12


@cache
def _ffi() -> Any:
    return _cffi_backend.FFI()


@cache
def _library(name: str | None) -> Any:
    return _cffi_backend.load_library(name, 0)


@cache
def _libc(name: str, kind: str) -> Any:
    return _library(None).load_function(_ffi().typeof(kind), name)


def _fail(what: str) -> OSError:
    number = _ffi().errno or errno.EINVAL
    return OSError(number, f"{os.strerror(number)}: {what}")


def pages(nbytes: int) -> int:
    """`nbytes` rounded up to whole pages."""
    return -(-nbytes // PAGE_BYTES) * PAGE_BYTES


def _mmap(at: int, nbytes: int, prot: int, flags: int, fd: int, offset: int) -> int:
    kind = "uint64_t(*)(uint64_t, uint64_t, int, int, int, int64_t)"
    va = int(_libc("mmap", kind)(at, nbytes, prot, flags, fd, offset))
    if va == _FAILED:
        raise _fail(f"mmap {nbytes:#x} bytes")
    return va


def reserve(nbytes: int) -> int:
    """Address space that cannot be accessed, somewhere."""
    flags = _MAP_PRIVATE | _MAP_ANONYMOUS | _MAP_NORESERVE
    return _mmap(0, nbytes, PROT_NONE, flags, -1, 0)


def withdraw(va: int, nbytes: int) -> None:
    """Turn a range that the caller owns back into reserved address space."""
    flags = _MAP_PRIVATE | _MAP_ANONYMOUS | _MAP_NORESERVE | _MAP_FIXED
    _mmap(va, nbytes, PROT_NONE, flags, -1, 0)


def map_file(fd: int, offset: int, nbytes: int, *, at: int = 0, write: bool = True) -> int:
    """Shared mapping of a memory file; `at` is an address the caller owns, or 0 for anywhere."""
    prot = PROT_READ | (PROT_WRITE if write else 0)
    flags = _MAP_SHARED | _MAP_NORESERVE | (_MAP_FIXED if at else 0)
    return _mmap(at, nbytes, prot, flags, fd, offset)


def map_private(fd: int, offset: int, nbytes: int, *, at: int) -> int:
    """A copy of a memory file at an address the caller owns: stores go nowhere else."""
    flags = _MAP_PRIVATE | _MAP_NORESERVE | _MAP_FIXED
    return _mmap(at, nbytes, PROT_READ | PROT_WRITE, flags, fd, offset)


def map_anonymous(nbytes: int, *, at: int = 0, write: bool = True) -> int:
    """Fresh zeroed memory."""
    prot = PROT_READ | (PROT_WRITE if write else 0)
    flags = _MAP_PRIVATE | _MAP_ANONYMOUS | (_MAP_FIXED if at else 0)
    return _mmap(at, nbytes, prot, flags, -1, 0)


def unmap(va: int, nbytes: int) -> None:
    """munmap(2)."""
    if _libc("munmap", "int(*)(uint64_t, uint64_t)")(va, nbytes):
        raise _fail(f"munmap {va:#x}+{nbytes:#x}")


def protect(va: int, nbytes: int, prot: int) -> None:
    """mprotect(2)."""
    if _libc("mprotect", "int(*)(uint64_t, uint64_t, int)")(va, nbytes, prot):
        raise _fail(f"mprotect {va:#x}+{nbytes:#x}")


def memory_file(name: str, nbytes: int) -> int:
    """A sparse memory file: pages exist once they are written."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    os.ftruncate(fd, nbytes)
    return fd


def punch(fd: int, offset: int, nbytes: int) -> None:
    """Give pages of a memory file back; they read as zeros."""
    # src: include/uapi/linux/falloc.h FALLOC_FL_KEEP_SIZE 1, FALLOC_FL_PUNCH_HOLE 2
    if _libc("fallocate", "int(*)(int, int, int64_t, int64_t)")(fd, 3, offset, nbytes):
        raise _fail(f"punch {nbytes:#x} bytes")


def mapped(va: int, nbytes: int) -> bool:
    """Whether every page of a range is mapped, accessible or not."""
    start = va & -PAGE_BYTES
    if nbytes <= 0 or start <= 0 or va + nbytes >= 1 << 47:
        return False
    length = pages(va + nbytes - start)
    answer = bytearray(length // PAGE_BYTES)
    kind = "int(*)(uint64_t, uint64_t, uint64_t)"
    found = int(_ffi().cast("uintptr_t", _ffi().from_buffer(answer)))
    return not _libc("mincore", kind)(start, length, found)


def view(va: int, nbytes: int) -> memoryview:
    """The bytes at an address, which the caller knows to be mapped."""
    return memoryview(_ffi().buffer(_ffi().cast("char *", va), nbytes))


@cache
def _probe() -> int:
    return memory_file("probe", PAGE_BYTES)


def readable(va: int, nbytes: int) -> bool:
    """Whether a range can be read; its first and last byte are tried by a system call."""
    if not mapped(va, nbytes):
        return False
    try:
        os.pwrite(_probe(), view(va, 1), 0)
        os.pwrite(_probe(), view(va + nbytes - 1, 1), 0)
    except OSError as error:
        if error.errno != errno.EFAULT:
            raise
        return False
    return True


def writable(va: int, nbytes: int) -> bool:
    """Whether the process may write to all of a range, which it knows to be mapped."""
    end = va + nbytes
    with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
        for line in maps:  # src: Documentation/filesystems/proc.rst: "start-end rwxp ...", sorted
            bounds, permissions = line.split(maxsplit=2)[:2]
            start, stop = (int(bound, 16) for bound in bounds.split("-"))
            if start <= va < stop:
                if permissions[1] != "w":
                    return False
                va = stop
            if va >= end:
                return True
    return False


def user_bytes(va: int, nbytes: int) -> memoryview:
    """What copy_from_user reaches: to be read. Raises: OSError EFAULT."""
    if not readable(va, nbytes):
        raise OSError(errno.EFAULT, f"no memory of this process at {va:#x}+{nbytes:#x}")
    return view(va, nbytes).toreadonly()


def copy_to_user(va: int, data: bytes) -> None:
    """Store in memory of the process, as a kernel does. Raises: OSError EFAULT."""
    file = memory_file("copy", len(data))
    try:
        os.pwrite(file, data, 0)
        if os.preadv(file, [view(va, len(data))], 0) < len(data):
            raise OSError(errno.EFAULT, f"the process cannot write to {va:#x}+{len(data):#x}")
    finally:
        os.close(file)


def symbol(name: str) -> int:
    """Address of a C function. Raises: OSError ENOENT."""
    for library in (None, "libm.so.6"):
        try:
            found = _library(library).load_function(_ffi().typeof("uint64_t(*)(uint64_t)"), name)
        except (AttributeError, OSError):
            continue
        return int(_ffi().cast("uintptr_t", found))
    raise OSError(errno.ENOENT, f"no C library here has a function {name!r}")


def function(address: int, nargs: int) -> Callable[..., int]:
    """Machine code at `address` as a callable of `nargs` uint64."""
    if not 0 < address < 1 << 64 or not 0 <= nargs <= _MAX_ARGUMENTS:
        raise OSError(errno.EINVAL, f"{nargs} arguments at {address:#x}")
    parameters = ", ".join(["uint64_t"] * nargs) or "void"
    code: Callable[..., int] = _ffi().cast(f"uint64_t(*)({parameters})", address)
    return code

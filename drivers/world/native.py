"""C calls of this process through cffi's backend: symbols, machine code, mmap, mprotect.

`_cffi_backend` is cffi without its C parser: it knows the standard integer types, which is all
that is needed here, and imports in 1 ms where `import cffi` with a cdef takes 35 ms.
"""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

import _cffi_backend

from drivers.base.errors import NotFound
from drivers.base.oserrors import translate
from drivers.base.oshints import EXECUTE

# src: include/uapi/asm-generic/mman-common.h, mman.h, include/uapi/linux/mman.h
PROT_READ, PROT_WRITE, PROT_EXEC = 1, 2, 4
MAP_SHARED, MAP_PRIVATE, MAP_FIXED, MAP_ANONYMOUS, MAP_NORESERVE = 1, 2, 0x10, 0x20, 0x4000
_LOCKED, _POPULATE, _HUGETLB, _2_MIB = 0x2000, 0x8000, 0x4_0000, 21 << 26
MAP_HUGE = _LOCKED | _POPULATE | _HUGETLB | _2_MIB
"""Pages of 2 MiB from the kernel's pool, all of them now, never swapped."""
_FAILED = (1 << 64) - 1
MAX_ARGUMENTS = 12
_LIBRARIES = (None, "libm.so.6", "libm.so", "libgcc_s.so.1")
"""Where C functions are looked up: this process (libc), then libm, then the compiler's runtime."""


@cache
def _ffi() -> Any:
    return _cffi_backend.FFI()


@cache
def _library(name: str | None) -> Any:
    return _cffi_backend.load_library(name, 0)


@cache
def _function_type(nargs: int) -> Any:
    if not 0 <= nargs <= MAX_ARGUMENTS:
        raise ValueError(f"{nargs} arguments: at most {MAX_ARGUMENTS} uint64 are passed")
    return _ffi().typeof(f"uint64_t(*)({', '.join(['uint64_t'] * nargs) or 'void'})")


@cache
def symbol(name: str) -> int:
    """Address of the C function `name`. Raises: NotFound."""
    if name.isascii() and name.isidentifier():
        for library in _LIBRARIES:
            address = _lookup(library, name)
            if address:
                return address
    raise NotFound(
        f"no C library here has a function {name!r}",
        hint="compile without it, or report the name",
    )


def _lookup(library: str | None, name: str) -> int:
    """Address of `name` in one library, 0 when the library or the name is not there."""
    try:
        found = _library(library).load_function(_function_type(1), name)
    except (AttributeError, OSError):
        return 0
    return int(_ffi().cast("uintptr_t", found))


def function(address: int, nargs: int) -> Callable[..., int]:
    """Machine code at `address` as a callable of `nargs` uint64, the GIL released inside."""
    if not 0 < address < 1 << 64:
        raise ValueError(f"{address:#x} is not the address of a function")
    code: Callable[..., int] = _ffi().cast(_function_type(nargs), address)
    return code


def address_of(memory: Any) -> int:
    """Host virtual address of byte 0 of a buffer, which the caller keeps alive."""
    ffi = _ffi()
    return int(ffi.cast("uintptr_t", ffi.from_buffer(memory)))


@cache
def _mprotect() -> Any:
    kind = _ffi().typeof("int(*)(uint64_t, uint64_t, int)")
    return _library(None).load_function(kind, "mprotect")


def protect(cpu_va: int, nbytes: int, flags: int) -> None:
    """mprotect(2). Raises: the translated errno."""
    if _mprotect()(cpu_va, nbytes, flags):
        number = _ffi().errno or errno.EINVAL
        cause = OSError(number, os.strerror(number))
        what = f"{EXECUTE}: mprotect" if flags & PROT_EXEC else "mprotect"
        raise translate(cause, f"{what} {cpu_va:#x}+{nbytes:#x}", nbytes) from cause


@cache
def _call(name: str, signature: str) -> Any:
    return _library(None).load_function(_ffi().typeof(signature), name)


def map_memory(
    address: int, nbytes: int, prot: int, flags: int, fd: int = -1, offset: int = 0
) -> int:
    """mmap(2) with every argument; the mapping's address. Raises: the translated errno."""
    mmap = _call("mmap", "uint64_t(*)(uint64_t, uint64_t, int, int, int, uint64_t)")
    found: int = mmap(address, nbytes, prot, flags, fd, offset)
    if found == _FAILED:
        number = _ffi().errno or errno.EINVAL
        cause = OSError(number, os.strerror(number))
        raise translate(cause, f"mmap {nbytes} bytes of descriptor {fd}", nbytes) from cause
    return found


def unmap_memory(address: int, nbytes: int) -> None:
    """munmap(2). Raises: the translated errno."""
    if _call("munmap", "int(*)(uint64_t, uint64_t)")(address, nbytes):
        number = _ffi().errno or errno.EINVAL
        cause = OSError(number, os.strerror(number))
        raise translate(cause, f"munmap {address:#x}+{nbytes:#x}") from cause


def memory_at(address: int, nbytes: int, when_gone: Callable[[], object]) -> memoryview:
    """The bytes at an address; `when_gone` runs when the last view of them is gone."""
    ffi = _ffi()
    memory = ffi.buffer(ffi.cast("char *", address), nbytes)
    weakref.finalize(memory, when_gone).atexit = False
    return memoryview(memory)


def callback(
    signature: str, called: Callable[..., object], raised: Callable[[BaseException], object]
) -> tuple[int, object]:
    """A C function that calls `called`: (its address, what keeps it callable).

    It runs on whichever thread calls it. What `called` raises, Ctrl-C among it, is given to
    `raised` for whoever made the C call: C passes no exception on. Raises: Denied.
    """
    ffi = _ffi()

    def keep(_: object, error: BaseException, __: object) -> None:
        raised(error)

    try:
        made = ffi.callback(signature, called, onerror=keep)
    except MemoryError as error:  # src: cffi issue 73: SELinux and PaX refuse libffi's memory
        cause = OSError(errno.EACCES, os.strerror(errno.EACCES))
        raise translate(cause, f"{EXECUTE}: a callback of C") from error
    return int(ffi.cast("uintptr_t", made)), made

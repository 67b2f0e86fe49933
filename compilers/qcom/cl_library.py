"""The system's OpenCL library, where it is Qualcomm's: source to its container, within bounds.

Another vendor's containers are of another kind, so its library is refused, and so is one for
another GPU than the target. Nothing here has called Qualcomm's library.
# src: KhronosGroup/OpenCL-Headers, CL/cl.h (prototypes, numbers)
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from drivers.base.errors import CompileError, DeviceError, NotFound, Unsupported

PATHS: Final = (
    "/vendor/lib64/libOpenCL.so",
    "/system/vendor/lib64/libOpenCL.so",
    "/usr/lib/aarch64-linux-gnu/libOpenCL.so.1",
    "/usr/lib/libOpenCL.so.1",
    "/usr/lib64/libOpenCL.so.1",
)
"""Android's places, then those of Linux, where the library may be a loader of several vendors'."""
VENDOR: Final = "QUALCOMM"
TEXT_LIMIT_BYTES: Final = 4096
LOG_LIMIT_BYTES: Final = 1 << 20
CONTAINER_LIMIT_BYTES: Final = 16 << 20
SOURCE_LIMIT_BYTES: Final = 16 << 20
MOST_PLATFORMS: Final = 16
HINT: Final = "Use QCOM_IR3=1, this stack's own code generator"
_GPU: Final = re.compile(r"Adreno\(TM\) (\d{3})\b")
"""In CL_DEVICE_VERSION: "OpenCL 2.0 Adreno(TM) 630"."""
_PLATFORM_VENDOR, _DEVICE_VERSION, _TYPE_GPU = 0x0903, 0x102F, 1 << 2
_BUILD_LOG, _BINARY_SIZES, _BINARIES = 0x1183, 0x1165, 0x1166
DECLARATIONS: Final = """
typedef void *handle_t;
int clGetPlatformIDs(unsigned int room, handle_t *platforms, unsigned int *count);
int clGetPlatformInfo(handle_t platform, unsigned int what, size_t room, void *to, size_t *nbytes);
int clGetDeviceIDs(handle_t platform, uint64_t kind, unsigned int room, handle_t *devices,
                   unsigned int *count);
int clGetDeviceInfo(handle_t device, unsigned int what, size_t room, void *to, size_t *nbytes);
handle_t clCreateContext(const intptr_t *properties, unsigned int count, const handle_t *devices,
                         void *notify, void *user, int *status);
int clReleaseContext(handle_t context);
handle_t clCreateProgramWithSource(handle_t context, unsigned int count, const char **texts,
                                   const size_t *sizes, int *status);
int clReleaseProgram(handle_t program);
int clBuildProgram(handle_t program, unsigned int count, const handle_t *devices,
                   const char *options, void *notify, void *user);
int clGetProgramInfo(handle_t program, unsigned int what, size_t room, void *to, size_t *nbytes);
int clGetProgramBuildInfo(handle_t program, handle_t device, unsigned int what, size_t room,
                          void *to, size_t *nbytes);
"""


@dataclass(frozen=True, slots=True)
class Library:
    """The opened library, and its GPU."""

    ffi: Any
    calls: Any
    device: Any
    version: str
    """Of the device: "OpenCL 2.0 Adreno(TM) 630"."""


def find() -> str:
    """The library's path. Raises: NotFound."""
    for path in PATHS:
        if os.path.isfile(path):
            return os.path.realpath(path)
    raise NotFound(f"no OpenCL library at {', '.join(PATHS)}", hint=HINT)


def identity() -> bytes:
    """Identity of the installed library, without loading it. Raises: NotFound."""
    path = find()
    facts = os.stat(path)
    return f"{path} {facts.st_size} {facts.st_mtime_ns}".encode()


@cache
def library() -> Library:
    """The library, opened once. Raises: NotFound, Unsupported."""
    from cffi import FFI

    path, ffi = find(), FFI()
    ffi.cdef(DECLARATIONS)
    try:
        calls: Any = ffi.dlopen(path, os.RTLD_NOW | os.RTLD_NODELETE)
    except OSError as error:
        raise NotFound(f"{path} cannot be loaded: {error}", hint=HINT) from error
    return opened(ffi, calls, path)


def opened(ffi: Any, calls: Any, path: str) -> Library:
    """A library's one platform and GPU. Raises: Unsupported for another vendor's; NotFound."""
    platforms, count = ffi.new("handle_t[]", MOST_PLATFORMS), ffi.new("unsigned int *")
    _check(calls.clGetPlatformIDs(MOST_PLATFORMS, platforms, count), "clGetPlatformIDs")
    seen = []
    for platform in platforms[0 : min(count[0], MOST_PLATFORMS)]:
        get = _getter(calls.clGetPlatformInfo, platform)
        vendor = _text(ffi, get, _PLATFORM_VENDOR, "vendor of a platform")
        if vendor.upper().startswith(VENDOR):
            return _with_gpu(ffi, calls, platform, path)
        seen.append(repr(vendor))
    raise Unsupported(
        f"{path} is OpenCL of {', '.join(seen) or 'no vendor'}, not of Qualcomm's", hint=HINT
    )


def _with_gpu(ffi: Any, calls: Any, platform: Any, path: str) -> Library:
    device, count = ffi.new("handle_t[]", 1), ffi.new("unsigned int *")
    _check(calls.clGetDeviceIDs(platform, _TYPE_GPU, 1, device, count), "clGetDeviceIDs")
    if not count[0]:
        raise NotFound(f"{path} has no GPU", hint=HINT)
    get = _getter(calls.clGetDeviceInfo, device[0])
    version = _text(ffi, get, _DEVICE_VERSION, "version of a device")
    return Library(ffi, calls, device[0], version)


def compiled(source: str, arch: str) -> bytes:
    """The container that the compiler makes of a program.

    Raises: CompileError with the build log and the source, Unsupported, NotFound.
    """
    found = library()
    ffi, calls = found.ffi, found.calls
    gpu = _GPU.search(found.version)
    if gpu is None or f"a{gpu[1]}" != arch:
        raise Unsupported(
            f"the OpenCL library compiles for {found.version!r}, not for {arch}", hint=HINT
        )
    text = source.encode()
    if len(text) > SOURCE_LIMIT_BYTES:
        raise Unsupported(f"a source of {len(text)} bytes", hint=HINT)
    with ExitStack() as stack:
        status, devices = ffi.new("int *"), ffi.new("handle_t[]", [found.device])
        context = calls.clCreateContext(ffi.NULL, 1, devices, ffi.NULL, ffi.NULL, status)
        _check(status[0], "clCreateContext")
        stack.callback(calls.clReleaseContext, context)
        held, size = ffi.new("char[]", text), ffi.new("size_t[]", [len(text)])
        texts = ffi.new("const char *[]", [held])
        program = calls.clCreateProgramWithSource(context, 1, texts, size, status)
        _check(status[0], "clCreateProgramWithSource")
        stack.callback(calls.clReleaseProgram, program)
        result = calls.clBuildProgram(program, 1, devices, b"", ffi.NULL, ffi.NULL)
        if result:
            raise _refused(found, program, result, source)
        return _container(found, program)


def _refused(found: Library, program: Any, result: int, source: str) -> CompileError:
    """The error of a build, with what the compiler says."""
    get = _getter(found.calls.clGetProgramBuildInfo, program, found.device)
    log = _bytes(found.ffi, get, _BUILD_LOG, LOG_LIMIT_BYTES, "build log").rstrip(b"\0")
    text = log.decode("utf-8", "replace")
    first = next((line for line in text.splitlines() if "error" in line), f"status {result}")
    return CompileError(
        f"Qualcomm's OpenCL compiler fails: {first}", log=text or f"status {result}",
        source=source, hint="The error's `log` and `source` hold the rest",
    )  # fmt: skip


def _container(found: Library, program: Any) -> bytes:
    ffi, info = found.ffi, found.calls.clGetProgramInfo
    size, got = ffi.new("size_t[]", 1), ffi.new("size_t *")
    _check(info(program, _BINARY_SIZES, ffi.sizeof("size_t"), size, got), "size of a program")
    if not 0 < size[0] <= CONTAINER_LIMIT_BYTES:
        raise Unsupported(f"a program of {size[0]} bytes", hint=HINT)
    room = ffi.new("unsigned char[]", size[0])
    places = ffi.new("unsigned char *[]", [room])
    _check(info(program, _BINARIES, ffi.sizeof("void *"), places, got), "code of a program")
    return bytes(ffi.buffer(room))


Get = Callable[[int, int, Any, Any], int]


def _getter(call: Callable[..., int], *objects: Any) -> Get:
    """A clGet...Info of these objects."""
    return lambda what, room, to, nbytes: call(*objects, what, room, to, nbytes)


def _bytes(ffi: Any, get: Get, what: int, limit: int, name: str) -> bytes:
    """What a clGet...Info returns. Raises: Unsupported for more than `limit` bytes."""
    nbytes = ffi.new("size_t *")
    _check(get(what, 0, ffi.NULL, nbytes), name)
    if nbytes[0] > limit:
        raise Unsupported(f"{name}: {nbytes[0]} bytes, more than {limit}", hint=HINT)
    room = ffi.new("char[]", max(nbytes[0], 1))
    _check(get(what, nbytes[0], room, ffi.NULL), name)
    return bytes(ffi.buffer(room, nbytes[0]))


def _text(ffi: Any, get: Get, what: int, name: str) -> str:
    return _bytes(ffi, get, what, TEXT_LIMIT_BYTES, name).rstrip(b"\0").decode("ascii", "replace")


def _check(status: int, what: str) -> None:
    """Raises: DeviceError for a status that is not 0."""
    if status:
        raise DeviceError(f"OpenCL: {what} fails with {status}", hint=HINT)

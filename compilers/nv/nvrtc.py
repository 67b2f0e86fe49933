"""CUDA C++ to a cubin, through NVIDIA's nvrtc: in this process, without a GPU or a driver.

Source: nvrtc.h of CUDA 12 and 13; "NVRTC", CUDA Toolkit documentation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any, Final

from compilers.nv import libraries
from compilers.nv.libraries import opened, text_of
from compilers.nv.targets import nv_target
from drivers.base.errors import CompileError, Unsupported

NAMES: Final = ("libnvrtc.so.13", "libnvrtc.so.12")
OPTIONS: Final = (
    "-std=c++17",
    "-fmad=false",
    "-ftz=false",
    "-prec-div=true",
    "-prec-sqrt=true",
    "-default-device",
)
"""Never fast-math; a product and a sum are never one operation."""
LOG_LIMIT_BYTES: Final = 1 << 20
OBJECT_LIMIT_BYTES: Final = 16 << 20
_SOURCE_NAME: Final = "kernel.cu"
_DECLARATIONS: Final = """
typedef void *program_t;
int nvrtcVersion(int *major, int *minor);
int nvrtcGetNumSupportedArchs(int *count);
int nvrtcGetSupportedArchs(int *archs);
const char *nvrtcGetErrorString(int result);
int nvrtcCreateProgram(program_t *program, const char *source, const char *name, int headers,
  const char *const *contents, const char *const *names);
int nvrtcDestroyProgram(program_t *program);
int nvrtcCompileProgram(program_t program, int count, const char *const *options);
int nvrtcGetProgramLogSize(program_t program, size_t *nbytes);
int nvrtcGetProgramLog(program_t program, char *text);
int nvrtcGetCUBINSize(program_t program, size_t *nbytes);
int nvrtcGetCUBIN(program_t program, char *content);
"""

identity = partial(libraries.identity, NAMES)
"""Identity of the installed nvrtc, without loading it."""


def version() -> tuple[int, int]:
    """(major, minor) of the library. Raises: NotFound."""
    ffi, calls = opened(NAMES, _DECLARATIONS)
    major, minor = ffi.new("int *"), ffi.new("int *")
    calls.nvrtcVersion(major, minor)
    return int(major[0]), int(minor[0])


@cache
def known() -> frozenset[int]:
    """The compute capabilities that the library compiles for."""
    ffi, calls = opened(NAMES, _DECLARATIONS)
    count = ffi.new("int *")
    calls.nvrtcGetNumSupportedArchs(count)
    found = ffi.new("int[]", max(count[0], 1))
    calls.nvrtcGetSupportedArchs(found)
    return frozenset(found[0 : count[0]])


def compile_object(source: str, arch: str, features: frozenset[str]) -> bytes:
    """Compile one translation unit; never with fast-math.

    Raises: CompileError with the compiler's log and the source; Unsupported; NotFound.
    """
    target = nv_target(arch)
    ffi, calls = opened(NAMES, _DECLARATIONS)
    if target.sm not in known():
        numbers = ", ".join(f"sm_{sm}" for sm in sorted(known()))
        raise Unsupported(
            f"nvrtc {'.'.join(map(str, version()))} does not compile for {arch}",
            hint=f"It knows {numbers}; install another, or use NV_PTX=1",
        )
    if "\0" in source:  # the compiler would stop there without an error
        raise CompileError("the source has a NUL in it", source=source, log="NUL in the text")
    program = ffi.new("program_t *")
    made = calls.nvrtcCreateProgram(
        program, source.encode(), _SOURCE_NAME.encode(), 0, ffi.NULL, ffi.NULL
    )
    if made:
        raise _failed(ffi, calls, made, "", source)
    try:
        return _compiled(ffi, calls, program[0], source, (f"-arch={arch}", *OPTIONS))
    finally:
        calls.nvrtcDestroyProgram(program)


def _compiled(ffi: Any, calls: Any, program: Any, source: str, options: Sequence[str]) -> bytes:
    words = [ffi.new("char[]", option.encode()) for option in options]
    done = calls.nvrtcCompileProgram(program, len(words), words)
    if done:
        size, log = ffi.new("size_t *"), ""
        if calls.nvrtcGetProgramLogSize(program, size) == 0 and size[0] <= LOG_LIMIT_BYTES:
            raw = ffi.new("char[]", size[0] + 1)
            calls.nvrtcGetProgramLog(program, raw)
            log = text_of(ffi, raw)
        raise _failed(ffi, calls, done, log, source)
    size = ffi.new("size_t *")
    failed = calls.nvrtcGetCUBINSize(program, size)
    if failed or not 0 < size[0] <= OBJECT_LIMIT_BYTES:
        raise _failed(ffi, calls, failed, f"a cubin of {size[0]} bytes", source)
    content = ffi.new("char[]", size[0])
    failed = calls.nvrtcGetCUBIN(program, content)
    if failed:
        raise _failed(ffi, calls, failed, "", source)
    return bytes(ffi.buffer(content, size[0]))


def _failed(ffi: Any, calls: Any, result: int, log: str, source: str) -> CompileError:
    reason = text_of(ffi, calls.nvrtcGetErrorString(result))
    first = next((line for line in log.splitlines() if "error" in line), reason)
    return CompileError(
        f"nvrtc rejects the kernel: {first}",
        log=log or reason,
        source=source,
        hint="The error's `log` and `source` hold the rest",
    )

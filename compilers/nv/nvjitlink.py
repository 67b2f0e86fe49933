"""PTX to a cubin, through NVIDIA's nvJitLink: in this process, without a GPU or a driver.

Source: nvJitLink.h of CUDA 12 and 13. Its functions carry the version of the interface in their
names: __nvJitLinkCreate_13_0.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, Final

from compilers.nv import libraries
from compilers.nv.libraries import text_of
from compilers.nv.targets import nv_target
from drivers.base.errors import CompileError, NotFound

NAMES: Final = ("libnvJitLink.so.13", "libnvJitLink.so.12")
OPTIONS: Final = ("-O3", "-ftz=0", "-prec-div=1", "-prec-sqrt=1", "-fma=0")
LOG_LIMIT_BYTES: Final = 1 << 20
OBJECT_LIMIT_BYTES: Final = 16 << 20
INPUT_PTX: Final = 2
"""# src: nvJitLink.h, NVJITLINK_INPUT_PTX"""
_VERSIONS: Final = {"13": "13_0", "12": "12_0"}
_DECLARATIONS: Final = """
typedef void *linker_t;
int __nvJitLinkCreate_{0}(linker_t *linker, uint32_t count, const char **options);
int __nvJitLinkDestroy_{0}(linker_t *linker);
int __nvJitLinkAddData_{0}(linker_t linker, int kind, const void *data, size_t nbytes,
  const char *name);
int __nvJitLinkComplete_{0}(linker_t linker);
int __nvJitLinkGetLinkedCubinSize_{0}(linker_t linker, size_t *nbytes);
int __nvJitLinkGetLinkedCubin_{0}(linker_t linker, void *content);
int __nvJitLinkGetErrorLogSize_{0}(linker_t linker, size_t *nbytes);
int __nvJitLinkGetErrorLog_{0}(linker_t linker, char *text);
"""

identity = partial(libraries.identity, NAMES)
"""Identity of the installed nvJitLink, without loading it."""


@cache
def _library() -> _Calls:
    path = libraries.find(NAMES)
    version = _VERSIONS[path.rpartition(".")[2]]
    ffi, calls = libraries.opened(NAMES, _DECLARATIONS.format(version))
    return _Calls(ffi, calls, version)


class _Calls:
    """The functions of one version, by their plain names."""

    def __init__(self, ffi: Any, calls: Any, version: str) -> None:
        self.ffi, self._calls, self._version = ffi, calls, version

    def __call__(self, name: str, *args: Any) -> int:
        symbol = f"__nvJitLink{name}_{self._version}"
        try:
            return int(getattr(self._calls, symbol)(*args))
        except AttributeError as error:
            raise NotFound(f"nvJitLink has no {symbol}", hint=libraries.HINT) from error


def assembled(ptx: str, arch: str) -> bytes:
    """The cubin of a PTX text. Raises: CompileError with the log and the PTX; NotFound."""
    nv_target(arch)
    call = _library()
    ffi = call.ffi
    words = [ffi.new("char[]", option.encode()) for option in (f"-arch={arch}", *OPTIONS)]
    linker = ffi.new("linker_t *")
    listed = ffi.new("const char *[]", words)
    _check(call, call("Create", linker, len(words), listed), "options", linker, ptx)
    try:
        text = ptx.encode()
        added = call("AddData", linker[0], INPUT_PTX, text, len(text) + 1, b"kernel.ptx")
        _check(call, added, "input", linker, ptx)
        _check(call, call("Complete", linker[0]), "assembly", linker, ptx)
        size = ffi.new("size_t *")
        _check(call, call("GetLinkedCubinSize", linker[0], size), "result", linker, ptx)
        if not 0 < size[0] <= OBJECT_LIMIT_BYTES:
            raise CompileError(f"nvJitLink gives a cubin of {size[0]} bytes", source=ptx)
        content = ffi.new("char[]", size[0])
        _check(call, call("GetLinkedCubin", linker[0], content), "result", linker, ptx)
        return bytes(ffi.buffer(content, size[0]))
    finally:
        call("Destroy", linker)


def _check(call: _Calls, status: int, what: str, linker: Any, ptx: str) -> None:
    """Raises: CompileError for any status but success."""
    if status == 0:
        return
    ffi, log = call.ffi, ""
    size = ffi.new("size_t *")
    known = linker[0] != ffi.NULL and call("GetErrorLogSize", linker[0], size) == 0
    if known and 0 < size[0] <= LOG_LIMIT_BYTES:
        raw = ffi.new("char[]", size[0] + 1)
        call("GetErrorLog", linker[0], raw)
        log = text_of(ffi, raw)
    first = next((line for line in log.splitlines() if line.strip()), f"status {status}")
    raise CompileError(
        f"nvJitLink's {what} fails: {first}",
        log=log or str(status),
        source=ptx,
        hint="The error's `log` and `source` hold the rest",
    )

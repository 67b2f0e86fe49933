"""HIP source to a code object for an AMD GPU, through COMGR (AMD_HIP=1), without device libraries.

Kernels are `extern "C" __global__`. Neither HIP's headers nor its device libraries are needed: the
few words of the language that are macros there are defined here.
COMGR 2.x compiles in temporary files of its own; only its results in memory are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from compilers.amd import comgr_abi as abi
from compilers.amd.comgr_abi import Library, library
from drivers.base.errors import CompileError, Unsupported

identity = abi.identity
"""Identity of the installed COMGR, found without loading it."""

SOURCE_NAME: Final = "kernel.hip"
LOG_LIMIT_BYTES: Final = 1 << 20
OBJECT_LIMIT_BYTES: Final = 16 << 20
PROLOGUE: Final = f"""\
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(lanes) __attribute__((amdgpu_flat_work_group_size(1, lanes)))
#define __syncthreads() (__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"), \\
  __builtin_amdgcn_s_barrier(), __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"))
#line 1 "{SOURCE_NAME}"
"""
_OPTIONS: Final = (
    "-O3",
    "-nogpuinc",
    "-nogpulib",
    "-std=c++17",
    "-ffp-contract=off",
    "-fwrapv",
    "-fno-math-errno",
    "-mcode-object-version=5",
)


def compile_object(source: str, arch: str, features: frozenset[str]) -> bytes:
    """Compile one translation unit to a relocatable code object; never with fast-math.

    Raises: CompileError with clang's log and the source; Unsupported; NotFound.
    """
    from compilers.amd.targets import amd_target

    target = amd_target(arch)
    found = library()
    if target.isa not in found.isas:
        known = ", ".join(sorted(name.rpartition("-")[2] for name in found.isas))
        raise Unsupported(
            f"COMGR {found.version[0]}.{found.version[1]} does not compile for {arch}",
            hint=f"It knows {known}; install a newer one, or use AMD_LLVM=1",
        )
    machine = [f"-m{name}" for name in target.known(features)]
    if "\0" in source:
        raise CompileError("the source has a NUL in it", source=source, log="NUL in the text")
    with ExitStack() as stack:
        session = _Session(found, target.isa, source, stack)
        text = (PROLOGUE + source).encode()
        given = session.input(abi.DATA_SOURCE, SOURCE_NAME, text)
        numbers = found.numbers
        bitcode = session.act(numbers.compile_to_bc, given, [*_OPTIONS, *machine])
        done = session.act(numbers.codegen_to_relocatable, bitcode, ["-O3"])
        return session.result(done, abi.DATA_RELOCATABLE)


def link_object(blob: bytes, arch: str) -> bytes:
    """A relocatable code object, linked into an executable one. Raises: as compile_object."""
    from compilers.amd.targets import amd_target

    found = library()
    with ExitStack() as stack:
        session = _Session(found, amd_target(arch).isa, "", stack)
        given = session.input(abi.DATA_RELOCATABLE, "kernel.o", blob)
        done = session.act(found.numbers.link_to_executable, given, [])
        return session.result(done, abi.DATA_EXECUTABLE)


class _Session:
    """The COMGR objects of one compilation; `stack` destroys them."""

    def __init__(self, found: Library, isa: str, source: str, stack: ExitStack) -> None:
        self.ffi, self.calls, self.numbers = found.ffi, found.calls, found.numbers
        self.isa, self.source, self.stack = isa, source, stack

    def check(self, status: int, what: str, log: str = "") -> None:
        """Raises: CompileError for any status but success."""
        if status == 0:
            return
        text = self.ffi.new("const char **")
        known = self.calls.amd_comgr_status_string(status, text) == 0
        reason = self.ffi.string(text[0]).decode("ascii", "replace") if known else str(status)
        first = next((line for line in log.splitlines() if "error" in line), reason)
        raise CompileError(
            f"COMGR's {what} fails: {first}",
            log=log or reason,
            source=self.source,
            hint="The error's `log` and `source` hold the rest",
        )

    def set(self) -> Any:
        """An empty data set, destroyed with the session."""
        handle = self.ffi.new("data_set_t *")
        self.check(self.calls.amd_comgr_create_data_set(handle), "data set")
        self.stack.callback(self.calls.amd_comgr_destroy_data_set, handle[0])
        return handle[0]

    def input(self, kind: int, name: str, content: bytes) -> Any:
        """A data set with one piece of data in it."""
        handle, group = self.ffi.new("data_t *"), self.set()
        self.check(self.calls.amd_comgr_create_data(kind, handle), "data")
        self.stack.callback(self.calls.amd_comgr_release_data, handle[0])
        raw = self.ffi.from_buffer(content)
        self.check(self.calls.amd_comgr_set_data(handle[0], len(content), raw), "data")
        self.check(self.calls.amd_comgr_set_data_name(handle[0], name.encode()), "data name")
        self.check(self.calls.amd_comgr_data_set_add(group, handle[0]), "data set")
        return group

    @contextmanager
    def _info(self, options: Sequence[str]) -> Iterator[Any]:
        handle = self.ffi.new("action_info_t *")
        self.check(self.calls.amd_comgr_create_action_info(handle), "action")
        try:
            info, calls = handle[0], self.calls
            self.check(calls.amd_comgr_action_info_set_isa_name(info, self.isa.encode()), "isa")
            language = self.numbers.language_hip
            self.check(calls.amd_comgr_action_info_set_language(info, language), "language")
            self.check(calls.amd_comgr_action_info_set_logging(info, True), "logging")
            words = [self.ffi.new("char[]", option.encode()) for option in options]
            listed = self.ffi.new("const char *[]", words)
            self.check(
                calls.amd_comgr_action_info_set_option_list(info, listed, len(words)), "options"
            )
            yield info
        finally:
            self.calls.amd_comgr_destroy_action_info(handle[0])

    def act(self, kind: int, given: Any, options: Sequence[str]) -> Any:
        """Perform one action; the data set of its results."""
        results = self.set()
        with self._info(options) as info:
            status = self.calls.amd_comgr_do_action(kind, info, given, results)
        log = b"\n".join(self._all(results, abi.DATA_LOG, LOG_LIMIT_BYTES))
        self.check(status, f"action {kind}", log.decode(errors="replace"))
        return results

    def result(self, results: Any, kind: int) -> bytes:
        """The one piece of data of that kind."""
        found = list(self._all(results, kind, OBJECT_LIMIT_BYTES))
        if len(found) != 1:
            raise CompileError(f"COMGR gave {len(found)} results", source=self.source)
        return found[0]

    def _all(self, results: Any, kind: int, limit_bytes: int) -> Iterator[bytes]:
        count, handle, size = (self.ffi.new(f"{t} *") for t in ("size_t", "data_t", "size_t"))
        self.check(self.calls.amd_comgr_action_data_count(results, kind, count), "results")
        for index in range(count[0]):
            got = self.calls.amd_comgr_action_data_get_data(results, kind, index, handle)
            self.check(got, "result")
            try:
                self.check(self.calls.amd_comgr_get_data(handle[0], size, self.ffi.NULL), "size")
                size[0] = min(size[0], limit_bytes)
                content = self.ffi.new("char[]", max(size[0], 1))
                self.check(self.calls.amd_comgr_get_data(handle[0], size, content), "result")
                yield self.ffi.buffer(content, size[0])[:]
            finally:
                self.calls.amd_comgr_release_data(handle[0])

"""AMD machine code as text, by LLVM's own disassembler (libLLVM's C API): for tools and tests.

The library is optional: Debian's libllvm19 knows every chip but gfx950. It is not the LLVM of
llvmlite, which has no disassembler.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from compilers.amd.targets import TRIPLE, amd_target
from compilers.instruction import Instruction
from drivers.base.contracts import Binary
from drivers.base.errors import NotFound, Unsupported
from queues.amd.kernel_code import AmdCode

PACKAGE: Final = "libllvm19"
"""Debian's package."""
DIRECTORIES: Final = (
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
)
NAMES: Final = tuple(
    (major, name)
    for major in range(22, 14, -1)
    for name in (f"libLLVM.so.{major}.1", f"libLLVM-{major}.so.1", f"libLLVM-{major}.so")
)
"""The newest first."""

_DECLARATIONS: Final = """
void LLVMInitializeAMDGPUTargetInfo(void);
void LLVMInitializeAMDGPUTargetMC(void);
void LLVMInitializeAMDGPUDisassembler(void);
void *LLVMCreateDisasmCPUFeatures(const char *triple, const char *cpu, const char *features,
  void *info, int tag_type, void *op_info, void *symbol_lookup);
void LLVMDisasmDispose(void *context);
size_t LLVMDisasmInstruction(void *context, const uint8_t *bytes, uint64_t nbytes, uint64_t pc,
  char *text, size_t text_bytes);
"""
_TEXT_BYTES: Final = 512
_WORD_BYTES: Final = 4
_WAVE64: Final = "wavefrontsize64"
_BRANCH: Final = re.compile(r"(s_c?branch\w*|s_call_b64 [^,]+,) (\d+)$")
_SIGN, _WRAP = 1 << 15, 1 << 16


@dataclass(frozen=True, slots=True)
class _Library:
    ffi: Any
    calls: Any
    major: int
    path: str


def find() -> tuple[int, str]:
    """Major version and path of the newest libLLVM. Raises: NotFound."""
    for major, name in NAMES:
        for directory in DIRECTORIES:
            path = os.path.join(directory, name)
            if os.path.isfile(path):
                return major, path
    raise NotFound(
        f"no libLLVM of version 15 or later in {', '.join(DIRECTORIES)}",
        hint=f"Install Debian's package {PACKAGE}",
    )


@cache
def _library() -> _Library:
    from cffi import FFI

    (major, path), ffi = find(), FFI()
    ffi.cdef(_DECLARATIONS)
    try:
        calls: Any = ffi.dlopen(path)
        calls.LLVMInitializeAMDGPUTargetInfo()
        calls.LLVMInitializeAMDGPUTargetMC()
        calls.LLVMInitializeAMDGPUDisassembler()
    except (OSError, AttributeError) as error:
        raise NotFound(
            f"{path} cannot be used: {error}", hint=f"Install Debian's package {PACKAGE}"
        ) from error
    return _Library(ffi, calls, major, path)


class Disassembler:
    """One chip's decoder. A context manager. Raises: NotFound; Unsupported, with the reason."""

    def __init__(self, arch: str, wave_lanes: int = 0) -> None:
        target, library = amd_target(arch), _library()
        if library.major < target.generation.llvm_major:
            raise Unsupported(
                f"LLVM {library.major} does not know {arch}",
                hint=f"It takes LLVM {target.generation.llvm_major} or later",
            )
        wide = wave_lanes == 64 and target.generation.wave_lanes != (64,)
        features = target.settings(frozenset({_WAVE64} if wide else ()))
        self._ffi, self._calls = library.ffi, library.calls
        null = self._ffi.NULL
        self._context = self._calls.LLVMCreateDisasmCPUFeatures(
            TRIPLE.encode(), arch.encode(), features.encode(), null, 0, null, null
        )
        if self._context == null:
            raise Unsupported(f"{library.path} has no AMDGPU disassembler", hint=f"See {PACKAGE}")
        self._text = self._ffi.new("char[]", _TEXT_BYTES)

    def __enter__(self) -> Disassembler:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Release LLVM's decoder. Further calls do nothing."""
        context, self._context = self._context, self._ffi.NULL
        if context != self._ffi.NULL:
            self._calls.LLVMDisasmDispose(context)

    def one(self, code: bytes, pc: int = 0) -> tuple[int, str]:
        """Bytes and text of the first instruction; (0, "") where LLVM knows none."""
        if self._context == self._ffi.NULL:
            raise Unsupported("the disassembler is closed", hint="Make a new one")
        raw = self._ffi.from_buffer("uint8_t[]", code)
        size = self._calls.LLVMDisasmInstruction(
            self._context, raw, len(code), pc, self._text, _TEXT_BYTES
        )
        text = self._ffi.string(self._text).decode("ascii", "replace") if size else ""
        return size, " ".join(text.split())

    def all(self, code: bytes, pc: int = 0) -> Iterator[Instruction]:
        """Every instruction in order; words unknown to LLVM are shown as data."""
        at, longest = 0, 5 * _WORD_BYTES
        for _ in range(-(-len(code) // _WORD_BYTES)):
            if at >= len(code):
                return
            size, text = self.one(code[at : at + longest], pc + at)
            if not size:
                size = _WORD_BYTES
                text = f".long {int.from_bytes(code[at : at + size], 'little'):#010x}"
            goal = _goal(text, pc + at)
            yield Instruction(
                pc + at, code[at : at + size], text, goal, goal is not None and "call" not in text
            )
            at += size


def _goal(text: str, address: int) -> int | None:
    """Target of a branch: it counts words from the next instruction."""
    found = _BRANCH.match(text)
    if found is None:
        return None
    words = int(found[2])
    return address + _WORD_BYTES * (1 + (words - _WRAP if words >= _SIGN else words))


def instructions(binary: Binary) -> Iterator[Instruction]:
    """The instructions of a loaded kernel. Raises: NotFound, Unsupported."""
    about = AmdCode.of(binary)
    start = about.code_offset
    code = binary.image[start : start + about.code_bytes]
    with Disassembler(binary.arch, about.wave_lanes) as found:
        yield from found.all(code, start)

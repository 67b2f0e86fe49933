"""LLVM's AMDGPU disassembler through its C API: the oracle of the decoder's text."""

from __future__ import annotations

from functools import lru_cache

import cffi
import pytest

_CDEF = """
void LLVMInitializeAMDGPUTargetInfo(void);
void LLVMInitializeAMDGPUTarget(void);
void LLVMInitializeAMDGPUTargetMC(void);
void LLVMInitializeAMDGPUDisassembler(void);
void *LLVMCreateDisasmCPUFeatures(const char *, const char *, const char *, void *, int, void *,
                                  void *);
size_t LLVMDisasmInstruction(void *, uint8_t *, uint64_t, uint64_t, char *, size_t);
"""
_LIBRARIES = ("libLLVM.so.19.1", "libLLVM-19.so.1", "libLLVM-19.so")
_TEXT_BYTES = 512
WAVE64 = "-wavefrontsize32,+wavefrontsize64"


class Disassembler:
    """One chip's disassembler. `at` gives the size and text of one instruction, or None."""

    def __init__(self, library: object, ffi: cffi.FFI, cpu: str, features: str) -> None:
        self._library, self._ffi = library, ffi
        null = ffi.NULL
        self._handle = library.LLVMCreateDisasmCPUFeatures(
            b"amdgcn-amd-amdhsa", cpu.encode(), features.encode(), null, 0, null, null
        )
        self._text = ffi.new("char[]", _TEXT_BYTES)

    def at(self, code: bytes) -> tuple[int, str] | None:
        data = self._ffi.new("uint8_t[]", code)
        size = self._library.LLVMDisasmInstruction(
            self._handle, data, len(code), 0, self._text, _TEXT_BYTES
        )
        if not size:
            return None
        return size, " ".join(self._ffi.string(self._text).decode().split())


@lru_cache(maxsize=1)
def _library() -> tuple[object, cffi.FFI] | None:
    ffi = cffi.FFI()
    ffi.cdef(_CDEF)
    for name in _LIBRARIES:
        try:
            library = ffi.dlopen(name)
        except OSError:
            continue
        for part in ("TargetInfo", "Target", "TargetMC", "Disassembler"):
            getattr(library, f"LLVMInitializeAMDGPU{part}")()
        return library, ffi
    return None


@lru_cache(maxsize=64)
def _opened(library: object, ffi: cffi.FFI, cpu: str, features: str) -> Disassembler:
    """One for all tests: it has no state, and LLVM's own objects behind it are large."""
    return Disassembler(library, ffi, cpu, features)


def open_disassembler(cpu: str, features: str = "") -> Disassembler:
    """Skips the test when LLVM 19's library is not installed."""
    found = _library()
    if found is None:
        pytest.skip("libLLVM 19 is not installed (Debian: libllvm19)")
    return _opened(*found, cpu, features)

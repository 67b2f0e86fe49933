"""A made-up OpenCL library of Qualcomm's, whose compiler returns synthetic containers.

Their code is this stack's own, of the same kernel, with the workgroup's number where code of the
real compiler has it. No program of that compiler was ever here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import cffi

from compilers import binary as binaries
from compilers.families import toolchain_of
from compilers.ir import Kernel
from compilers.qcom import cl_library
from compilers.qcom.cl_container import Argument, ClProgram, Constant, Parameter
from compilers.qcom.isa import encode_all
from compilers.qcom.isa.encode import decode
from compilers.qcom.isa.operand import Operand
from queues.qcom.kernel_code import INSTR_UNIT_BYTES, AdrenoCode
from tests.support import check

OURS, THEIRS = 4 * 48, 4 * 51 + 3
"""r48.x, where our code finds the workgroup's number; r51.w of 0xccc0cf, where theirs does."""
BUILD_FAILURE, INVALID_VALUE = -11, -30
PLATFORM_VENDOR, DEVICE_VERSION, GPU = 0x0903, 0x102F, 4
BUILD_LOG, BINARY_SIZES, BINARIES = 0x1183, 0x1165, 0x1166
"""# src: KhronosGroup/OpenCL-Headers, CL/cl.h"""
VERSION = b"OpenCL 2.0 Adreno(TM) 630\0"


def moved(one: Operand) -> Operand:
    """The operand, with the workgroup's number in another register."""
    inside = one.is_register and OURS <= one.number < OURS + 3
    return replace(one, number=one.number - OURS + THEIRS) if inside else one


def program_of(kernel: Kernel, arch: str, name: str) -> ClProgram:
    """A kernel's code by this stack, described as a program of theirs is."""
    toolchain, none = toolchain_of("IR3", arch), frozenset[str]()
    source = toolchain.render(kernel, arch, none)
    made = binaries.decode(toolchain.compiler.compile_object(source, arch, none))
    about, needs = AdrenoCode.of(made), made.resources
    size = about.instrlen * INSTR_UNIT_BYTES
    code = [decode(word, 6) for (word,) in struct.iter_unpack("<Q", made.image[:size])]
    for one in code:
        one.srcs = tuple(moved(src) for src in one.srcs)
    literals = struct.unpack(f"<{about.literal_words}I", made.image[size:])
    first = 16 * about.literal_vec4
    return ClProgram(
        name=name, code=encode_all(code, 6), entry=0, full_registers=about.full_registers,
        half_registers=0, branch_stack=about.branch_stack, private_bytes=about.private_bytes,
        shared_bytes=needs.shared_bytes, samplers=0,
        parameters=tuple(Parameter(one.offset, Argument.BUFFER) for one in needs.args or ()),
        constants=tuple(Constant(value, first + 4 * n, 4) for n, value in enumerate(literals)),
    )  # fmt: skip


class MadeUp:
    """A library whose compiler is `compiles`: (text) -> a container, or a build log."""

    def __init__(
        self, compiles: Callable[[str], bytes | str], *, vendor: bytes = b"QUALCOMM\0",
        version: bytes = VERSION, gpus: int = 1,
    ) -> None:  # fmt: skip
        self.ffi = cffi.FFI()
        self.ffi.cdef(cl_library.DECLARATIONS)
        self.vendor, self.version, self.gpus, self.compiles = vendor, version, gpus, compiles
        self.text, self.made = "", b""
        self.failure = ""
        self.held = 0
        """Contexts and programs that are not released."""

    def library(self) -> cl_library.Library:
        """As `cl_library.library` returns one."""
        calls = SimpleNamespace(
            clGetPlatformIDs=self._platforms, clGetDeviceIDs=self._devices,
            clGetPlatformInfo=self._platform, clGetDeviceInfo=self._device,
            clCreateContext=self._context, clReleaseContext=self._release,
            clCreateProgramWithSource=self._source, clReleaseProgram=self._release,
            clBuildProgram=self._build, clGetProgramBuildInfo=self._log,
            clGetProgramInfo=self._program,
        )  # fmt: skip
        return cl_library.opened(self.ffi, calls, "libOpenCL.so")

    def _say(self, data: bytes, room: int, to: Any, nbytes: Any) -> int:
        if nbytes != self.ffi.NULL:
            nbytes[0] = len(data)
        if to != self.ffi.NULL:
            if room < len(data):
                return INVALID_VALUE
            self.ffi.memmove(to, data, len(data))
        return 0

    def _platforms(self, room: int, to: Any, count: Any) -> int:
        to[0], count[0] = self.ffi.cast("handle_t", 1), 1
        return 0

    def _devices(self, platform: Any, kind: int, room: int, to: Any, count: Any) -> int:
        check(kind == GPU, "a GPU is asked for")
        to[0], count[0] = self.ffi.cast("handle_t", 2), self.gpus
        return 0

    def _platform(self, platform: Any, what: int, room: int, to: Any, nbytes: Any) -> int:
        check(what == PLATFORM_VENDOR)
        return self._say(self.vendor, room, to, nbytes)

    def _device(self, device: Any, what: int, room: int, to: Any, nbytes: Any) -> int:
        check(what == DEVICE_VERSION)
        return self._say(self.version, room, to, nbytes)

    def _context(
        self, facts: Any, count: int, devices: Any, notify: Any, user: Any, status: Any
    ) -> Any:
        self.held += 1
        status[0] = 0
        return self.ffi.cast("handle_t", 3)

    def _release(self, handle: Any) -> int:
        self.held -= 1
        return 0

    def _source(self, context: Any, count: int, texts: Any, sizes: Any, status: Any) -> Any:
        self.held += 1
        self.text = bytes(self.ffi.buffer(texts[0], sizes[0])).decode()
        status[0] = 0
        return self.ffi.cast("handle_t", 4)

    def _build(
        self, program: Any, count: int, devices: Any, options: Any, notify: Any, user: Any
    ) -> int:
        result = self.compiles(self.text)
        if isinstance(result, str):
            self.failure = result
            return BUILD_FAILURE
        self.made = result
        return 0

    def _log(self, program: Any, device: Any, what: int, room: int, to: Any, nbytes: Any) -> int:
        check(what == BUILD_LOG)
        return self._say(self.failure.encode() + b"\0", room, to, nbytes)

    def _program(self, program: Any, what: int, room: int, to: Any, nbytes: Any) -> int:
        if what == BINARY_SIZES:
            return self._say(struct.pack("<Q", len(self.made)), room, to, nbytes)
        check(what == BINARIES)
        place = self.ffi.cast("unsigned char **", to)[0]
        self.ffi.memmove(place, self.made, len(self.made))
        return 0

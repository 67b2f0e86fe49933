"""Building programs: by the open device of an architecture, which compilers ask for by its name."""

from __future__ import annotations

import re
from typing import Final

from drivers.base.errors import CompileError, DeviceError, MalformedInput, Unsupported
from drivers.base.undo import Undo
from drivers.cl import abi
from drivers.cl.api import Api, Text, Words
from drivers.cl.errors import error_of, signed
from drivers.hosted.offers import Offers
from drivers.world.native import address_of
from queues.cl.kernel_code import LANES, ClCode
from unbound.extras import install

MAX_BINARY_BYTES: Final = 16 << 20
HIDDEN_ARGS: Final = 2
"""Of a kernel in a processor's shape: scratch memory and the size of the grid."""
_SIZE_BYTES: Final = 8
_UNKNOWN_PROCESSOR: Final = re.compile(r"unknown target CPU '([^'\n]{1,64})'")
"""Clang's error for the name that LLVM gives a processor which is newer than itself: PoCL passes
"generic" on. # src: pocl/pocl issues 1049 and 512; clang, err_target_unknown_cpu"""
OTHER_OPENCL: Final = (
    f"use a newer OpenCL: {install('cl')} brings Intel's for x86-64, which also runs on "
    "AMD's processors; or CPU=1, which needs none"
)
_offers: Final[Offers[Builder]] = Offers("OpenCL")


def builder(arch: str) -> Builder:
    """The builder of an open device. Raises: Unsupported; UseAfterFree once it was closed."""
    return _offers.find(arch)


def rejected(log: str, source: str) -> CompileError:
    """The error of a kernel that a driver does not build, for the reason that its log has."""
    unknown = _UNKNOWN_PROCESSOR.search(log)
    if unknown is not None:
        return CompileError(
            f"the LLVM inside this OpenCL driver does not know this machine's processor (it takes "
            f"it for {unknown[1]!r}) and builds no kernel",
            log=log, source=source, hint=OTHER_OPENCL,
        )  # fmt: skip
    return CompileError(
        f"the OpenCL driver rejects the kernel: {log.partition(chr(10))[0]:.300}",
        log=log, source=source, hint="The error's `log` and `source` hold the rest",
    )  # fmt: skip


class Builder:
    """Programs of one device's context."""

    def __init__(self, api: Api, context: int, device: int, arch: str, options: str) -> None:
        self.api, self.context, self.device, self.arch = api, context, device, arch
        self._options = Text(options.encode())

    def offer(self) -> None:
        """From now on `builder` finds it."""
        _offers.offer(self.arch, self)

    def withdraw(self) -> None:
        """No longer."""
        _offers.withdraw(self.arch, self)

    def build(self, source: str, block: int) -> ClCode:
        """A program of one kernel from its source. `block`: lanes of its workgroups, 0 in a
        processor's shape. Raises: CompileError; Unsupported where they are too many."""
        text = Text(source.encode())
        strings = Words([text.at])
        api = self.api
        with Undo() as undo:
            program = api.make("clCreateProgramWithSource", self.context, 1, strings.at, 0)
            undo.add(lambda: api.do("clReleaseProgram", program))
            self._compile(program, source)
            code = self._code(program, source, block)
        api.do("clReleaseProgram", program)
        return code

    def _compile(self, program: int, source: str) -> None:
        """Raises: CompileError with the log and the source."""
        devices = Words([self.device])
        call = "clBuildProgram"
        status = signed(self.api.functions[call](program, 1, devices.at, self._options.at, 0, 0))
        if status in abi.BUILD_FAILED:
            try:
                about = program, self.device, abi.PROGRAM_BUILD_LOG
                log = self.api.text("clGetProgramBuildInfo", *about)
            except DeviceError as error:  # the build's own failure is the one to report
                log = f"no build log: {error.message}"
            raise rejected(log, source)
        if status:
            raise error_of(call, status)

    def _code(self, program: int, source: str, block: int) -> ClCode:
        """What a built program is."""
        api = self.api
        names = api.text("clGetProgramInfo", program, abi.PROGRAM_KERNEL_NAMES)
        name = Text(names.encode())
        with Undo() as undo:
            kernel = api.make("clCreateKernel", program, name.at)
            undo.add(lambda: api.do("clReleaseKernel", kernel))
            nargs = api.number("clGetKernelInfo", kernel, abi.KERNEL_NUM_ARGS)
            about = "clGetKernelWorkGroupInfo", kernel, self.device
            shared = api.number(*about, abi.KERNEL_LOCAL_MEM_SIZE)
            most = api.number(*about, abi.KERNEL_WORK_GROUP_SIZE)
        api.do("clReleaseKernel", kernel)
        lanes = self.arch.startswith(LANES)
        if not lanes and nargs < HIDDEN_ARGS:
            raise MalformedInput(f"{names}: {nargs} arguments", hint="compile it for this device")
        if block > most:
            raise Unsupported(
                f"{names} has workgroups of {block} lanes, and the driver runs it with at most "
                f"{most} (CL_KERNEL_WORK_GROUP_SIZE)",
                hint="report this kernel with the driver's version; another device may run it",
            )
        binary = self._binary(program)
        return ClCode(
            program=binary,
            source=source.encode(),
            nargs=nargs if lanes else nargs - HIDDEN_ARGS,
            block=block,
            max_block=block if lanes else 1,
            shared_bytes=shared if lanes else 0,
        )

    def _binary(self, program: int) -> bytes:
        """The program for its one device; b"" from a driver that gives none."""
        size = self.api.info("clGetProgramInfo", program, abi.PROGRAM_BINARY_SIZES)
        nbytes = int.from_bytes(size[:_SIZE_BYTES], "little")
        if not nbytes:
            return b""
        if nbytes > MAX_BINARY_BYTES:
            raise MalformedInput(f"a kernel of {nbytes} bytes", hint="update the OpenCL driver")
        room = bytearray(nbytes)
        places = Words([address_of(room)])
        self.api.do(
            "clGetProgramInfo", program, abi.PROGRAM_BINARIES, abi.POINTER_BYTES, places.at, 0
        )
        return bytes(room)

    def kernel(self, code: ClCode, name: str) -> tuple[int, int]:
        """(program, kernel) of what `build` made. Raises: MalformedInput when the driver does not
        take it back; CompileError."""
        api = self.api
        with Undo() as undo:
            program = self._restored(code, name)
            undo.add(lambda: api.do("clReleaseProgram", program))
            self._compile(program, code.source.decode(errors="replace"))
            entry = Text(name.encode())
            kernel = api.make("clCreateKernel", program, entry.at)
        return program, kernel

    def _restored(self, code: ClCode, name: str) -> int:
        image = bytearray(code.program or code.source)
        places, sizes = Words([address_of(image)]), Words([len(image)])
        if not code.program:
            call = "clCreateProgramWithSource"
            return self.api.make(call, self.context, 1, places.at, sizes.at)
        devices, status = Words([self.device]), Words([0])
        try:
            return self.api.make(
                "clCreateProgramWithBinary", self.context, 1, devices.at, sizes.at, places.at,
                status.at,
            )  # fmt: skip
        except DeviceError as error:
            if status.status:
                raise MalformedInput(
                    f"{name} is not code of {self.arch}: {error.message}",
                    hint="remove the cache of kernels (UNBOUND_CACHE), then compile it anew",
                ) from error
            raise

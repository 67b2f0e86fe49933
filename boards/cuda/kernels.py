"""Modules, functions and launches: arguments packed as the caller packed them, code run as SASS.

# src: CUDA Driver API, cuLaunchKernel; constant bank 0 of sm_86: cubins of nvrtc
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from boards.cuda import cubin, header
from boards.cuda.state import Allocation, Context, Refused, State, out, word
from boards.cuda.streams import Fault, Streams, Work
from boards.machine import host
from boards.nv.launch import ConstantBank, EndlessGrid, Launch, SmException
from boards.nv.space import MmuFault
from boards.nv.warp.execute import WarpExecutor

Dim = tuple[int, int, int]
_BLOCK_AT, _GRID_AT, _STACK_AT = 0x00, 0x0C, 0x28
_SHARED_WINDOW, _LOCAL_WINDOW = 1 << 32, 2 << 32
_PREFETCH = 4096
_END, _POINTER, _SIZE = 0, 1, 2
_MOST_EXTRA = 8
_MAX_THREADS_ATTRIBUTE, _DYNAMIC_ATTRIBUTE = 0, 8
_SHARED, _OPTED_SHARED = 8, 97
"""CUdevice_attribute: shared memory of a block, and by opting in."""
_FILE_REGISTERS, _REGISTERS_UNIT, _LANES = 65536, 256, 32
_NAME_BYTES = 4096
_ESR_ILLEGAL, _ESR_MISALIGNED = 0x04, 0x0F
"""src: open-gpu-doc, manuals/volta/gv100/dev_graphics.ref.txt, SM_HWW_WARP_ESR_ERROR"""


@dataclass(eq=False)
class Module:
    """A cubin that was loaded."""

    context: Context
    image: cubin.Image
    places: dict[str, Allocation] = field(default_factory=dict)
    """Of code, banks and variables, by section."""
    functions: dict[str, int] = field(default_factory=dict)


@dataclass(eq=False)
class Function:
    """One kernel of a module."""

    module: Module
    code: cubin.KernelCode
    alive: bool = True
    dynamic: int = 0
    """Shared memory that launches may add, where it was opted in."""

    @property
    def declared(self) -> int:
        """Shared memory of its code, without what the system keeps."""
        return max(self.code.shared_bytes - cubin.RESERVED_SHARED, 0)


@dataclass(frozen=True)
class Prepared:
    """A launch, with a copy of its arguments."""

    function: Function
    grid: Dim
    block: Dim
    args: bytes
    shared: int
    """Bytes beside those that the code declares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Banked(Launch):
    """A launch whose constant banks are not in the address space."""

    banks: Mapping[int, bytes]

    def constant(self, bank: int) -> bytes:
        return self.banks[bank]


class Kernels:
    """The functions of modules and launches."""

    def __init__(self, state: State, streams: Streams) -> None:
        self._state, self._streams = state, streams
        self._executor = WarpExecutor(lambda rule, what: state.find(f"kernel: {rule}", what))
        self.launched = 0

    # Modules

    def load(self, at: int, image: int) -> None:
        """cuModuleLoadData."""
        context = self._state.current()
        try:
            blob = bytes(host.view(image, cubin.file_bytes(bytes(host.view(image, 64)))))
            found = cubin.load(blob)
        except cubin.BadImage as error:
            self._state.notes.append(str(error))
            raise Refused(header.INVALID_IMAGE) from error
        major, minor = context.device.capability
        if found.sm // 10 != major or found.sm % 10 > minor:
            raise Refused(header.NO_BINARY)
        module = Module(context, found)
        self._place(module)
        out(at, self._state.new(module, context), 8)

    def _place(self, module: Module) -> None:
        """Put code, banks and variables into memory."""
        context, image = module.context, module.image
        parts = {f".text.{one.name}": one.code for one in image.kernels.values()}
        for name, data in {**parts, **image.functions, **image.data}.items():
            place = context.device.take(context, len(data) + _PREFETCH)
            place.data[: len(data)] = memoryview(data)
            place.data[len(data) :] = 0
            module.places[name] = place
        for fixup in image.fixups:
            address = module.places[fixup.target].va + fixup.addend
            fixup.fill(module.places[fixup.section].data, address)

    def unload(self, handle: int) -> None:
        """cuModuleUnload."""
        module = self._state.end(Module, handle)
        if self._streams.holds(module):
            self._state.find("module unloaded in use", ", ".join(module.functions))
        for place in module.places.values():
            module.context.device.give(place)
        for function in module.functions.values():
            self._state.end(Function, function).alive = False
        if module.context.lost:
            raise Refused(module.context.lost)

    def function(self, at: int, module: int, name: int) -> None:
        """cuModuleGetFunction."""
        found = self._state.get(Module, module)
        text = bytes(host.view(name, _length(name))).decode()
        code = found.image.kernels.get(text)
        if code is None:
            raise Refused(header.NOT_FOUND)
        if text not in found.functions:
            found.functions[text] = self._state.new(Function(found, code), found.context)
        out(at, found.functions[text], 8)

    def attribute(self, at: int, which: int, function: int) -> None:
        """cuFuncGetAttribute."""
        code = self._state.get(Function, function).code
        if which != _MAX_THREADS_ATTRIBUTE:
            raise self._state.refuse(header.INVALID_VALUE, "attribute", f"{which} of a function")
        fits = _FILE_REGISTERS // max(code.registers, 1) // (4 * _LANES) * 4 * _LANES
        out(at, min(code.max_threads or 1024, 1024, fits), 4)

    def set_attribute(self, function: int, which: int, value: int) -> None:
        """cuFuncSetAttribute: how much shared memory launches may add."""
        found = self._state.get(Function, function)
        self._state.current()
        if which != _DYNAMIC_ATTRIBUTE:
            raise self._state.refuse(header.INVALID_VALUE, "attribute", f"{which} of a function")
        if not 0 <= value <= header.ATTRIBUTES[_OPTED_SHARED] - found.declared:
            raise self._state.refuse(
                header.INVALID_VALUE, "more shared memory than there is",
                f"{value} bytes beside {found.declared}",
            )  # fmt: skip
        found.dynamic = value

    # Launches

    def launch(self, function: int, *args: int) -> None:
        """cuLaunchKernel."""
        *sizes, shared, stream, params, extra = args
        one = self.prepared(function, sizes, shared, params, extra)
        self._streams.add(stream, self.work(one))

    def work(self, one: Prepared) -> Work:
        """A launch as a piece of work."""
        return Work(lambda: self.run(one), self.touches(one), (one.function.module,))

    def prepared(
        self, function: int, sizes: list[int], shared: int, params: int, extra: int
    ) -> Prepared:
        """A checked launch. Raises: Refused."""
        found = self._state.get(Function, function)
        context, code = self._state.current(), found.code
        if found.module.context is not context:
            raise self._state.refuse(
                header.INVALID_HANDLE, "function of another context", code.name
            )
        grid, block = _dim(sizes[:3]), _dim(sizes[3:])
        most = code.max_threads or header.ATTRIBUTES[1]
        limits = [header.ATTRIBUTES[number] for number in range(2, 8)]
        if any(not 0 < n <= limit for n, limit in zip((*block, *grid), limits, strict=True)):
            raise self._state.refuse(
                header.INVALID_VALUE, "sizes of a launch", f"{grid} of {block}"
            )
        if prod(block) > most:
            raise self._state.refuse(
                header.INVALID_VALUE, "more lanes than the kernel allows", f"{prod(block)}"
            )
        warps = -(-prod(block) // (4 * _LANES)) * 4
        rounded = -(-code.registers * _LANES // _REGISTERS_UNIT) * _REGISTERS_UNIT
        if warps * rounded > _FILE_REGISTERS:
            raise Refused(header.OUT_OF_RESOURCES)
        if shared > max(found.dynamic, header.ATTRIBUTES[_SHARED] - found.declared):
            raise self._state.refuse(
                header.INVALID_VALUE, "shared memory by opting in", f"{shared} bytes"
            )
        return Prepared(found, grid, block, self._arguments(code, params, extra), shared)

    def _arguments(self, code: cubin.KernelCode, params: int, extra: int) -> bytes:
        """The block of parameters, copied. Raises: Refused."""
        if bool(params) == bool(extra) and code.param_bytes:
            raise self._state.refuse(
                header.INVALID_VALUE, "arguments given twice or not at all", code.name
            )
        if params:
            block = bytearray(code.param_bytes)
            for number, (offset, nbytes) in sorted(code.params.items()):
                data = host.view(word(params + 8 * number), nbytes)
                block[offset : offset + nbytes] = data
            return bytes(block)
        found = self._extra(extra)
        if _POINTER not in found or _SIZE not in found:
            raise self._state.refuse(
                header.INVALID_VALUE, "list of arguments that is not whole", f"{sorted(found)}"
            )
        nbytes = word(found[_SIZE])
        if nbytes != code.param_bytes:
            raise self._state.refuse(
                header.INVALID_VALUE, "arguments of another size",
                f"{nbytes} bytes, {code.name} takes {code.param_bytes}",
            )  # fmt: skip
        return bytes(host.view(found[_POINTER], nbytes))

    def _extra(self, at: int) -> dict[int, int]:
        """Pairs of the list `extra`."""
        found: dict[int, int] = {}
        for number in range(_MOST_EXTRA):
            key = word(at + 16 * number)
            if key == _END:
                return found
            if key not in (_POINTER, _SIZE) or key in found:
                break
            found[key] = word(at + 16 * number + 8)
        raise self._state.refuse(
            header.INVALID_VALUE, "list of arguments without an end", f"{sorted(found)}"
        )

    def touches(self, one: Prepared) -> list[tuple[int, int]]:
        """Memory that arguments point into."""
        found = []
        for offset, nbytes in one.function.code.params.values():
            value = int.from_bytes(one.args[offset : offset + nbytes], "little")
            memory = self._state.allocation(value) if nbytes == 8 else None
            if memory is not None:
                found.append((memory.va, memory.nbytes))
        return found

    def run(self, one: Prepared) -> None:
        """Execute a grid. Raises: Fault."""
        code, module = one.function.code, one.function.module
        self.launched += 1
        if not one.function.alive:
            raise Fault(header.LAUNCH_FAILED, f"{code.name} was unloaded before it ran")
        bank = bytearray(code.bank0_bytes)
        struct.pack_into("<3I", bank, _BLOCK_AT, *one.block)
        struct.pack_into("<3I", bank, _GRID_AT, *one.grid)
        struct.pack_into("<I", bank, _STACK_AT, code.local_bytes)
        bank[code.param_offset : code.param_offset + len(one.args)] = one.args
        banks = {0: bytes(bank)}
        for number, name in cubin.banks_of(module.image, code.name).items():
            banks[number] = module.places[name].data[: len(module.image.data[name])].tobytes()
        context = module.context
        launch = _Banked(
            chip=context.device.chip, code_va=module.places[f".text.{code.name}"].va,
            space=context.space, grid=one.grid, block=one.block,
            constants={number: ConstantBank(0, len(data)) for number, data in banks.items()},
            registers=code.registers, barriers=code.barriers,
            shared_bytes=code.shared_bytes + one.shared, local_bytes=code.local_bytes,
            shared_window=_SHARED_WINDOW, local_window=_LOCAL_WINDOW, banks=banks,
        )  # fmt: skip
        try:
            self._executor.launch(launch)
        except MmuFault as fault:
            raise Fault(header.ILLEGAL_ADDRESS, f"{code.name}: {fault}") from fault
        except EndlessGrid as fault:
            raise Fault(header.LAUNCH_TIMEOUT, f"{code.name} never ends") from fault
        except SmException as fault:
            codes = {_ESR_ILLEGAL: header.ILLEGAL_INSTRUCTION, _ESR_MISALIGNED: header.MISALIGNED}
            result = codes.get(fault.warp_esr, header.LAUNCH_FAILED)
            raise Fault(result, f"{code.name}: {fault}") from fault


def _dim(sizes: list[int]) -> Dim:
    x, y, z = sizes
    return x, y, z


def _length(text: int) -> int:
    """Of a C string."""
    for nbytes in range(_NAME_BYTES):
        if not host.view(text + nbytes, 1)[0]:
            return nbytes
    raise Refused(header.INVALID_VALUE)

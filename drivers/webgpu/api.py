"""One WebGPU library as functions of integers; which ABI it has is asked of the library.

# src: System V psABI AMD64 3.2.3 and AAPCS64 6.8.2: a struct of more than 16 bytes is passed by
# value on the stack (x86-64, after six register arguments), or as the address of a copy (AArch64)
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Final

from drivers.base.contracts import World
from drivers.base.errors import DeviceError, NotFound, Unsupported
from drivers.base.library import Library, Native
from drivers.webgpu import abi
from drivers.webgpu.layout import Layouts, Record, Text, joined
from drivers.world.native import memory_at
from unbound.extras import install

_ARGUMENTS: Final = {"p": "uint64_t", "i": "uint32_t"}
_RESULTS: Final = {"p": "uint64_t", "i": "uint32_t", "v": "void", "f": "float"}
_REGISTERS: Final = 6
"""Integer arguments of x86-64 before those on the stack."""
_INFO_WORDS: Final = 5
MAX_TEXT_BYTES: Final = 1 << 16


def signature(kind: str, machine: str) -> str:
    """As `Library.function` takes it. Raises: Unsupported on other processors."""
    result, _, args = kind.partition(":")
    plain = args.removesuffix("C")
    words = [_ARGUMENTS[arg] for arg in plain]
    if plain != args:
        words += ["uint64_t"] * (_REGISTERS - len(plain) + _INFO_WORDS if _stacked(machine) else 1)
    return f"{_RESULTS[result]}(*)({', '.join(words)})"


def _stacked(machine: str) -> bool:
    if machine in ("x86_64", "AMD64"):
        return True
    if machine in ("aarch64", "arm64"):
        return False
    raise Unsupported(
        f"WebGPU on {machine}: how it passes structs is not known", hint="use x86-64 or AArch64"
    )


class Api:
    """Functions and structs of one library."""

    def __init__(
        self, world: World, library: Library, flavour: abi.Flavour, functions: Mapping[str, Native]
    ) -> None:
        self.world, self.name, self.flavour, self.functions = (
            world, library.name, flavour, functions,
        )  # fmt: skip
        self._library = library
        self.answers: object = None
        """Of requests: `drivers.webgpu.adapters` keeps them here."""
        self.layouts = Layouts(flavour.structs)
        self._stacked = _stacked(platform.machine())

    def record(self, name: str, **values: int) -> Record:
        """A struct; members inside nested ones are set afterwards, by names with dots."""
        return Record(self.layouts.of(name), values)

    def row(self, name: str, rows: Sequence[Mapping[str, int]]) -> Record:
        """An array of structs."""
        return joined(self.layouts.of(name), list(rows))

    def ask(self, call: str, *args: int, info: Record) -> int:
        """Call a function with a callback; its info is passed by value."""
        if self._stacked:
            spare = [0] * (_REGISTERS - len(args))
            return self.functions[call](*args, *spare, *info.words)
        return self.functions[call](*args, info.at)

    def make(self, call: str, *args: int) -> int:
        """A call that returns an object."""
        made = self.functions[call](*args)
        if not 0 < made < 1 << 64:
            raise DeviceError(f"{call} gives no object", hint="update the WebGPU library")
        return made


def text_at(address: int, nbytes: int) -> str:
    """A WGPUStringView of the library."""
    if not address or nbytes in (0, abi.ALL_ONES):
        return ""
    raw = memory_at(address, min(nbytes, MAX_TEXT_BYTES), lambda: None)
    return bytes(raw).decode(errors="replace")


def view(record: Record, member: str, text: Text) -> None:
    """Let a WGPUStringView member show a text, which the caller keeps alive."""
    record[f"{member}.data"], record[f"{member}.length"] = text.at, text.nbytes


def flavour_of(library: Library) -> abi.Flavour:
    """Which ABI a library has, by functions that only one of them has.

    Raises: Unsupported for what came between the older Dawn and the standard.
    """
    if _has(library, "wgpuDevicePoll"):
        return abi.WGPU_NATIVE
    if _has(library, "wgpuInstanceRequestAdapter2"):
        return abi.OLDER_DAWN
    if not _has(library, "wgpuGetInstanceFeatures"):
        raise Unsupported(
            f"{library.name} has an ABI from before webgpu.h 1.0 that is not known here",
            hint=f"update it, or {install('webgpu')}",
        )
    return abi.DAWN if _has(library, "wgpuDeviceTick") else abi.STANDARD


def _has(library: Library, symbol: str) -> bool:
    try:
        library.function(symbol, "void(*)(void)")
    except NotFound:
        return False
    return True


def bind(world: World, library: Library) -> Api:
    """A library's functions. Raises: NotFound where one is missing."""
    flavour, machine = flavour_of(library), platform.machine()
    found: dict[str, Native] = {}
    for name, kind in abi.CALLS.items():
        symbol = name + flavour.suffix * (name in abi.FUTURES)
        found[name] = library.function(symbol, signature(kind, machine))
    for name, kind in abi.NATIVE_CALLS.items() if flavour.native else ():
        found[name] = library.function(name, signature(kind, machine))
    return Api(world, library, flavour, found)

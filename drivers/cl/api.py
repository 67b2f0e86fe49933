"""One OpenCL library as checked calls: a status becomes an error, results come back as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from drivers.base.contracts import World
from drivers.base.errors import DeviceError, MalformedInput
from drivers.base.library import Library, Native
from drivers.cl import abi
from drivers.cl.errors import error_of, signed
from drivers.world.native import address_of

BITS32: Final = (1 << 32) - 1
MAX_INFO_BYTES: Final = 1 << 20
MAX_OBJECTS: Final = 256
_HINT: Final = "the OpenCL driver is broken: update it, or choose another with CL_DEVICE"


class Words:
    """64-bit words that a library reads or writes. `at` is their address."""

    __slots__ = ("_bytes", "at", "words")

    def __init__(self, values: Sequence[int]) -> None:
        self._bytes = bytearray(abi.POINTER_BYTES * max(len(values), 1))
        self.words = memoryview(self._bytes).cast("Q")
        for place, value in enumerate(values):
            self.words[place] = value
        self.at = address_of(self._bytes)

    @property
    def status(self) -> int:
        """A cl_int in the first word."""
        return signed(self.words[0])


class Text:
    """Bytes with a zero at their end, at `at`."""

    __slots__ = ("_bytes", "at")

    def __init__(self, text: bytes) -> None:
        self._bytes = bytearray(text + b"\0")
        self.at = address_of(self._bytes)


def made(function: Native, call: str, *args: int, nbytes: int = 0) -> int:
    """The object that a function makes, which stores a status behind its last argument."""
    status = Words([0])
    handle = function(*args, status.at)
    if status.status:
        raise error_of(call, status.status, nbytes)
    if not 0 < handle < 1 << 64:
        raise DeviceError(f"{call} succeeds without an object", hint=_HINT)
    return handle


class Api:
    """Functions of one library. Every failure of one is a DeviceError."""

    def __init__(self, world: World, library: Library, functions: Mapping[str, Native]) -> None:
        self.world, self.name, self.functions = world, library.name, functions
        self._library = library
        """Kept: functions that are known by their addresses do not keep it loaded."""
        self.extended: dict[int, dict[str, Native]] = {}
        """Functions of extensions, by platform."""

    def has(self, call: str) -> bool:
        """Whether the library has the function."""
        return call in self.functions

    def do(self, call: str, *args: int) -> None:
        """A call that returns a status."""
        status = self.functions[call](*args) & BITS32
        if status:
            raise error_of(call, signed(status))

    def make(self, call: str, *args: int, nbytes: int = 0) -> int:
        """A call that returns a new object and stores a status behind its last argument."""
        return made(self.functions[call], call, *args, nbytes=nbytes)

    def info(self, call: str, *args: int) -> bytes:
        """What a clGet...Info call answers. `args` end with the parameter's number.

        Raises: MalformedInput above MAX_INFO_BYTES.
        """
        size = Words([0])
        self.do(call, *args, 0, 0, size.at)
        nbytes = size.words[0]
        if nbytes > MAX_INFO_BYTES:
            raise MalformedInput(f"{call} {args[-1]:#x}: {nbytes} bytes", hint=_HINT)
        room = bytearray(nbytes)
        if nbytes:
            self.do(call, *args, nbytes, address_of(room), 0)
        return bytes(room)

    def text(self, call: str, *args: int) -> str:
        """A string that it answers."""
        raw = self.info(call, *args).partition(b"\0")[0]
        return raw.decode(errors="replace").strip()

    def number(self, call: str, *args: int) -> int:
        """A number of 4 or 8 bytes that it answers. Raises: MalformedInput."""
        raw = self.info(call, *args)
        if len(raw) not in (4, 8):
            raise MalformedInput(f"{call} {args[-1]:#x}: {len(raw)} bytes for a number", hint=_HINT)
        return int.from_bytes(raw, "little")

    def objects(self, call: str, *args: int, none: int) -> list[int]:
        """Handles that clGetPlatformIDs or clGetDeviceIDs lists; `none`: its status for no one.

        Raises: MalformedInput above MAX_OBJECTS.
        """
        count = Words([0])
        status = signed(self.functions[call](*args, 0, 0, count.at))
        found = count.words[0] & BITS32
        if status == none or (not status and not found):
            return []
        if status:
            raise error_of(call, status)
        if found > MAX_OBJECTS:
            raise MalformedInput(f"{call}: {found} objects", hint=_HINT)
        handles = Words([0] * found)
        self.do(call, *args, found, handles.at, 0)
        if not all(handles.words):
            raise MalformedInput(f"{call} lists an object that is none", hint=_HINT)
        return list(handles.words)

    def extension(self, platform: int, names: Mapping[str, abi.Call]) -> dict[str, Native]:
        """Functions of an extension; {} where one is missing."""
        known = self.extended.setdefault(platform, {})
        for name, call in names.items():
            if name in known:
                continue
            text = Text(name.encode())
            get = self.functions["clGetExtensionFunctionAddressForPlatform"]
            address = get(platform, text.at)
            if not 0 < address < 1 << 64:
                return {}
            known[name] = self.world.function(address, call.nargs)
        return {name: known[name] for name in names}

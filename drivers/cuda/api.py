"""Calls of libcuda: every result is looked at, and becomes an error of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from drivers.base.contracts import World
from drivers.base.errors import DeviceGone, MalformedInput, NotFound, Unsupported
from drivers.base.library import Native
from drivers.cuda import abi
from drivers.cuda.errors import LOST_HINT, error_of
from drivers.world.native import address_of

_WORD_BYTES: Final = 8
_NAME_BYTES: Final = 256
_MAX_TEXT_BYTES: Final = 4096
_VERSION_MAJOR, _VERSION_MINOR = 1000, 10


class Words:
    """64-bit words of memory that a call reads or writes."""

    __slots__ = ("_bytes", "at", "words")

    def __init__(self, values: Sequence[int] = (0,)) -> None:
        self._bytes = bytearray(_WORD_BYTES * max(len(values), 1))
        self.words = memoryview(self._bytes).cast("Q")
        for place, value in enumerate(values):
            self.words[place] = value
        self.at = address_of(self._bytes)

    @property
    def word(self) -> int:
        """The first one."""
        return self.words[0]

    @property
    def low32(self) -> int:
        """What a call wrote as an int."""
        return memoryview(self._bytes).cast("i")[0]

    @property
    def float32(self) -> float:
        """What a call wrote as a float."""
        return memoryview(self._bytes).cast("f")[0]


def nothing_runs() -> tuple[str, str]:
    """Before there are queues."""
    return "", ""


class Api:
    """The library, as one device uses it. `lost`: why its context takes no work any more."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name, self.lost = world, name, ""
        try:
            library = world.library(abi.LIBRARY)
        except NotFound as error:
            raise error.advised(
                "install NVIDIA's driver; without it, NV=1 or another device"
            ) from None
        self.functions: dict[str, Native] = {
            name: library.function(name, signature) for name, signature in abi.FUNCTIONS.items()
        }
        self.running: Callable[[], tuple[str, str]] = nothing_runs
        """Queue and kernels that may be running, for errors."""

    def start(self) -> None:
        """Initialise the library. Raises: NotFound without a GPU; Unsupported for an old driver."""
        self.do("cuInit", 0)
        version = self.number("cuDriverGetVersion")
        if version < abi.LEAST_VERSION:
            major, minor = divmod(version, _VERSION_MAJOR)
            raise Unsupported(
                f"the driver is of CUDA {major}.{minor // _VERSION_MINOR}",
                hint="CUDA 12.0 or later is needed: NVIDIA's driver 525 or later",
            )

    def do(self, call: str, *args: int, nbytes: int = 0) -> None:
        """Raises: what its result says; `nbytes`: of an allocation."""
        code = self.functions[call](*args)
        if code:
            self.fail(call, code, nbytes)

    def fail(self, call: str, code: int, nbytes: int = 0) -> None:
        """Raises: the error of a result. Of releases on a lost context nothing: all is gone."""
        if self.lost:
            if call not in abi.RELEASES:
                raise self.gone()
            return
        queue, kernel = self.running()
        name = abi.RESULTS.get(code) or self._name_of(code)
        error = error_of(call, code, name, nbytes=nbytes, queue=queue, kernel=kernel)
        if code in abi.FAULTS | abi.HANGS | abi.GONE:
            self.lost = f"{call} gave {name} ({code})"
        raise error

    def gone(self) -> DeviceGone:
        """The error for the use of a lost context."""
        return DeviceGone(f"{self.name} is lost: {self.lost}", hint=LOST_HINT)

    def make(self, call: str, *args: int, nbytes: int = 0) -> int:
        """What a call makes: it writes a handle or an address to its first argument."""
        cell = Words()
        self.do(call, cell.at, *args, nbytes=nbytes)
        if not cell.word:
            raise MalformedInput(f"{call} succeeds and gives nothing", hint="update the driver")
        return cell.word

    def number(self, call: str, *args: int) -> int:
        """An int that a call writes to its first argument."""
        cell = Words()
        self.do(call, cell.at, *args)
        return cell.low32

    def ready(self, call: str, handle: int) -> bool:
        """Whether cuStreamQuery or cuEventQuery says that everything is done."""
        code = self.functions[call](handle)
        if code and code != abi.NOT_READY:
            self.fail(call, code)
        return not code

    def device_name(self, ordinal: int) -> str:
        """As its maker calls it."""
        room = bytearray(_NAME_BYTES)
        self.do("cuDeviceGetName", address_of(room), _NAME_BYTES - 1, ordinal)
        return bytes(room).partition(b"\0")[0].decode(errors="replace")

    def _name_of(self, code: int) -> str:
        """Of a result that is not in the table."""
        cell = Words()
        if self.functions["cuGetErrorName"](code, cell.at) or not cell.word:
            return "an unknown error"
        world = self.world
        nbytes = world.function(world.symbol("strnlen"), 2)(cell.word, _MAX_TEXT_BYTES)
        room = bytearray(nbytes)
        if nbytes:
            world.function(world.symbol("memcpy"), 3)(address_of(room), cell.word, nbytes)
        return room.decode(errors="replace").removeprefix("CUDA_ERROR_")

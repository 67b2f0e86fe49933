"""What the made-up library knows: handles, contexts, memory; and what was done wrong with them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from boards.cuda import header
from boards.machine import host
from boards.machine.arrays import Array
from boards.nv.chip import CHIPS
from boards.nv.space import GpuMapping, GpuSpace

VA_BITS = 49
_FIRST_VA, _DEVICE_SHIFT = 1 << 48, 44
"""Above all addresses of a process, so that neither is taken for the other."""
_ALIGN, _GUARD = 512, 1 << 16
_POISON = 0xCD
_HANDLES, _HANDLE_STEP = 0x5EED0000000, 0x40
T = TypeVar("T")


class Choices:
    """Numbers that look random, the same in every run.

    # src: D. E. Knuth, MMIX: a linear congruential generator
    """

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, count: int) -> int:
        """0 ... count - 1."""
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (self._state >> 33) % count


class Refused(Exception):
    """A call ends with this result."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(eq=False)
class Allocation:
    """Memory that kernels reach."""

    va: int
    nbytes: int
    data: Array
    context: Context
    host: bool = False
    portable: bool = False
    """Of host memory: whether other contexts reach it, too."""

    def there(self) -> bool:
        """Whether the bytes can be touched."""
        return not self.host or host.mapped(self.va, self.nbytes)

    def parts(self, off: int, nbytes: int) -> Iterator[Array]:
        """Its bytes, as an address space wants them."""
        yield self.data[off : off + nbytes]


class Space(GpuSpace):
    """Addresses of one context, with those of peers whose memory it was given access to.

    Access to a peer is access to its video memory; pages of the host are another context's too
    where they were registered as portable, peer or not.
    """

    def __init__(self, everyone: Callable[[], Iterable[Space]] = tuple) -> None:
        super().__init__(VA_BITS)
        self.peers: list[Space] = []
        self._everyone = everyone

    def find(self, va: int) -> GpuMapping | None:
        """What an address is."""
        own = super().find(va)
        return own or next((one for one in self._theirs(va) if one is not None), None)

    def _theirs(self, va: int) -> Iterator[GpuMapping | None]:
        for space in self._everyone():
            found = GpuSpace.find(space, va) if space is not self else None
            memory: Any = found.memory if found is not None else None
            if memory is not None and (memory.portable if memory.host else space in self.peers):
                yield found


@dataclass(eq=False)
class Context:
    """The primary context of a device."""

    device: Device
    handle: int
    space: Space = field(default_factory=Space)
    lost: int = 0
    """The result of every call, once work has failed."""
    memory: dict[int, Allocation] = field(default_factory=dict)
    """By address."""
    streams: dict[int, Any] = field(default_factory=dict)
    """By handle; the default ones are 0 (and 1) and 2."""
    peers: set[int] = field(default_factory=set)
    owned: set[int] = field(default_factory=set)
    """Handles of what was made in it."""


@dataclass(eq=False)
class Device:
    """One GPU."""

    ordinal: int
    total_bytes: int
    capability: tuple[int, int] = (8, 6)
    chip: Any = CHIPS["ga102"]
    context: Context | None = None
    retained: int = 0
    used_bytes: int = 0
    next_va: int = 0

    def take(self, context: Context, nbytes: int) -> Allocation:
        """Poisoned video memory, with unmapped addresses behind it. Raises: Refused."""
        if nbytes > self.total_bytes - self.used_bytes:
            raise Refused(header.OUT_OF_MEMORY)
        if not self.next_va:
            self.next_va = _FIRST_VA + (self.ordinal << _DEVICE_SHIFT)
        va = self.next_va
        self.next_va = va + -(-nbytes // _ALIGN) * _ALIGN + _GUARD
        self.used_bytes += nbytes
        data: Array = np.full(nbytes, _POISON, np.uint8)
        return self.map(Allocation(va, nbytes, data, context))

    def map(self, made: Allocation) -> Allocation:
        """Give kernels of its context access."""
        memory: Any = made
        made.context.memory[made.va] = made
        made.context.space.map(GpuMapping(made.va, made.nbytes, memory, 0))
        return made

    def give(self, gone: Allocation) -> None:
        """Take it away."""
        del gone.context.memory[gone.va]
        gone.context.space.unmap(gone.va, 1)
        if not gone.host:
            self.used_bytes -= gone.nbytes


class State:
    """Everything of one library in one process."""

    def __init__(self, devices: int, total_bytes: int) -> None:
        self.devices = [Device(number, total_bytes) for number in range(devices)]
        self.lock = threading.RLock()
        self.violations: list[tuple[str, str]] = []
        self.notes: list[str] = []
        """Why kernels failed."""
        self.stacks: dict[int, list[Context]] = {}
        """Contexts that are current, by thread."""
        self._objects: dict[int, object] = {}
        self._dead: dict[int, str] = {}
        self._next = _HANDLES

    def find(self, rule: str, what: str) -> None:
        """Report a violation."""
        self.violations.append((rule, what))

    def refuse(self, code: int, rule: str, what: str) -> Refused:
        """A violation, and the result of the call."""
        self.find(rule, what)
        return Refused(code)

    def spaces(self) -> list[Space]:
        """Of every context that there is."""
        return [one.context.space for one in self.devices if one.context is not None]

    def portable(self, va: int) -> Allocation | None:
        """Host memory at an address that every context reaches."""
        contexts = (one.context for one in self.devices if one.context is not None)
        found = (context.memory.get(va) for context in contexts)
        return next((one for one in found if one is not None and one.portable), None)

    # Handles

    def new(self, made: object, context: Context | None = None) -> int:
        """A handle of an object; none is used twice."""
        self._next += _HANDLE_STEP
        self._objects[self._next] = made
        if context is not None:
            context.owned.add(self._next)
        return self._next

    def get(self, kind: type[T], handle: int) -> T:
        """The object of a handle. Raises: Refused."""
        found = self._objects.get(handle)
        if isinstance(found, kind):
            return found
        what, rule = f"{handle:#x} as {kind.__name__}", "no such handle"
        if handle in self._dead:
            rule, what = "handle after its end", f"{what}, a {self._dead[handle]} once"
        elif found is not None:
            rule, what = "handle of another kind", f"{what}, is a {type(found).__name__}"
        raise self.refuse(header.INVALID_HANDLE, rule, what)

    def end(self, kind: type[T], handle: int) -> T:
        """The object of a handle, whose last use this is. Raises: Refused."""
        found = self.get(kind, handle)
        del self._objects[handle]
        self._dead[handle] = kind.__name__
        for device in self.devices:
            if device.context is not None:
                device.context.owned.discard(handle)
        return found

    def live(self) -> int:
        """Objects and memory that are left."""
        contexts = [device.context for device in self.devices if device.context is not None]
        return len(self._objects) + sum(len(context.memory) for context in contexts)

    # Contexts

    @property
    def stack(self) -> list[Context]:
        """Of this thread."""
        return self.stacks.setdefault(threading.get_ident(), [])

    def current(self) -> Context:
        """The context of this thread. Raises: Refused, also once its work has failed."""
        if not self.stack:
            raise self.refuse(header.INVALID_CONTEXT, "no current context", "on this thread")
        context = self.stack[-1]
        if context.lost:
            raise Refused(context.lost)
        return context

    def device(self, ordinal: int) -> Device:
        """Raises: Refused."""
        if not 0 <= ordinal < len(self.devices):
            raise self.refuse(header.INVALID_DEVICE, "no such device", f"{ordinal}")
        return self.devices[ordinal]

    def allocation(self, va: int) -> Allocation | None:
        """What an address lies in, of any context."""
        for device in self.devices:
            if device.context is not None:
                found = GpuSpace.find(device.context.space, va)
                if found is not None:
                    memory: Any = found.memory
                    made: Allocation = memory
                    return made
        return None


def out(address: int, value: int, nbytes: int) -> None:
    """Write a result to where a caller wants it. Raises: Refused."""
    if not address:
        raise Refused(header.INVALID_VALUE)
    host.view(address, nbytes)[:] = value.to_bytes(nbytes, "little", signed=value < 0)


def word(address: int, nbytes: int = 8) -> int:
    """A number in memory."""
    return int.from_bytes(host.view(address, nbytes), "little")

"""Memory of a card that the host has copies of, as devices ask for it."""

from __future__ import annotations

from collections.abc import Callable

from drivers.bare.memory import PciMemory
from drivers.bare.mirror import Mirrors
from drivers.base.errors import BadArgument, during
from drivers.gpu.iface import Memory
from drivers.gpu.staging import Stager
from drivers.usb.asm24.bridge import Bridge


class CopiedMemory:
    """What the GPU stores is fetched by `fetch`, or with each wait after `watch`."""

    stager: Callable[[], Stager]
    """What makes that which host copies go through."""

    def __init__(self, mirrors: Mirrors, bridge: Bridge) -> None:
        self.mirrors, self._bridge = mirrors, bridge

    @property
    def trips(self) -> int:
        """See `Remote`."""
        return self._bridge.trips

    def fetch(self, memory: Memory, off: int, nbytes: int) -> None:
        """Read a part of memory that was allocated for the host."""
        with during("fetch what the GPU wrote"):
            self.mirrors.fetch(_first(memory), off, nbytes)

    def watch(self, memory: Memory, off: int, nbytes: int) -> None:
        """Read this part whenever the interface waits."""
        self.mirrors.watch(_first(memory), off, nbytes)


def _first(memory: Memory) -> int:
    if not isinstance(memory, PciMemory) or not memory.on_card:
        raise BadArgument(f"{memory!r} is not on the card", hint="allocate it for the host")
    return memory.pieces[0][0]

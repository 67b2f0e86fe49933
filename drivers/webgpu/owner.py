"""What steps and queues need of the device that they run on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from drivers.hosted.buffer import Home
from drivers.webgpu.clock import Clock
from drivers.webgpu.copies import Copies
from drivers.webgpu.memory import Block, Heap
from drivers.webgpu.program import ProgramOwner, WebGpuProgram
from drivers.webgpu.ring import Ring
from drivers.webgpu.signal import SignalOwner
from queues.builder import Built


class WebGpuOwner(Home, SignalOwner, ProgramOwner, Protocol):
    """An open device. Its lock is held wherever something is encoded."""

    copies: Copies
    clock: Clock
    heap: Heap

    def check_alive(self, things: Sequence[object]) -> None:
        """Raises: UseAfterFree when one of them is gone."""

    def apart(
        self, program: WebGpuProgram, blocks: tuple[Block, ...]
    ) -> tuple[tuple[Block, ...], tuple[Block, ...]]:
        """(arguments, copies) of a kernel that is given one buffer twice. Raises: BadArgument."""

    def run(self, ring: Ring[Any], built: Built[Any]) -> None:
        """Run steps in order, after earlier ones of the ring."""

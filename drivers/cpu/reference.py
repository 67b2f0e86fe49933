"""The command processor in Python: the same packets, one thread, for when there is no firmware.

It is also what the native one is checked against.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import RLock, get_ident
from typing import Self

from drivers.base import forks
from drivers.base.contracts import Region, World
from drivers.base.errors import Unsupported
from drivers.cpu.futex import Futex
from queues.cpu import packets, state

WINDOW_BYTES = (packets.MAX_ARGS + 64) * packets.WORD_BYTES


class ReferenceProcessor:
    """Called like the firmware: (state address, packets' address, words) -> words done."""

    def __init__(
        self, world: World, futex: Futex, memmove: Callable[..., int], region: Region
    ) -> None:
        self._world, self._futex, self._memmove, self._region = world, futex, memmove, region
        self._words = self._region.view().cast("Q")
        self._kernels: dict[int, Callable[..., int]] = {}
        self.after_fork()
        forks.inherit(self)

    def after_fork(self) -> None:
        """In a child: a thread of the parent may hold the lock."""
        self._lock = RLock()
        self._inside: set[int] = set()

    @classmethod
    def open(cls, world: World, futex: Futex) -> Self:
        """Find memmove, map a window. Raises: NotFound, OutOfMemory."""
        memmove = world.function(world.symbol("memmove"), 3)
        return cls(world, futex, memmove, world.mmap(-1, WINDOW_BYTES))

    def close(self) -> None:
        """Give its window back."""
        self._words = memoryview(bytearray(packets.WORD_BYTES)).cast("Q")
        self._region.close()

    def _peek(self, cpu_va: int, nwords: int) -> list[int]:
        with self._lock:
            self._memmove(self._region.cpu_va, cpu_va, nwords * packets.WORD_BYTES)
            return self._words[:nwords].tolist()

    def _poke(self, cpu_va: int, value: int) -> None:
        with self._lock:
            self._words[0] = value
            self._memmove(cpu_va, self._region.cpu_va, packets.WORD_BYTES)

    def __call__(self, state_va: int, words_va: int, nwords: int) -> int:
        """Run packets; stop at a WAIT that is not satisfied. Raises: Unsupported inside itself."""
        me = get_ident()
        if me in self._inside:  # the window holds the work that the signal handler interrupted
            raise Unsupported(
                "a signal handler computes inside the reference command processor",
                hint="open the device with firmware, or compute outside of signal handlers",
            )
        try:
            self._inside.add(me)
            return self._walk(state_va, words_va, nwords)
        finally:
            self._inside.discard(me)

    def _walk(self, state_va: int, words_va: int, nwords: int) -> int:
        following = 0
        for at in range(nwords):
            if at != following:
                continue
            packet_va = words_va + at * packets.WORD_BYTES
            header = self._peek(packet_va, 1)[0]
            length = header >> packets.LENGTH_SHIFT
            known = header & packets.OPCODE_MASK in packets.OPCODES
            if not known or not 0 < length <= nwords - at:
                return at
            packet = next(packets.decode(self._peek(packet_va, length)))
            if not self._run(state_va, packet_va, packet):
                return at
            following = at + length
        return nwords

    def _run(self, state_va: int, packet_va: int, packet: packets.Packet) -> bool:
        """Execute one packet; False when it has to wait."""
        f = packet.fields
        if packet.name == "EXEC":
            return self._exec(state_va, packet_va, f)
        if packet.name == "COPY":
            self._memmove(f["dst"], f["src"], f["nbytes"])
        elif packet.name == "WAIT":
            return self._peek(f["signal"], 1)[0] >= f["value"]
        elif packet.name == "SIGNAL":
            self._signal(f["signal"], f["value"])
        elif packet.name == "TIMESTAMP":
            self._poke(f["signal"] + packets.SIGNAL_TIME_OFF, time.monotonic_ns())
        return True

    def _exec(self, state_va: int, packet_va: int, fields: dict[str, int]) -> bool:
        """Run a kernel; False when it may not begin, or was stopped."""
        entry = fields["entry"]
        if fields["chunk"] & packets.HOLD:
            return False
        kernel = self._kernels.get(entry)
        if kernel is None:
            kernel = self._kernels[entry] = self._world.function(entry, 4)
        scratch = self._peek(state_va + state.SCRATCH_BASE, 1)[0]
        args_va = packet_va + packets.EXEC_ARGS_WORD * packets.WORD_BYTES
        kernel(args_va, 0, fields["grid"], scratch)
        chunk_va = packet_va + packets.EXEC_CHUNK_WORD * packets.WORD_BYTES
        return not self._peek(chunk_va, 1)[0] & packets.HOLD

    def _signal(self, cpu_va: int, value: int) -> None:
        """Raise a signal to `value`; both rings and host threads may do so at once."""
        with self._lock:
            if value <= self._peek(cpu_va, 1)[0]:
                return
            self._poke(cpu_va + packets.SIGNAL_TIME_OFF, time.monotonic_ns())
            self._poke(cpu_va, value)
        self._futex.wake(cpu_va)

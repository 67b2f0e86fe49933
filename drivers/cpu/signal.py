"""Signals of the CPU device: a cache line that host threads and command processors watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from drivers.base.errors import BadArgument, UseAfterFree
from drivers.cpu.memory import Storage
from queues.cpu import packets

if TYPE_CHECKING:
    from drivers.cpu.owner import Owner

SPINS: Final = 200
"""Polls of the value before the first sleep: a few microseconds."""
_LOW_WORD: Final = 0xFFFFFFFF
_WAITERS: Final = packets.SIGNAL_WAITERS_OFF // packets.WORD_BYTES
_TIME: Final = packets.SIGNAL_TIME_OFF // packets.WORD_BYTES
_PACKET: Final = 4
"""Word of the signal's line at which the host's own SIGNAL packet is built."""


class CpuSignal:
    """A 64-bit value that only grows. `va` is its address, also after `close`."""

    __slots__ = (
        "__weakref__",
        "_device",
        "_orphaned",
        "_storage",
        "_waits",
        "_words",
        "gpu_va",
        "va",
    )

    def __init__(self, device: Owner, storage: Storage, value: int) -> None:
        self._device, self._storage = device, storage
        self._waits = 0
        self._orphaned = False
        """`_waits` threads are inside `wait`; if it is closed then, the last one gives it back."""
        self.va = storage.cpu_va
        self._words = storage.view[: packets.SIGNAL_BYTES].cast("Q")
        for index in range(len(self._words)):
            self._words[index] = 0
        self._words[0] = value
        self.gpu_va = self.va

    def __getattr__(self, name: str) -> int:
        if name == "gpu_va":
            raise UseAfterFree("a closed signal was used", hint="make a new one")
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"CpuSignal({self._words[0]})"

    @property
    def device(self) -> Owner:
        """The device it belongs to."""
        return self._device

    @property
    def value(self) -> int:
        """The value now."""
        self._check()
        return self._words[0]

    @property
    def timestamp_ns(self) -> int:
        """CLOCK_MONOTONIC at its last change, or at the last timestamp()."""
        self._check()
        return self._words[_TIME]

    def _check(self) -> int:
        return self.gpu_va

    def set(self, value: int) -> None:
        """Host-side signal. Raises: BadArgument (a ValueError) when `value` would decrease."""
        if type(value) is not int or not 0 <= value <= packets.MAX_WORD:
            raise BadArgument(f"{value!r} is not a signal value", hint="pass 0 ... 2**64 - 1")
        with self._device.host_lock:
            va = self._check()
            if value < self._words[0]:
                raise BadArgument(
                    f"a signal at {self._words[0]} cannot go back to {value}",
                    hint="make a new signal",
                )
            packet = packets.signal_packet(signal=va, value=value)
            for index, word in enumerate(packet):
                self._words[_PACKET + index] = word
            self._device.run_host_packet(va + _PACKET * packets.WORD_BYTES, len(packet))

    def wait(self, value: int, timeout_s: float = 10.0) -> None:
        """Return once `value` is reached: spins a little, then sleeps.

        Raises: Hang with the dump of the queue that is stuck; DeviceTimeout when no queue is.
        """
        words = self._words
        for _ in range(SPINS):
            if words[0] >= value:
                self._check()
                return
        with self._device.host_lock:
            self._check()
            self._waits += 1
        try:
            self._wait(value, timeout_s)
        finally:
            with self._device.host_lock:
                self._waits -= 1
                if self._orphaned and not self._waits:
                    self._device.released(self._storage)

    def _wait(self, value: int, timeout_s: float) -> None:
        clock = self._device.world.monotonic_s
        deadline_s = clock() + timeout_s
        while (left_s := deadline_s - clock()) > 0:
            self.sleep(value, left_s)
            self._check()
            if self._words[0] >= value:
                return
        raise self._device.why_not(self, value, timeout_s)

    def sleep(self, value: int, longest_s: float) -> None:
        """Sleep until the value changes, at most `longest_s` or 50 ms; not at all once reached."""
        words, lock = self._words, self._device.host_lock
        with lock:
            words[_WAITERS] += 1
        try:
            seen = words[0]
            if seen < value:
                self._device.futex.sleep(self.va, seen & _LOW_WORD, longest_s)
        finally:
            with lock:
                words[_WAITERS] -= 1

    def close(self) -> None:
        """Give its memory back once parked work is done; threads that wait get UseAfterFree.

        Raises: UseAfterFree the second time.
        """
        with self._device.host_lock:
            if not self._forget():
                raise UseAfterFree("a signal was closed twice", hint="close each signal once")
            self._orphaned = self._waits > 0
            if not self._orphaned:
                self._device.released(self._storage)
        self._device.futex.wake(self.va)

    def _forget(self) -> bool:
        """Whether this call was the one that closed it."""
        try:
            del self.gpu_va
        except AttributeError:
            return False
        return True

    def __del__(self) -> None:
        if self._forget():
            self._device.freed(self._storage)

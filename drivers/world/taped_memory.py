"""Memory that host and machine share, on a tape: each side's writes between two operations.

The driver gets memory of its own (`shown`), the machine keeps the real one. Before an operation
the driver's writes are copied to the machine; after it the machine's are copied to the driver. So
a driver that polls memory sees it change only at operations (reading the clock is one), and a
replay can do the same. Anonymous memory is shown as it is: only the kernel writes it, in an ioctl.

Words of 64 bits are compared and copied. Words that report other memory as ready (progress,
signals) are in small memory: it is read before, and written after, large memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from drivers.base.errors import MalformedInput
from drivers.base.region import MemoryRegion
from drivers.world.recording import Change, unhex, wrote

SMALL_BYTES: Final = 64 << 10
"""Memory up to this size is compared in every operation, larger memory only where it matters."""
FIRST_VA: Final = 1 << 44
"""First address of a recording: the same in every process, unlike the machine's own.

Linux puts no mapping of a 64-bit process there by itself, and the GPUs of KFD reach it: up to
2^47. # src: kfd_flat_memory.c kfd_init_apertures_v9(): gpuvm_base, gpuvm_limit
"""
END_VA: Final = 1 << 46
ALIGN_BYTES: Final = 2 << 20
"""The largest page of a GPU, so that memory aligned in one run is aligned in all."""
_WORD_BYTES: Final = 8


class Addresses:
    """Allocates the addresses of a recording; none is reused."""

    def __init__(self) -> None:
        self._next = FIRST_VA

    def take(self, nbytes: int) -> int:
        """An address with room for `nbytes`."""
        found = self._next
        self._next += -(-nbytes // ALIGN_BYTES) * ALIGN_BYTES + ALIGN_BYTES
        return found


class TapedMemory(MemoryRegion):
    """A mapping that the driver sees through `shown`; `real` is the machine's, where there is one.

    `real_va` is the address of anonymous memory in this process, 0 for all other memory.
    """

    def __init__(
        self, number: int, shown: bytearray | memoryview, cpu_va: int, *,
        real: memoryview | None = None, real_va: int = 0, write: bool = True,
        on_close: Callable[[], None],
    ) -> None:  # fmt: skip
        memory = memoryview(shown)
        super().__init__(
            memory if write else memory.toreadonly(),
            cpu_va=cpu_va, name=f"taped memory {number}", on_close=on_close,
        )  # fmt: skip
        self.number, self.real_va = number, real_va
        self.unit = _WORD_BYTES if memory.nbytes % _WORD_BYTES == 0 else 1
        """Bytes that are compared and copied at once."""
        kind = f"u{self.unit}"
        self._shown = np.frombuffer(memory, kind)
        self._base = np.zeros_like(self._shown)
        """Contents on both sides after the last operation."""
        self._real = np.frombuffer(real, kind) if real is not None else self._shown

    def let_go(self) -> None:
        """Stop comparing, and drop the view of the machine's memory."""
        self._real = self._shown = self._base = np.zeros(0, "u1")

    def driver_wrote(self) -> list[Change]:
        """Copy the driver's writes since the last operation to the machine."""
        at = np.flatnonzero(self._shown != self._base)
        if not at.size:
            return []
        values = self._shown[at]
        if self._real is not self._shown:
            self._real[at] = values
        self._base[at] = values
        return [wrote(self.number, off, data) for off, data in self._runs(at, values)]

    def machine_wrote(self) -> list[Change]:
        """Copy the machine's writes since the last operation to the driver."""
        at = np.flatnonzero(self._real != self._base)
        if not at.size:
            return []
        values = self._real[at]
        if self._real is not self._shown:
            self._shown[at] = values
        self._base[at] = values
        return [(self.number, off, data.hex()) for off, data in self._runs(at, values)]

    def _runs(self, at: Any, values: Any) -> Iterator[tuple[int, bytes]]:
        """(byte, bytes) of adjacent words."""
        cuts = np.flatnonzero(np.diff(at) > 1) + 1
        for places, words in zip(np.split(at, cuts), np.split(values, cuts), strict=True):
            yield int(places[0]) * self.unit, words.tobytes()

    def become(self, off: int, data: bytes, where: str) -> None:
        """Bytes that the machine wrote. Raises: MalformedInput beyond the end."""
        if off % self.unit or len(data) % self.unit or off + len(data) > self.nbytes:
            raise MalformedInput(
                f"{where}: {len(data)} bytes at {off:#x} are not in memory {self.number} "
                f"of {self.nbytes:#x} bytes",
                hint="record it again",
            )
        first = off // self.unit
        words = np.frombuffer(data, self._base.dtype)
        self._shown[first : first + words.size] = words
        self._base[first : first + words.size] = words


class Memories:
    """All memory of a taped world."""

    def __init__(self) -> None:
        self._all: list[TapedMemory] = []
        """The smallest first."""

    def add(self, memory: TapedMemory) -> None:
        """Compare it from the next operation on."""
        self._all.append(memory)
        self._all.sort(key=lambda one: (one.nbytes, one.number))

    def drop(self, memory: TapedMemory) -> None:
        """Remove unmapped memory."""
        self._all = [one for one in self._all if one is not memory]
        memory.let_go()

    def driver_wrote(self, *, wide: bool) -> tuple[Change, ...]:
        """What the driver wrote; without `wide` only to small memory."""
        found: list[Change] = []
        for memory in reversed(self._all):
            if wide or memory.nbytes <= SMALL_BYTES:
                found += memory.driver_wrote()
        return tuple(found)

    def machine_wrote(self, *, wide: bool) -> tuple[Change, ...]:
        """What the machine wrote; large memory with `wide`, or where small memory has changed."""
        found: list[Change] = []
        for memory in self._all:
            small = memory.nbytes <= SMALL_BYTES
            if small or wide or (found and not memory.real_va):
                found += memory.machine_wrote()
        return tuple(found)

    def become(self, changes: tuple[Change, ...], where: str) -> None:
        """What a recording says that the machine wrote. Raises: MalformedInput."""
        mapped = {one.number: one for one in self._all} if changes else {}
        for number, off, text in changes:
            memory = mapped.get(number)
            if memory is None:
                raise MalformedInput(f"{where}: memory {number} is not mapped")
            memory.become(off, unhex(text), where)

    def real(self, va: int) -> int:
        """The real address of anonymous memory at an address of the recording; 0 for none."""
        for memory in self._all:
            if memory.real_va and memory.cpu_va <= va < memory.cpu_va + memory.nbytes:
                return memory.real_va + va - memory.cpu_va
        return 0

    def anonymous(self, va: int) -> memoryview:
        """Anonymous memory from an address of the recording to its end; empty where none is."""
        for memory in self._all:
            if memory.real_va and memory.cpu_va <= va < memory.cpu_va + memory.nbytes:
                return memory.view()[va - memory.cpu_va :]
        return memoryview(b"")

"""System memory of the machine that the function is in, as the function and the client reach it."""

from __future__ import annotations

from boards.machine.pool import FilePool, Pool

PAGE_BYTES = 4096
_FIRST = 1 << 32
_GAP_BYTES = 2 << 20
"""Between allocations: an address just past one is nobody's."""


class Bus:
    """`BusMaster` of one function: pages by bus address. `scattered`: no two are neighbours."""

    def __init__(self, *, scattered: bool = False) -> None:
        self._scattered = scattered
        self._pages: dict[int, tuple[Pool, int]] = {}
        self._pools: list[FilePool] = []
        self._next = _FIRST
        self.messages = 0

    def allocate(self, nbytes: int) -> tuple[int, list[int]]:
        """(handle, the bus address of each page)."""
        count = -(-nbytes // PAGE_BYTES)
        pool = FilePool("system memory", count * PAGE_BYTES)
        addresses = [self._next + number * PAGE_BYTES for number in range(count)]
        self._next += count * PAGE_BYTES + _GAP_BYTES
        if self._scattered:
            addresses.reverse()
        for number, address in enumerate(addresses):
            self._pages[address] = pool, number * PAGE_BYTES
        self._pools.append(pool)
        return len(self._pools) - 1, addresses

    def bytes_of(self, handle: int, off: int, nbytes: int) -> memoryview:
        """A piece of an allocation. Raises: ValueError."""
        if handle >= len(self._pools) or off + nbytes > self._pools[handle].nbytes:
            raise ValueError(f"{nbytes} bytes at {off:#x} of system memory {handle}")
        return memoryview(self._pools[handle].bytes)[off : off + nbytes]

    def decode(self, address: int, nbytes: int, write: bool) -> tuple[Pool, int] | None:
        """The memory behind a bus address, as long as its pages follow each other in it."""
        first = address & -PAGE_BYTES
        start = self._pages.get(first)
        if start is None:
            return None
        pool, off = start
        for page in range(first + PAGE_BYTES, address + nbytes, PAGE_BYTES):
            if self._pages.get(page) != (pool, off + page - first):
                return None
        return pool, off + address - first

    def message(self, vector: int) -> None:
        """An interrupt, which this client never arms."""
        self.messages += 1

"""Addresses that a device uses for host memory: which are free, never two owners at once.

Behind every range one page stays unmapped, so that a device that runs over its end faults.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from drivers.base.errors import BadArgument, MalformedInput, OutOfMemory
from drivers.base.pages import PAGE_BYTES

LARGE_BYTES = 2 << 20
"""From this size on addresses are aligned to it, so that an IOMMU may use its large pages."""
LOWEST = 1 << 20
"""Addresses near zero stay unmapped: a device's null pointer has to fault."""


class IovaSpace:
    """Whole pages of the ranges that an IOMMU allows, first fit."""

    def __init__(self, ranges: Iterable[tuple[int, int]], limit: int) -> None:
        """`ranges` are (first, last) addresses; nothing from `limit` on is used."""
        self._free: list[tuple[int, int]] = []
        self._taken: dict[int, int] = {}
        """End of what is taken, guard page included, by where it starts."""
        for first, last in sorted(ranges):
            start = -(-max(first, LOWEST) // PAGE_BYTES) * PAGE_BYTES
            end = min(last + 1, limit) // PAGE_BYTES * PAGE_BYTES
            if self._free and start < self._free[-1][1]:
                raise MalformedInput(f"the IOMMU's address ranges overlap at {start:#x}")
            if start < end:
                self._free.append((start, end))

    @property
    def taken(self) -> int:
        """How many ranges are taken now."""
        return len(self._taken)

    def take(self, nbytes: int) -> int:
        """The lowest free address for whole pages. Raises: BadArgument, OutOfMemory."""
        if nbytes <= 0 or nbytes % PAGE_BYTES:
            raise BadArgument(f"{nbytes} bytes cannot be mapped: whole pages")
        align = LARGE_BYTES if nbytes >= LARGE_BYTES else PAGE_BYTES
        need = nbytes + PAGE_BYTES
        for index, (start, end) in enumerate(self._free):
            iova = -(-start // align) * align
            if iova + need <= end:
                left = [(start, iova)] if start < iova else []
                right = [(iova + need, end)] if iova + need < end else []
                self._free[index : index + 1] = left + right
                self._taken[iova] = iova + need
                return iova
        used = sum(end - start for start, end in self._taken.items())
        raise OutOfMemory(
            f"no free range of device addresses is {nbytes:#x} bytes long",
            requested=nbytes,
            used=used,
            cached=0,
            limit=used + sum(end - start for start, end in self._free),
            hint="free buffers, then try again",
        )

    def give(self, iova: int) -> None:
        """What `take` gave is free again. Raises: BadArgument when it is not taken."""
        end = self._taken.pop(iova, None)
        if end is None:
            raise BadArgument(f"device address {iova:#x} is not the start of a taken range")
        start, index = iova, bisect_right(self._free, (iova, end))
        if index < len(self._free) and self._free[index][0] == end:
            end = self._free.pop(index)[1]
        if index and self._free[index - 1][1] == start:
            index -= 1
            start = self._free.pop(index)[0]
        self._free.insert(index, (start, end))

"""A GPU's addresses: what the SMMU translates for one process."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from boards.machine.arrays import Addresses, Array
from boards.qcom.memory import LINE_BYTES, LINE_SHIFT, PAGE_BYTES, Memory
from boards.qcom.wave.dispatch import PageFault


class Refused(PageFault):
    """An access that the SMMU refused, and why."""

    def __init__(self, va: int, access: str, why: str = "no mapping") -> None:
        super().__init__(va, access)
        self.why = why

    def __str__(self) -> str:
        return f"{self.access} of {self.va:#x}: {self.why}"


@dataclass(frozen=True, slots=True)
class Mapping:
    """Part of a piece of memory, at an address."""

    va: int
    nbytes: int
    memory: Memory
    offset: int = 0
    readable: bool = True
    writable: bool = True

    @property
    def end(self) -> int:
        """One past the last address."""
        return self.va + self.nbytes

    def allows(self, access: str) -> bool:
        """Whether the pages have this right."""
        return self.writable if access == "write" else self.readable


class Space:
    """Mappings by address; they never overlap.

    With `forgive`, which each page fault is given to, reads give 0 and writes vanish.
    """

    def __init__(self, forgive: Callable[[Refused], None] | None = None) -> None:
        self._forgive = forgive
        self._starts: list[int] = []
        self._at: dict[int, Mapping] = {}

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def mappings(self) -> list[Mapping]:
        """All, by address."""
        return [self._at[start] for start in self._starts]

    def free(self, va: int, nbytes: int) -> bool:
        """Whether nothing is mapped in a range."""
        at = bisect_right(self._starts, va)
        before = self._at[self._starts[at - 1]] if at else None
        if before is not None and before.end > va:
            return False
        return at == len(self._starts) or self._starts[at] >= va + nbytes

    def room(self, low: int, high: int, nbytes: int, align: int) -> int | None:
        """The first range of a window where there is room."""
        va = -(-low // align) * align
        for mapping in self.mappings:
            if mapping.end <= va:
                continue
            if mapping.va >= va + nbytes:
                break
            va = -(-mapping.end // align) * align
        return va if va + nbytes <= high else None

    def map(self, mapping: Mapping) -> None:
        """Put a mapping where nothing is."""
        insort(self._starts, mapping.va)
        self._at[mapping.va] = mapping
        mapping.memory.holds += 1

    def unmap(self, va: int) -> Mapping | None:
        """Take the mapping that begins here away; who asked drops its memory."""
        found = self._at.pop(va, None)
        if found is not None:
            self._starts.remove(va)
        return found

    def find(self, va: int) -> Mapping | None:
        """What is mapped at an address."""
        at = bisect_right(self._starts, va)
        if not at:
            return None
        mapping = self._at[self._starts[at - 1]]
        return mapping if va < mapping.end else None

    def part(self, va: int, nbytes: int, access: str) -> tuple[Memory, int]:
        """The memory at an address, for an access within one mapping. Raises: PageFault."""
        mapping = self.find(va)
        if mapping is None:
            raise Refused(va, access)
        if not mapping.allows(access):
            raise Refused(va, access, "no right to it")
        if va + nbytes > mapping.end:
            raise Refused(mapping.end, access)
        return mapping.memory, va - mapping.va + mapping.offset

    def _allowed(self, va: int, nbytes: int, access: str) -> tuple[Memory, int] | None:
        """As `part`; None for a page fault that is forgiven. Raises: PageFault."""
        try:
            return self.part(va, nbytes, access)
        except Refused as refused:
            if self._forgive is None:
                raise
            self._forgive(refused)
            return None

    def read(self, va: int, nbytes: int) -> Array:
        """Bytes of DRAM, which may lie in several mappings. Raises: PageFault."""
        parts = []
        while nbytes > 0:
            mapping = self.find(va)
            left = PAGE_BYTES - va % PAGE_BYTES if mapping is None else mapping.end - va
            count = min(nbytes, left)
            found = self._allowed(va, count, "read")
            if found is None:
                parts.append(np.zeros(count, np.uint8))
            else:
                parts.append(found[0].dram[found[1] : found[1] + count])
            va, nbytes = va + count, nbytes - count
        return parts[0] if len(parts) == 1 else np.concatenate(parts or [np.zeros(0, np.uint8)])

    def write(self, va: int, data: bytes | Array) -> list[tuple[Memory, slice]]:
        """Bytes to DRAM; the lines that were written. Raises: PageFault."""
        values = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data
        touched = []
        done = 0
        while done < len(values):
            at = va + done
            mapping = self.find(at)
            left = PAGE_BYTES - at % PAGE_BYTES if mapping is None else mapping.end - at
            count = min(len(values) - done, left)
            found = self._allowed(at, count, "write")
            if found is None:
                done += count
                continue
            memory, offset = found
            memory.dram[offset : offset + count] = values[done : done + count]
            lines = slice(offset >> LINE_SHIFT, (offset + count + LINE_BYTES - 1) >> LINE_SHIFT)
            touched.append((memory, lines))
            done += count
        return touched

    def one(self, addresses: Addresses, nbytes: int, access: str) -> Mapping | None:
        """The mapping that all elements lie in, and that allows this."""
        if not len(addresses):
            return None
        low, high = int(np.minimum.reduce(addresses)), int(np.maximum.reduce(addresses))
        found = self.find(low)
        inside = found is not None and high + nbytes <= found.end and found.allows(access)
        return found if inside else None

    def split(self, addresses: Addresses, nbytes: int, access: str) -> list[tuple[Mapping, Array]]:
        """(mapping, the indices of addresses in it) for elements. Raises: PageFault."""
        if not len(addresses):
            return []
        only = self.one(addresses, nbytes, access)
        if only is not None:
            return [(only, np.arange(len(addresses)))]
        starts = np.array(self._starts, np.uint64)
        which = np.searchsorted(starts, addresses, side="right").astype(np.int64) - 1
        found = []
        for number in np.unique(which).tolist():
            inside = np.flatnonzero(which == number)
            refused, past = self._refused(number, addresses[inside], nbytes, access)
            if refused is not None:
                if self._forgive is None:
                    raise refused
                self._forgive(refused)
                inside = inside[~past]
            if len(inside):
                found.append((self._at[self._starts[number]], inside))
        return found

    def _refused(
        self, number: int, own: Addresses, nbytes: int, access: str
    ) -> tuple[Refused | None, Array]:
        """The first page fault of addresses behind one mapping's start, and which have one."""
        every = np.ones(len(own), np.bool_)
        if number < 0:
            return Refused(int(own[0]), access), every
        mapping = self._at[self._starts[number]]
        past = np.asarray(own + np.uint64(nbytes) > np.uint64(mapping.end))
        if past.any():
            return Refused(max(int(own[past][0]), mapping.end), access), past
        if not mapping.allows(access):
            return Refused(int(own[0]), access, "no right to it"), every
        return None, past

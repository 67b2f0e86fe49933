"""Translations that a hub has cached for one VMID, and whether they still are what tables say."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from boards.amd.memory.pages import PAGE_SHIFT, SYSTEM, WRITEABLE, Format, Leaf
from boards.amd.memory.tlb import Run, Tlb
from boards.amd.pci.page_walk import Walker
from boards.machine.arrays import Addresses, Array
from boards.machine.pool import Pool

_PAGE_BYTES = 1 << PAGE_SHIFT
Decode = Callable[[int, int, bool], tuple[Pool, int] | None]
"""(bus address, bytes, whether to write) -> memory behind it; None where the IOMMU has nothing."""


class _Remembered:
    """Walks, except where translations to the bus are kept."""

    def __init__(self, walker: Walker) -> None:
        self._walker = walker
        self._starts: list[int] = []
        self._leaves: list[Leaf] = []

    @property
    def format(self) -> Format:
        return self._walker.format

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        return tuple(self._leaves)

    def walk(self, va: int) -> Leaf | None:
        at = bisect_right(self._starts, va) - 1
        if at >= 0 and va < self._leaves[at].va + self._leaves[at].nbytes:
            return self._leaves[at]
        leaf = self._walker.walk(va)
        if leaf is not None and leaf.entry & SYSTEM:
            self._starts.insert(at + 1, leaf.va)
            self._leaves.insert(at + 1, leaf)
        return leaf

    def forget(self) -> None:
        self._starts, self._leaves = [], []

    def decode(self, address: int) -> tuple[Pool, int] | None:
        """Not asked: `HubTlb` places system pages itself."""
        return None


class HubTlb(Tlb):
    """Keeps a translation until it is invalidated, and uses it until then.

    Where memory lies behind a bus address is no part of a translation: the IOMMU is asked again
    each time that queues run.
    """

    def __init__(self, walker: Walker, vram: Pool, vram_pa: int, decode: Decode) -> None:
        self._kept = _Remembered(walker)
        super().__init__(self._kept, vram, self._kept)
        self.walker, self._vram_pa, self._decode = walker, vram_pa, decode
        self._used: dict[int, Run] = {}

    def lookup(self, va: int) -> Run | None:
        run = super().lookup(va)
        if run is not None:
            self._used[run.start] = run
        return run

    def split(self, va: Addresses, nbytes: int) -> tuple[list[Run], Array, Array]:
        runs, at, missing = super().split(va, nbytes)
        for number in set(at[~missing].tolist()):
            self._used[runs[number].start] = runs[number]
        return runs, at, missing

    def flush(self) -> None:
        """Forget everything."""
        super().flush()
        self._used.clear()
        self._kept.forget()

    def _place(self, leaf: Leaf, va: int) -> Run | None:
        if leaf.entry & SYSTEM:
            return self._on_bus(leaf, va)
        offset = leaf.pa - self._vram_pa
        if offset < 0 or offset + leaf.nbytes > self._vram.nbytes:
            return None
        if self._vram.is_guarded(offset, leaf.nbytes):  # then only the page of `va` is read
            into = va - leaf.va & -_PAGE_BYTES
            leaf = Leaf(leaf.va + into, _PAGE_BYTES, leaf.pa + into, leaf.entry)
            offset += into
            if self._vram.is_guarded(offset, _PAGE_BYTES):
                return None
        return self._run(leaf, self._vram, offset)

    def _on_bus(self, leaf: Leaf, va: int) -> Run | None:
        """All of a leaf where it is one piece for the IOMMU too, else the page of `va`."""
        found = self._decode(leaf.pa, leaf.nbytes, False)
        if found is None and leaf.nbytes > _PAGE_BYTES:
            into = va - leaf.va & -_PAGE_BYTES
            leaf = Leaf(leaf.va + into, _PAGE_BYTES, leaf.pa + into, leaf.entry)
            found = self._decode(leaf.pa, leaf.nbytes, False)
        if found is None:
            return None
        if leaf.entry & WRITEABLE and self._decode(leaf.pa, leaf.nbytes, True) is None:
            leaf = Leaf(leaf.va, leaf.nbytes, leaf.pa, leaf.entry & ~WRITEABLE)
        return self._run(leaf, *found)

    def ask_bus_again(self) -> None:
        """Before queues run: forget where host memory is, and not what tables said of it."""
        if self._kept.leaves:
            self.forget_runs(lambda run: run.pool is not self._vram)

    def stale(self) -> list[Run]:
        """Runs used since the last call that the tables no longer say."""
        used, self._used = self._used, {}
        return [run for run in used.values() if not self._holds(run)]

    def _holds(self, run: Run) -> bool:
        leaf = self.walker.walk(run.start, alone=True)
        if leaf is None:
            return False
        into = run.start - leaf.va
        if leaf.entry & SYSTEM:
            kept = self._kept.walk(run.start)
            return kept is not None and kept.pa + (run.start - kept.va) == leaf.pa + into
        return run.pool is self._vram and run.offset == leaf.pa - self._vram_pa + into

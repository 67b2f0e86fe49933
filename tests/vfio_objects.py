"""The made-up VFIO kernel's descriptors and mappings."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Space:
    """An address space of devices: IOVA -> (host address, bytes)."""

    mapped: dict[int, tuple[int, int]] = field(default_factory=dict)
    number: int = 1

    def overlaps(self, iova: int, size: int) -> bool:
        return any(a < iova + size and iova < a + n for a, (_, n) in self.mapped.items())


@dataclass(eq=False)
class File:
    """An open descriptor."""

    kind: str
    cdev: bool = False
    space: Space | None = None
    ready: bool = False
    """Of a device: all steps required before its use are done."""
    container: File | None = None
    event: File | None = None
    signals: int = 0
    fresh: list[Space] = field(default_factory=list)


@dataclass(eq=False)
class Area:
    """Mapped memory of the process."""

    va: int
    nbytes: int
    huge: bool
    memory: memoryview | None

    @property
    def end(self) -> int:
        return self.va + self.nbytes

    def has(self, va: int) -> bool:
        return self.va <= va < self.end

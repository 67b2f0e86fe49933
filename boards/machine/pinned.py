"""Memory of a process that a device may reach: pinned for as long as something refers to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from boards.machine import host
from boards.machine.pool import Pool


@dataclass(frozen=True, slots=True)
class Pin:
    """Pages of a process. `keep` holds the mapping they are in, where it is a world's."""

    pool: Pool
    keep: object

    def there(self) -> bool:
        """Whether the memory can still be touched: what no world mapped may be gone."""
        return self.keep is not None or host.mapped(self.pool.va, self.pool.nbytes)


class Pinner(Protocol):
    """A process as the kernel sees it when a driver asks for its pages."""

    pid: int

    def pin(self, va: int, nbytes: int, *, write: bool) -> Pin:
        """Raises: OSError EFAULT."""
        ...

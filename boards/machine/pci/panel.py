"""The fault panel of a machine's PCI bus: what goes wrong with which access, when a test says so.

An access is what costs a round trip or a system call: a register of a trapped BAR, config space, a
request to VFIO. Memory behind a mapped BAR is not counted.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from enum import StrEnum


class Kind(StrEnum):
    """How an access goes wrong."""

    TIMEOUT = "timeout"
    """ETIMEDOUT: no answer came."""
    ONES = "ones"
    """A read gives all ones, a write is lost; the next access is well again."""
    STUCK = "stuck"
    """The register keeps what was last read of it, for good."""
    GARBAGE = "garbage"
    """A read gives nonsense, a write is lost."""
    GONE = "gone"
    """The function leaves the bus: all ones for ever."""
    KILL = "kill"
    """The process is killed before the access."""


class Killed(BaseException):
    """The process of a world is no more: nothing it does from here on has an effect."""


_GARBAGE = 0x5A17_C0DE_0BAD_F00D


class BusPanel:
    """Counts the accesses to one function, and breaks the ones that are planned to break."""

    def __init__(self) -> None:
        self.reads, self.writes, self.calls = 0, 0, 0
        self.gone = False
        self.watch: Callable[[str, str, int, int], None] | None = None
        """Called with ("read" or "write" or "call", where, bytes, value) at every access."""
        self.leave: Callable[[], None] = lambda: None
        """What takes the function off the bus."""
        self.broke: list[str] = []
        """What went wrong so far: "read BAR 5 0x378c", "call ioctl ..."."""
        self._plan: dict[int, Kind] = {}
        self._stuck: dict[str, int] = {}
        self._last: dict[str, int] = {}

    @property
    def count(self) -> int:
        """Accesses since the machine was switched on."""
        return self.reads + self.writes + self.calls

    def fail(self, kind: Kind | str, *, at: int = 1) -> None:
        """The `at`-th access from now on goes wrong."""
        self._plan[self.count + at] = Kind(kind)

    def heal(self) -> None:
        """Nothing is planned or stuck any more; what is gone stays gone."""
        self._plan.clear()
        self._stuck.clear()

    @property
    def pending(self) -> bool:
        """Whether a planned failure has not happened yet."""
        return bool(self._plan)

    # What the machine asks

    def load(self, where: str, nbytes: int, read: Callable[[], int]) -> int:
        """A read. Raises: OSError ETIMEDOUT, Killed."""
        self.reads += 1
        kind = self._due("read", where)
        ones = (1 << 8 * nbytes) - 1
        if kind is Kind.STUCK:
            self._stuck[where] = self._last.get(where, 0)
        if self.gone or kind is Kind.ONES:
            value = ones
        elif kind is Kind.GARBAGE:
            value = _GARBAGE & ones
        elif where in self._stuck:
            value = self._stuck[where]
        else:
            value = read()
            self._last[where] = value
        if self.watch is not None:
            self.watch("read", where, nbytes, value)
        return value

    def store(self, where: str, nbytes: int, value: int, write: Callable[[], None]) -> None:
        """A write. Raises: OSError ETIMEDOUT, Killed."""
        self.writes += 1
        kind = self._due("write", where)
        if self.watch is not None:
            self.watch("write", where, nbytes, value)
        if kind is Kind.STUCK:
            self._stuck[where] = self._last.get(where, 0)
        if kind is None and not self.gone and where not in self._stuck:
            write()

    def call(self, where: str) -> None:
        """A request that either works or does not. Raises: OSError, Killed."""
        self.calls += 1
        kind = self._due("call", where)
        if self.watch is not None:
            self.watch("call", where, 0, 0)
        if kind is not None:
            raise OSError(errno.EIO, f"the fault panel says so: {where}")

    def _due(self, access: str, where: str) -> Kind | None:
        if not self._plan:
            return None
        kind = self._plan.pop(self.count, None)
        if kind is not None:
            self.broke.append(f"{access} {where}")
        if kind is Kind.GONE:
            self.gone = True
            self.leave()
        elif kind is Kind.KILL:
            raise Killed(where)
        elif kind is Kind.TIMEOUT:
            raise OSError(errno.ETIMEDOUT, f"the fault panel says so: {where}")
        return kind

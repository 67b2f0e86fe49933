"""What compiles for an architecture is an open device's library: compilers ask for it by name."""

from __future__ import annotations

from typing import Generic, TypeVar

from drivers.base import forks
from drivers.base.errors import Unsupported, UseAfterFree

BuilderT = TypeVar("BuilderT")


class Offers(Generic[BuilderT]):
    """Builders of open devices of one kind, by architecture."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._open: dict[str, list[BuilderT]] = {}
        """An empty list where the last was closed."""

    def offer(self, arch: str, builder: BuilderT) -> None:
        """From now on `find` finds it."""
        self._open.setdefault(arch, []).append(builder)
        forks.inherit(self)

    def withdraw(self, arch: str, builder: BuilderT) -> None:
        """No longer."""
        if self.has(arch, builder):
            self._open[arch].remove(builder)

    def has(self, arch: str, builder: BuilderT) -> bool:
        """Whether it was offered, and its device is open."""
        return builder in self._open.get(arch, ())

    def find(self, arch: str) -> BuilderT:
        """The last that was offered. Raises: Unsupported; UseAfterFree once it was closed."""
        found = self._open.get(arch)
        if found:
            return found[-1]
        if found is None:
            raise Unsupported(
                f"no open {self._kind} device is {arch}: its own library compiles for it",
                hint="open the device first, with the same library",
            )
        raise closed(arch)

    def after_fork(self) -> None:
        """In a child: these devices are not open there."""
        for builders in self._open.values():
            builders.clear()


def closed(arch: str) -> UseAfterFree:
    """The error for a compiler whose device is gone."""
    return UseAfterFree(f"the device that compiles for {arch} is closed", hint="open it again")

"""What a driver knows of its ioctls for recordings: parameters behind pointers, identifiers."""

from __future__ import annotations

from typing import Protocol


class Identifiers(Protocol):
    """Exchanges identifiers of this machine, in structs of ioctls, for the recording's own.

    Equal ones stay equal, so that a replay needs no machine.
    """

    def params(self, request: int, argument: bytearray) -> int:
        """The address of parameters that the argument points at; 0 without any."""

    def reveal(self, request: int, argument: bytearray, params: memoryview) -> None:
        """Before the machine's ioctl: the machine's identifiers in place of the recording's."""

    def hide(self, request: int, argument: bytearray, params: memoryview) -> None:
        """After it: the recording's in place of the machine's, and no address of the machine."""


class NoIdentifiers:
    """Of a driver whose structs hold neither."""

    def params(self, request: int, argument: bytearray) -> int:
        """Nothing is behind a pointer."""
        return 0

    def reveal(self, request: int, argument: bytearray, params: memoryview) -> None:
        """Nothing to exchange."""

    def hide(self, request: int, argument: bytearray, params: memoryview) -> None:
        """Nothing to exchange."""

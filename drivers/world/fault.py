"""How one operation of a world fails; `drivers.world.faulty` chooses which one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Self

from drivers.base.errors import DeviceError
from drivers.base.oserrors import translate

ALL_ONES = 0xFF


@dataclass(frozen=True, slots=True)
class Fault:
    """How an operation fails.

    "errno": it raises the error of `number`. "ones": what it reads is all ones. "zeros": all
    zero. "short": only the first half arrives. Operations without a result (write, close)
    raise EIO for the last three.
    """

    kind: str
    number: int = 5  # src: include/uapi/asm-generic/errno-base.h, EIO

    @classmethod
    def of_errno(cls, number: int) -> Self:
        """The operation fails with errno `number`."""
        return cls("errno", number)

    def spoil(self, data: bytes) -> bytes:
        """The data that is read instead of `data`."""
        if self.kind == "short":
            return data[: len(data) // 2]
        return bytes([ALL_ONES if self.kind == "ones" else 0]) * len(data)

    def error(self, operation: str) -> DeviceError:
        """The error of `operation`, with its OSError as the cause."""
        cause = OSError(self.number, os.strerror(self.number))
        error = translate(cause, f"{operation} (injected)")
        error.__cause__ = cause
        return error

"""Operations that cannot be recorded: duplicates, polls, libraries.

No recorded driver uses them yet.
"""

from __future__ import annotations

from typing import NoReturn

from drivers.base.errors import Unsupported


def _refuse(what: str) -> NoReturn:
    raise Unsupported(f"{what} cannot be recorded or replayed", hint="use a driver without it")


class Untaped:
    """The methods of a World that a tape refuses."""

    def duplicate(self, fd: int) -> NoReturn:
        _refuse(f"a duplicate of descriptor {fd}")

    def poll(self, fd: int, timeout_s: float) -> bool:
        _refuse(f"a poll of descriptor {fd}")

    def library(self, name: str) -> NoReturn:
        _refuse(f"the library {name}")

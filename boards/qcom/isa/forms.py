"""An encoding under the cases that hold, taken together once: words that share them are many.

# src: Mesa 25.0.7, docs/isaspec.rst: the first case that knows a name decides
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from boards.qcom.isa.table import Case, Encoding, Field

_PIECE: Final = re.compile(r"\{(\w+)\}|([^{]+)")


@cache
def pieces(text: str) -> tuple[tuple[str, str], ...]:
    """A template's parts in order: a field's name, or words; the other is empty."""
    return tuple((found.group(1) or "", found.group(2) or "") for found in _PIECE.finditer(text))


@dataclass(frozen=True, slots=True)
class Form:
    """What holds for every word of an encoding whose conditions come out alike."""

    fields: Mapping[str, Field]
    """In the order of the cases."""
    shown: Case | None
    """The case whose text is the encoding's."""
    asserts: tuple[tuple[int, int, int], ...]
    """Low and high bit, and what they must be: of cases up to the one that is shown."""


@cache
def form_of(encoding: Encoding, holds: tuple[bool, ...]) -> Form:
    """`holds`: whether each case's condition does."""
    fields: dict[str, Field] = {}
    asserts: list[tuple[int, int, int]] = []
    shown = None
    for case, does in zip(encoding.cases, holds, strict=True):
        if not does:
            continue
        for name, one in case.fields.items():
            fields.setdefault(name, one)
        if shown is None:
            asserts += case.asserts
            shown = case if case.text is not None else None
    return Form(fields, shown, tuple(asserts))

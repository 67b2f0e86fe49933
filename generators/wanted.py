"""Which registers of a block's headers are kept: names, one a line, in `wanted/*.txt`.

`#` stands for a number and `*`, at the end, for any rest. The names serve every version of a block:
what one version lacks is left out of its file. The driver and the board keep separate lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from generators.source import Unreadable

_FOLDER = Path(__file__).parent / "wanted"
_MEANING = {"#": r"\d+", "*": r".*"}


def _pattern(line: str) -> str:
    return "".join(_MEANING.get(letter, re.escape(letter)) for letter in line)


def wanted(name: str) -> Callable[[str], bool]:
    """Whether a register is in a list ("driver_gc"). Raises: Unreadable."""
    try:
        lines = (_FOLDER / f"{name}.txt").read_text("ascii").split()
    except OSError as error:
        raise Unreadable(f"no list of registers {name!r}") from error
    pattern = re.compile("|".join(map(_pattern, lines)))
    return lambda register: pattern.fullmatch(register) is not None


def never_used(name: str, registers: Iterable[str]) -> list[str]:
    """The lines of a list that match none of the registers."""
    known = list(registers)
    lines = (_FOLDER / f"{name}.txt").read_text("ascii").split()
    return [line for line in lines if not any(map(re.compile(_pattern(line)).fullmatch, known))]

"""Lines of opcodes that the search divides wrongly: `tests/sass/by_hand/sm_86.txt`.

An opcode that is there is not searched. Its lines are measured and proved as those of the search.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from tests.sass.plan import Line, read

_FOLDER = Path(__file__).parent / "by_hand"


def file(arch: str) -> Path:
    """Where an architecture's lines are; it may have none."""
    return _FOLDER / f"{arch}.txt"


def lines(arch: str, opcodes: Collection[int] = ()) -> list[Line]:
    """Its lines, of some opcodes or of all."""
    path = file(arch)
    if not path.is_file():
        return []
    return [one for one in read(path.read_text("ascii")) if not opcodes or one.opcode in opcodes]

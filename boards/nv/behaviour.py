"""What NVIDIA's kernel modules do with each request, by release: the tables beside this file.

`boards/nv/behaviour_tables/*.txt` were written from the kernel's source alone.
boards/machine/behaviour.py says how to read them. A request's entry has its number, as the rule
"is".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from boards.machine.behaviour import Behaviour, Entry, load

TABLES = ("escapes", "classes", "controls", "uvm")
_FOLDER = Path(__file__).with_name("behaviour_tables")
_IS = "is"


def table(name: str) -> Behaviour:
    """One of the tables."""
    return load(_FOLDER / f"{name}.txt")


@cache
def requests(name: str) -> Mapping[int, Entry]:
    """The requests of a table by their numbers."""
    entries = table(name).entries
    return {one.number: one for one in entries if one.rule == _IS and one.number is not None}


def there(name: str, number: int, branch: int) -> bool:
    """Whether a branch of the kernel driver has a request, where the table knows it."""
    found = requests(name).get(number)
    newest = table(name).releases[-1]
    return found is None or str(min(branch, int(newest))) in found.releases

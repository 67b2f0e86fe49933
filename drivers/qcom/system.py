"""The machine's memory, which its GPU uses."""

from __future__ import annotations

from drivers.base.contracts import World
from drivers.base.errors import MalformedInput
from drivers.machine.text import fields, read_text

PATH = "/proc/meminfo"
_KIB = 1024


def memory_bytes(world: World) -> int:
    """MemTotal. Raises: MalformedInput, NotFound."""
    number, _, unit = dict(fields(read_text(world, PATH))).get("MemTotal", "").partition(" ")
    if not number.isdecimal() or unit != "kB":
        raise MalformedInput(f"{PATH} has no MemTotal in kB")
    return int(number) * _KIB

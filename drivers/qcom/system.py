"""The machine's memory, which its GPU uses."""

from __future__ import annotations

import re

from drivers.base.contracts import World
from drivers.base.errors import Denied, MalformedInput, NotFound
from drivers.machine.text import fields, read_text

PATH = "/proc/meminfo"
LEAST_BYTES = 1 << 30
"""Where a process may not read that: less than any machine with one of these GPUs has."""
_KIB = 1024
_NUMBER = re.compile(r"[0-9]{1,15}").fullmatch


def memory_bytes(world: World) -> int:
    """MemTotal. Raises: MalformedInput."""
    try:
        text = read_text(world, PATH)
    except (NotFound, Denied):
        return LEAST_BYTES
    number, _, unit = dict(fields(text)).get("MemTotal", "").partition(" ")
    if not _NUMBER(number) or unit != "kB":
        raise MalformedInput(f"{PATH} has no MemTotal in kB")
    return int(number) * _KIB

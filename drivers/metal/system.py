"""Whether this is the system that has Metal."""

from __future__ import annotations

from drivers.base.contracts import World
from drivers.base.errors import NotFound
from drivers.machine.text import first_line


def elsewhere(world: World) -> NotFound | None:
    """Why there is no Metal on another system than macOS; None on macOS, which has no /proc."""
    system = first_line(world, "/proc/sys/kernel/ostype")
    if not system:
        return None
    return NotFound(f"this is {system}; Metal is macOS", hint="use a Mac, or another device here")

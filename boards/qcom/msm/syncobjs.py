"""Sync objects of DRM, binary and timeline.

src: Linux 6.12, drivers/gpu/drm/drm_syncobj.c
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field

Fence = Callable[[], bool]
_SIGNALED = 1


def _signalled() -> bool:
    return True


@dataclass(slots=True, eq=False)
class Syncobj:
    """One; point 0 is the fence of a binary one."""

    points: dict[int, Fence] = field(default_factory=dict)

    def put(self, point: int, fence: Fence) -> None:
        """A fence for a point; a binary one has one alone."""
        if not point:
            self.points.clear()
        self.points[point] = fence

    def fence(self, point: int) -> Fence | None:
        """What will signal a point: the first fence at it, or after it."""
        later = [at for at in self.points if at >= point] if point else list(self.points)
        return self.points[min(later)] if later else None

    @property
    def value(self) -> int:
        """The last point that was reached."""
        return max((point for point, fence in self.points.items() if fence()), default=0)


class Syncobjs:
    """By handle, of one open file."""

    def __init__(self) -> None:
        self.by_handle: dict[int, Syncobj] = {}
        self._next = 1

    def get(self, handle: int) -> Syncobj:
        """By handle. Raises: OSError ENOENT."""
        found = self.by_handle.get(handle)
        if found is None:
            raise OSError(errno.ENOENT, f"no sync object {handle}")
        return found

    def create(self, flags: int) -> int:
        """Its handle. Raises: OSError EINVAL."""
        if flags & ~_SIGNALED:
            raise OSError(errno.EINVAL, f"a sync object of flags {flags:#x}")
        made = Syncobj()
        if flags:
            made.put(0, _signalled)
        return self.add(made)

    def add(self, made: Syncobj) -> int:
        """A handle of one."""
        handle, self._next = self._next, self._next + 1
        self.by_handle[handle] = made
        return handle

    def destroy(self, handle: int) -> None:
        """Raises: OSError EINVAL."""
        if self.by_handle.pop(handle, None) is None:
            raise OSError(errno.EINVAL, f"no sync object {handle}")

    def signal(self, handle: int, point: int = 0) -> None:
        """The host reaches a point."""
        self.get(handle).put(point, _signalled)

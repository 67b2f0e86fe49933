"""A signal handler may interrupt an import that a compilation or an opening needs.

Until the handler returns, the module stays half made: Python gives it to the handler's own import
of it, in the same thread, and whatever the rest would have defined is missing. A handler that only
launches what is compiled imports nothing and is let through.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Final

from drivers.base.errors import DeviceError

OURS: Final = frozenset({"tensor", "compilers", "drivers", "queues"})
NEEDED: Final = OURS | {
    "llvmlite", "elftools", "cffi", "pycparser", "capstone", "usb", "pyopencl", "numpy",
    "ml_dtypes",
}  # fmt: skip
_FILE: Final = "<frozen importlib._bootstrap>"
_FUNCTION: Final = "_find_and_load"
_MACHINERY: Final = ("importlib", "_frozen_importlib")
MOST_FRAMES: Final = 100_000
"""More than Python lets a thread have."""


def check_imports() -> None:
    """For the start of what imports late. Raises: DeviceError inside an import of the same thread
    that is of ours, of a package that we need, or that a module of ours has begun."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(MOST_FRAMES):
        if frame is None:
            return
        code = frame.f_code
        if code.co_name == _FUNCTION and code.co_filename == _FILE:
            name = str(frame.f_locals.get("name", ""))
            if _top(name) in NEEDED or _top(_importer(frame)) in OURS:
                raise DeviceError(
                    f"this signal handler interrupts the import of {name}",
                    hint="compute later: have the handler set a flag that the program looks at",
                )
        frame = frame.f_back


def _top(name: str) -> str:
    return name.partition(".")[0]


def _importer(frame: FrameType) -> str:
    """The module whose statement or call has begun an import."""
    above = frame.f_back
    for _ in range(MOST_FRAMES):
        if above is None:
            return ""
        name = str(above.f_globals.get("__name__", ""))
        if not name.startswith(_MACHINERY):
            return name
        above = above.f_back
    return ""

"""What a process of tests has in memory stays small: boards that no test uses any more are let go.

A board is a few objects with up to hundreds of megabytes behind them, and often part of a cycle.
Python collects cycles by the number of objects, so many boards may wait for that.
"""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import cffi
import pytest

GROWTH_BYTES = 256 << 20
"""Since the last collection; then one of what tests made since is due. It is cheap."""
WHOLE_GROWTH_BYTES = 768 << 20
"""Since the last collection of everything; then the next one is due, which takes seconds."""
_STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """0 where there is no /proc."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        return 0


def collect() -> None:
    """Collect, and have later collections skip what is alive.

    Twice: a lost GPU that the first one finds keeps its board until it is forgotten. It is not
    given back, since a test may have killed its process on the board.
    """
    from drivers.claim import lost

    gc.collect()
    lost.forget()
    gc.collect()
    gc.freeze()
    _trim()


@cache
def _c_library() -> tuple[cffi.FFI, Any]:
    ffi = cffi.FFI()
    ffi.cdef("int malloc_trim(size_t pad);")
    return ffi, ffi.dlopen(None)


def _trim() -> None:
    """Have glibc return free memory between blocks in use; other C libraries have no such call."""
    with suppress(AttributeError):
        _c_library()[1].malloc_trim(0)


class Resting:
    """The plugin: between tests it collects once the process has grown."""

    def __init__(self) -> None:
        self._last_bytes = self._last_whole_bytes = resident_bytes()

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self) -> None:
        now_bytes = resident_bytes()
        whole = now_bytes > self._last_whole_bytes + WHOLE_GROWTH_BYTES
        if whole:
            gc.unfreeze()  # of what was alive then, some is not now
        if whole or now_bytes > self._last_bytes + GROWTH_BYTES:
            collect()
            self._last_bytes = resident_bytes()
        if whole:
            self._last_whole_bytes = self._last_bytes

"""A library stays loaded while its functions are held, though nothing holds the library."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from drivers.base.errors import NotFound
from drivers.world.libraries import load
from tests.support import check

SMALL = "libBrokenLocale.so.1"
"""Of glibc, and used by no other test."""


def test_functions_outlive_the_library() -> None:
    """Found by the guest on USB: libusb was unloaded, and its functions were called."""
    try:
        library = load(SMALL)
    except NotFound:
        pytest.skip("no glibc here")
    call = library.function("__ctype_get_mb_cur_max", "uint64_t(*)(void)")
    del library
    gc.collect()
    check(SMALL in Path("/proc/self/maps").read_text(), "it was unloaded")
    check(call() >= 1)

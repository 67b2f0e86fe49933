"""The dispatch table's order, by a second witness: a vendor that exports its functions, too."""

from __future__ import annotations

import _cffi_backend
import pytest

from drivers.base.errors import DeviceError, NotFound
from drivers.cl import abi, libraries
from drivers.cl.api import Words
from drivers.cl.errors import error_of, signed
from drivers.cl.platforms import find
from drivers.world.linux import LinuxWorld
from tests.opencl import need
from tests.support import check

FFI = _cffi_backend.FFI()
SYMBOL = "clGetPlatformIDs"


def test_each_place_of_the_table_is_the_function_of_that_name() -> None:
    platform = need("intel")
    world = LinuxWorld()
    found = next(one for one in find(world)[0] if one.platform_name == platform)
    table = libraries.word(world, found.platform)
    library = world.library(found.api.name)
    for name, call in {**abi.CALLS, **abi.SVM_CALLS}.items():
        exported = int(FFI.cast("uintptr_t", library.function(name, call.signature)))
        at = libraries.word(world, table + call.place * abi.POINTER_BYTES)
        check(at == exported, f"{name}: place {call.place} is another function")


def test_the_wheel_without_exports_is_reached_through_its_table() -> None:
    platform = need("pocl")
    world = LinuxWorld()
    found = next(one for one in find(world)[0] if one.platform_name == platform)
    library = world.library(found.api.name)
    with pytest.raises(NotFound):
        library.function(SYMBOL, abi.CALLS[SYMBOL].signature)


def test_a_status_is_signed() -> None:
    for status in (-5, 0, -1001):
        check(signed(status & 0xFFFFFFFF) == status == signed(status), f"{status}")
    for status in abi.STATUS:
        error = error_of("clCall", status)
        check(isinstance(error, DeviceError) and abi.STATUS[status] in str(error), f"{error}")
        check(error.hint and str(error).endswith(error.hint), f"{error}")
    check("unknown status (-9999)" in str(error_of("clCall", -9999)), "a vendor's own")
    check(Words([7]).status == 7, "in the first word")

"""numpy arrays in buffers, and the errors that every device raises alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from numpy.typing import NDArray

from drivers.base.contracts import Buffer, Device
from drivers.base.errors import DeviceError
from tests.support import check

Array = NDArray[np.int32]


def ramp(count: int, start: int = 0) -> Array:
    """start, start + 1, ..."""
    return np.arange(start, start + count, dtype=np.int32)


def put(device: Device, values: Array) -> Buffer:
    """A buffer with these values."""
    buffer = device.alloc(values.nbytes)
    device.copy_in(buffer, memoryview(values).cast("B"))
    return buffer


def get(device: Device, buffer: Buffer) -> Array:
    """A buffer's values."""
    values = np.empty(buffer.nbytes // 4, np.int32)
    device.copy_out(memoryview(values).cast("B"), buffer)
    return values


@contextmanager
def refused(*kinds: type[DeviceError]) -> Iterator[None]:
    """The block raises one of these, and its message ends with what to do."""
    with pytest.raises(kinds) as caught:
        yield
    check(type(caught.value) in kinds, f"{caught.value!r}, not exactly {kinds}")
    check(caught.value.hint and str(caught.value).endswith(caught.value.hint), f"{caught.value!r}")

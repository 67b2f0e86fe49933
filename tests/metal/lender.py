"""Another library on the made-up Metal, which lends MTLBuffers to a device."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import numpy as np
import pytest

import tensor as xp
from drivers.metal.device import MetalDevice
from drivers.world.native import memory_at
from tensor import engine
from tests.metal.made_up import metal, runtime

F32: Final = (2, 32, 1)
COUNT: Final = 1024
MODES: Final = {"shared": 0, "private": 2}
"""# src: Apple, MTLStorageMode"""
everywhere = pytest.mark.parametrize("mode", MODES)


class Client:
    """Other code with the same MTLDevice: it makes buffers, and sees their bytes."""

    def __init__(self, device: MetalDevice) -> None:
        self.device, self.send = device, device.api.send
        self.lib = runtime().lib

    def buffer(self, values: Any, mode: str = "shared", gpu: int = 0) -> int:
        handle = int(self.lib.made_up_buffer(gpu, values.nbytes, MODES.get(mode, 1)))
        self.bytes(handle, values.nbytes)[:] = values.reshape(-1).view(np.uint8)
        return handle

    def bytes(self, handle: int, nbytes: int = 4 * COUNT) -> Any:
        place = int(self.lib.made_up_bytes(handle))
        return np.frombuffer(memory_at(place, nbytes, lambda: None), np.uint8)

    def floats(self, handle: int) -> Any:
        return self.bytes(handle).view(np.float32)

    def release(self, handle: int) -> None:
        self.send["release"](handle)


@contextmanager
def client(**settings: str) -> Iterator[Client]:
    with metal(**settings) as device, engine.adopted("METAL", device):
        yield Client(device)
        gc.collect()


class Owner:
    """Something that can be watched."""


def numbers(count: int = COUNT) -> Any:
    return np.arange(count, dtype=np.float32)


def forgotten() -> None:
    gc.collect()
    xp.ones(1, device="METAL").realize()


blob = partial(xp.from_blob, dtype="float32", device="METAL")

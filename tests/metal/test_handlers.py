"""Python's signal handlers that use a Metal device while it works: refused, and nothing changes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import pytest

from drivers.base.errors import DeviceError, Unsupported
from drivers.metal.device import MetalDevice
from tests.contract.arrays import get, put, ramp
from tests.metal.made_up import metal
from tests.metal.test_device import COUNT, GRID, operands, program
from tests.support import check

MESSAGES: Final = (
    "commandBuffer", "computeCommandEncoder", "setComputePipelineState:", "endEncoding", "commit",
    "status", "GPUEndTime", "setBuffer:offset:atIndex:", "encodeSignalEvent:value:",
)  # fmt: skip


@contextmanager
def _interrupted(
    device: MetalDevice, message: str, handler: Callable[[], object]
) -> Iterator[list[object]]:
    """Each first message of that name is interrupted by a signal; what its handler raised."""
    raised: list[object] = []
    send = device.api.send
    inner = send[message]

    def handle(*_: object) -> None:
        try:
            handler()
            raised.append(None)
        except DeviceError as error:
            raised.append(error)

    def call(*args: Any) -> Any:
        if not raised:
            signal.raise_signal(signal.SIGUSR1)
        return inner(*args)

    before = signal.signal(signal.SIGUSR1, handle)
    send[message] = call
    try:
        yield raised
    finally:
        send[message] = inner
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize(
    "name", ["launch", "submit", "copy", "synchronize", "value", "set", "alloc", "replay", "close"]
)
def test_a_handler_is_refused(message: str, name: str) -> None:
    with metal() as device:
        kernel, (a, b, c), other = program(device), operands(device), device.new_signal()
        spare, done = put(device, ramp(COUNT)), device.new_signal()
        graph = device.copy_queue().copy(spare, b, 4 * COUNT).bind()
        does: dict[str, Callable[[], object]] = {
            "launch": lambda: device.launch(kernel, [b, a, spare], 4),
            "submit": lambda: device.copy_queue().copy(spare, a, 4 * COUNT).submit(),
            "copy": lambda: get(device, spare),
            "synchronize": lambda: device.synchronize(),
            "value": lambda: other.value,
            "set": lambda: other.set(1),
            "alloc": lambda: device.alloc(4 * COUNT),
            "replay": lambda: graph.replay(),
            "close": lambda: device.close(),
        }
        with _interrupted(device, message, does[name]) as raised:
            device.launch(kernel, [a, b, c], 4)
            device.compute_queue().exec(kernel, [c, b, a], GRID).signal(done, 1).submit()
            done.wait(1, 2.0)
        check(len(raised) == 1, f"{message} is not sent")
        check(isinstance(raised[0], Unsupported), f"{raised[0]!r}")
        x, y = ramp(COUNT), ramp(COUNT, 5)
        np.testing.assert_array_equal(get(device, c), 3 * x + y)
        np.testing.assert_array_equal(get(device, a), 3 * (3 * x + y) + y)
        np.testing.assert_array_equal(get(device, spare), x, "the handler changed nothing")
        check(other.value == 0, "nor the signal")
        graph.close()

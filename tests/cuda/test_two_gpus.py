"""Pinned memory of the host on two GPUs, and events that give order alone.

# src: cuda.h, CU_MEMHOSTREGISTER_PORTABLE: "considered as pinned memory by all CUDA contexts, not
# src: just the one that performed the allocation"; CU_EVENT_DISABLE_TIMING
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from boards.cuda.library import MadeUpCuda
from drivers.base.errors import BadArgument, DeviceFault, Unsupported
from drivers.cuda import abi, lent
from drivers.cuda.device import CudaDevice
from drivers.cuda.memory import CudaBuffer
from drivers.cuda.peers import Peers
from drivers.cuda.pinned import pinned
from tests.contract.arrays import get, put, ramp
from tests.cuda.made_up import CudaWorld, cuda, open_on
from tests.cuda.test_device import COUNT, WANTED, program
from tests.nv_cubins import needs_nvrtc
from tests.support import check

pytestmark = needs_nvrtc


@contextmanager
def two(world: CudaWorld) -> Iterator[tuple[CudaDevice, CudaDevice]]:
    with open_on(world) as one, open_on(world, 1) as other:
        yield one, other


def filled(device: CudaDevice) -> CudaBuffer:
    made = pinned(device, 4 * COUNT)
    np.frombuffer(made.view(), np.int32)[:COUNT] = ramp(COUNT)
    return made


@pytest.mark.parametrize("peers", [True, False])
def test_pinned_memory_is_that_of_both_gpus(peers: bool) -> None:
    """GeForces without a way to each other reach it, too."""
    world = CudaWorld(MadeUpCuda(peers=peers))
    with two(world) as (one, other):
        a = filled(one)
        b, c = put(other, ramp(COUNT, 5)), other.alloc(4 * COUNT)
        check(a.map_to(other) == a.gpu_va, "one address")
        other.launch(program(other), [a, b, c], 4)
        np.testing.assert_array_equal(get(other, c), WANTED)
        if not peers:
            with pytest.raises(Unsupported, match="copy it"):
                put(one, ramp(COUNT)).map_to(other)
    check(world.found() == [] and world.made.leaks() == [], f"{world.made.state.violations}")


def test_pages_that_are_not_portable_are_those_of_one_context(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rule of cuda.h on the made-up library: access to a peer changes nothing."""
    monkeypatch.setattr(abi, "HOST_PORTABLE", 0)
    world = CudaWorld()
    with two(world) as (one, other):
        a, b, c = filled(one), put(other, ramp(COUNT, 5)), other.alloc(4 * COUNT)
        with pytest.raises(BadArgument, match="cuMemHostGetDevicePointer"):
            a.map_to(other)
        monkeypatch.setattr(Peers, "check_host", lambda self, _: None)
        video = put(one, ramp(COUNT))
        video.map_to(other)  # peers now
        a.map_to(other)
        other.launch(program(other), [a, b, c], 4)
        with pytest.raises(DeviceFault, match="ILLEGAL_ADDRESS"):
            other.synchronize(5.0)
    check(any("not registered" in rule for rule in world.found()), "the pointer was refused")


def test_order_alone_takes_events_without_a_time() -> None:
    made: list[int] = []
    with cuda() as device:
        create = device.api.functions["cuEventCreate"]

        def counted(at: int, flags: int) -> int:
            made.append(flags)
            return int(create(at, flags))

        device.api.functions["cuEventCreate"] = counted
        streams = lent.streams(device)
        for _ in range(3):
            streams.follow(1)
            streams.precede(1)
        device.synchronize(5.0)
        check(made and set(made) == {abi.EVENT_DISABLE_TIMING}, f"{made}")
        check(len(made) <= 2, f"{made}: they are used again")

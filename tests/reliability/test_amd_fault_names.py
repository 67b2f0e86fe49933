"""What ran when something went wrong is named, though nobody holds its program any more."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from boards.amd.kfd.world import BoardWorld
from boards.amd.machine import open_board
from drivers.amd.device import AmdDevice
from drivers.amd.kfd.session import close_session
from drivers.base.errors import DeviceFault
from drivers.world.foreign import ForeignWorld
from tests.boards.driver_harness import add, open_on, put
from tests.support import check

CHIP, N = "gfx1100", 64
COMPUTE = "AMD:0 compute queue"


@contextmanager
def opened(queue: str = "PM4") -> Iterator[tuple[BoardWorld, AmdDevice]]:
    """A board and a device on it."""
    board = open_board(CHIP)
    world = ForeignWorld(board)
    device = open_on(world, queue)
    try:
        yield board, device
    finally:
        device.close()
        close_session(world)


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_a_program_that_was_dropped_while_it_ran_is_named(queue: str) -> None:
    with opened(queue) as (_, device):
        x = put(device, np.ones(N, np.float32))
        device.launch(device.load(add(CHIP)), [x, x, 0x1000_0000, N], 1)
        gc.collect()
        with pytest.raises(DeviceFault) as raised:
            device.synchronize()
        check((raised.value.kernel, raised.value.queue) == ("k", COMPUTE), f"{raised.value}")


@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_a_program_that_was_closed_while_it_ran_is_named(queue: str) -> None:
    with opened(queue) as (_, device):
        x = put(device, np.ones(N, np.float32))
        program = device.load(add(CHIP))
        device.launch(program, [x, x, 0x1000_0000, N], 1)
        program.close()
        with pytest.raises(DeviceFault) as raised:
            device.synchronize()
        check((raised.value.kernel, raised.value.queue) == ("k", COMPUTE), f"{raised.value}")


def test_a_closed_program_does_not_share_its_address_with_the_next() -> None:
    with opened() as (_, device):
        old = device.load(replace(add(CHIP), name="old"))
        va = old.gpu_va
        old.close()
        device.synchronize()
        new = device.load(replace(add(CHIP), name="new"))
        check(new.gpu_va == va, "its address is not used again: this shows nothing")
        named = device.programs.names(descriptor_va=va)
        check(named == ["new"], f"{named}")


def test_programs_that_go_while_a_fault_is_named() -> None:
    """A collection may come between any two steps of a search."""
    with opened() as (_, device):
        programs = device.programs
        device.load(replace(add(CHIP), name="first")).close()
        held = [device.load(add(CHIP)) for _ in range(3)]
        searched: list[object] = []

        class Seeker(int):
            """An address during whose comparison a program goes."""

            def __eq__(self, other: object) -> bool:
                searched.append(other)
                if len(searched) > 3 and held:  # those that are alive are searched first
                    held.pop()
                return False

            __hash__ = int.__hash__

        check(programs.names(descriptor_va=Seeker(1)) == [], "nothing is there")
        check(len(held) < 3, "nothing went meanwhile")


@pytest.mark.parametrize("trouble", ["ecc", "gpu_reset"])
@pytest.mark.parametrize("queue", ["PM4", "AQL"])
def test_a_reset_names_the_kernel_and_the_queue_that_were_not_finished(
    trouble: str, queue: str
) -> None:
    """KFD's event has neither. src: kfd_ioctl.h struct kfd_hsa_hw_exception_data"""
    with opened(queue) as (board, device):
        x = put(device, np.ones(N, np.float32))
        board.panel.hang(device.compute.hw.queue_id)
        device.launch(device.load(add(CHIP)), [x, x, x, N], 1)
        getattr(board.panel, trouble)()
        with pytest.raises(DeviceFault) as raised:
            device.synchronize()
        check((raised.value.kernel, raised.value.queue) == ("k", COMPUTE), f"{raised.value}")
        check("while kernel 'k' ran on" in str(raised.value), f"{raised.value}")


@pytest.mark.parametrize("trouble", ["ecc", "gpu_reset"])
def test_a_reset_of_an_idle_gpu_names_nobody(trouble: str) -> None:
    with opened() as (board, device):
        getattr(board.panel, trouble)()
        with pytest.raises(DeviceFault) as raised:
            device.synchronize()
        check((raised.value.kernel, raised.value.queue) == ("", ""), f"{raised.value}")

"""poll() of an event of a board over PCI: it tells what wait_event() would take."""

from __future__ import annotations

import pytest

from boards.amd.pci_machine import open_pci_board
from boards.machine.open_files import EventFile
from drivers.base.errors import DeviceError
from drivers.world.foreign import ForeignWorld
from tests.support import check


def test_a_poll_takes_nothing() -> None:
    board = open_pci_board("gfx1100")
    world = ForeignWorld(board)
    fd = world.eventfd()
    check(not world.poll(fd, 0.5), "nothing is there")
    event = board._file(fd)
    check(isinstance(event, EventFile), f"{event}")
    event.signal()
    check(world.poll(fd, 0) and world.poll(fd, 0), "and it stays there")
    check(world.wait_event(fd, 0) and not world.poll(fd, 0), "until it is taken")
    world.close(fd)
    with pytest.raises(DeviceError):
        world.poll(fd, 0)

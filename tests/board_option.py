"""`pytest --board gfx1100 [--iface PCI] [--aql | --pm4] [--hip]`: tensor tests on a board.

The board's GPU becomes the default device of the whole run, so the tests of the tensor layer run on
it unchanged: over KFD because the machine has it and nothing is set, over PCI because DEV names it.
A test with a violation on the board has failed, whatever it computed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from boards.front import Board, Setup, power_on
from boards.run import set_environ
from drivers.base.contracts import Device
from tensor import engine

QUEUES = ("PM4", "AQL")
VRAM_BYTES = 1 << 30


@contextmanager
def board_as(
    name: str, chip: str, queue: str, compiler: str = "", iface: str = "KFD", dma: str = ""
) -> Iterator[Board]:
    """A board whose GPU is the tensor device `name` ("AMD", "AMD:1") inside the block.

    `queue` "" is what the chip's driver prefers, else "PM4" or "AQL". Queues run late, as
    silicon's do, so that a driver that forgets to wait is noticed.
    """
    aql = queue == "AQL" if queue else None
    front = power_on(Setup(chip, aql=aql, vram_bytes=VRAM_BYTES, iface=iface, dma=dma, late=True))
    with front.open() as device, engine.adopted(name, device, compiler):
        check_device(device, chip)
        yield front.board


@contextmanager
def board_as_machine(chip: str, queue: str, compiler: str) -> Iterator[Board]:
    """A machine with a board's GPU under its kernel driver, without a chosen device."""
    aql = queue == "AQL" if queue else None
    setup = Setup(chip, aql=aql, compiler=compiler or "LLVM", vram_bytes=VRAM_BYTES, late=True)
    set_environ(setup, os.environ)
    del os.environ["DEV"]
    front = power_on(setup)
    with engine.on_machine(front.world):
        check_device(engine.device(), chip)
        yield front.board


def check_device(device: Device, chip: str) -> None:
    """Check that tests run on the board they name."""
    if device.arch != chip or device.limits.uses_host_memory:
        raise AssertionError(f"{device} is not the board {chip}")


class BoardRun:
    """The plugin of `--board`: opened with the session, checked after every test."""

    def __init__(self, chip: str, queue: str, compiler: str, iface: str, dma: str = "") -> None:
        kind = queue or "its own kind of"
        self.title = f"board {chip} over {iface}, {kind} queue, {compiler or 'LLVM'}"
        self._wanted = (chip, queue, compiler, iface, dma)
        self._open = ExitStack()
        self._board: Board | None = None

    def pytest_sessionstart(self) -> None:
        chip, queue, compiler, iface, _ = self._wanted
        if iface == "KFD":
            made = board_as_machine(chip, queue, compiler)
        else:
            os.environ["DEV"] = "AMD"
            made = board_as("AMD", *self._wanted)
        self._board = self._open.enter_context(made)

    def pytest_report_header(self) -> str:
        return self.title

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        skip = pytest.mark.skip(reason="memory of a card is not shared with numpy or DLPack")
        for item in items:
            if item.get_closest_marker("host_memory"):
                item.add_marker(skip)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        result = yield
        if self._board is not None:
            found = [str(violation) for violation in self._board.violations]
            self._board.hardware.forget_violations()
            if found:
                pytest.fail(f"{item.name}: the board found {found}", pytrace=False)
        return result

    def pytest_sessionfinish(self) -> None:
        self._open.close()

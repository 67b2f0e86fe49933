"""One GPU of a board over PCI, claimed and in a session, without the rest of the driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from boards.amd.pci_machine import open_pci_board
from boards.machine.pci.world import PciWorld
from drivers.amd.claim_chips import known
from drivers.amd.firmware.assemble import FirmwareSet
from drivers.amd.pci import boot
from drivers.amd.pci.gpu import BareGpu
from drivers.amd.pci.opening import chip_of, chosen, firmware_of
from drivers.choice import choose
from drivers.claim.claim import claim
from drivers.pci.session import PciSession, open_session
from drivers.world.foreign import ForeignWorld
from tests.support import check

__all__ = ["bare", "firmware", "identified", "open_pci_board", "quiet"]


def firmware(board: PciWorld) -> FirmwareSet:
    """The synthetic files of the board, checked and parsed."""
    world = ForeignWorld(board)
    function = chosen(world, 0)
    choice = choose({"AMD_IFACE": "PCI", "UNBOUND_FIRMWARE_MANIFEST": board.firmware}, "AMD")
    return firmware_of(world, choice, function, chip_of(function))


@contextmanager
def bare(board: PciWorld) -> Iterator[PciSession]:
    """The first GPU, given back at the end."""
    world = ForeignWorld(board)
    function = chosen(world, 0)
    with claim(world, board.state, function.address, known) as claimed:
        session = open_session(world, claimed, address_bits=44)
        try:
            yield session
        finally:
            session.close()


@contextmanager
def identified(board: PciWorld) -> Iterator[BareGpu]:
    """The same, its discovery table read."""
    chip = chip_of(chosen(ForeignWorld(board), 0))
    with bare(board) as session:
        yield boot.identify(session, chip)


def quiet(board: PciWorld) -> None:
    """Check that the board has no violations."""
    check(not board.violations, "\n".join(str(violation) for violation in board.violations))

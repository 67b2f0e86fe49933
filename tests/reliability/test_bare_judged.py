"""What an opening over PCI cannot have is refused before the first write to the machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from boards.amd.pci.options import PciOptions
from boards.machine.pci.sysfs import folder_of
from boards.machine.pci.world import PciWorld
from drivers.amd.pci.survey import candidates
from drivers.base.errors import Denied, DeviceError, MalformedInput, OutOfMemory, Unsupported
from drivers.choice import choose
from drivers.world.foreign import ForeignWorld
from tests.boards.driver_harness import open_over_pci
from tests.reliability.pci_scene import given_back, life, machine
from tests.support import check

RESIZE = "resource0_resize"
SMALL = {"iommu": False, "function": PciOptions(bar_bytes=128 << 20)}
PHYSICAL = {"AMD_DMA": "physical"}
Change = Callable[[PciWorld], None]


def nothing(board: PciWorld) -> None:
    """The machine as its options make it."""


def replaced(board: PciWorld, name: str, data: bytes) -> None:
    """A file of the GPU that nobody writes."""
    path = f"{folder_of(board.machine.slot(0))}/{name}"
    board.machine.tree.remove(path)
    board.machine.tree.put(path, data)


def resize_reads(data: bytes) -> Change:
    """resource0_resize says something else, and this user may not write it."""

    def change(board: PciWorld) -> None:
        replaced(board, RESIZE, data)

    return change


def no_resources(board: PciWorld) -> None:
    replaced(board, "resource", b"")


JUDGED: dict[str, tuple[dict[str, Any], dict[str, str], Change, type[DeviceError], str]] = {
    "physical behind an IOMMU": ({}, PHYSICAL, nothing, Unsupported, "behind an IOMMU"),
    "physical without huge pages": (
        {"iommu": False, "huge_pages": 0}, PHYSICAL, nothing, OutOfMemory, "nr_hugepages",
    ),
    "physical with too few": (
        {"iommu": False, "huge_pages": 6}, PHYSICAL, nothing, OutOfMemory, "add 7 to",
    ),
    "physical, places hidden": (
        {"iommu": False, "privileged": False}, PHYSICAL, nothing, Denied, "pagemap hides",
    ),
    "a BAR that root alone resizes": (SMALL, {}, resize_reads(b"f00\n"), Denied, RESIZE),
    "sizes that are none": (SMALL, {}, resize_reads(b"large\n"), MalformedInput, RESIZE),
    "no table of BARs": ({"iommu": False}, {}, no_resources, MalformedInput, "BAR 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", JUDGED)
def test_refused_before_the_first_write(name: str) -> None:
    options, environ, change, kind, text = JUDGED[name]
    board = machine("gfx1100", **options)
    change(board)
    with pytest.raises(kind, match=text) as caught:
        open_over_pci(board, **environ)
    check(caught.value.hint or kind is MalformedInput, f"{caught.value} says what to do")
    check(board.machine.writes == [], f"{board.machine.writes}")
    check(board.panel.count == 0, f"{board.panel.count} accesses to the bus")
    check(not any(name.endswith(".claim") for name in board.state.names()), "there was a record")
    given_back(board)


@pytest.mark.parametrize("name", JUDGED)
def test_the_survey_names_it(name: str) -> None:
    """`python -m drivers.amd.probe --iface PCI` says the same beforehand."""
    options, environ, change, _, text = JUDGED[name]
    board = machine("gfx1100", **options)
    change(board)
    firmware = {"UNBOUND_FIRMWARE_MANIFEST": board.firmware}
    choice = choose({"AMD_IFACE": "PCI", **firmware, **environ}, "AMD")
    (found,) = candidates(ForeignWorld(board), choice)
    shown = [f"{one.reason}. {one.advice}" for one in found.obstacles]
    check(any(text in one for one in shown) and not found.ready, f"{shown}")
    check(board.machine.writes == [] and board.panel.count == 0, "it only looks")


def test_the_same_machines_without_it_are_opened() -> None:
    life(machine("gfx1100", **SMALL))
    board = machine("gfx1100", iommu=False, huge_pages=7)
    open_over_pci(board, "AQL", **PHYSICAL).close()
    given_back(board)

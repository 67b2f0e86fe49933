"""A store to an unmapped page goes to the default page, which is never memory of the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from boards.amd.pci.default_page import MARK
from boards.machine.pool import FilePool, Pool
from drivers.amd.pci.layout import DUMMY_PAGE
from drivers.base.errors import DeviceFault
from tests.boards.driver_harness import kernel, open_over_pci
from tests.reliability.pci_scene import machine, work
from tests.reliability.test_bare_dma import BYTE
from tests.support import check

CHIPS = ("gfx1100", "gfx1101", "gfx1201", "gfx942")
GRADES = {"VFIO": (True, ""), "physical": (False, "physical"), "no DMA": (False, "")}
"""Whether there is an IOMMU, and AMD_DMA."""
NOWHERE = 0x2000_0000_0123
PAGE = 4096
OTHERS = 0x5A
"""Every byte of the machine's memory that is not the process's."""


class Recorder:
    """The bus between a GPU and its machine: every access, and all memory that it could reach.

    Without an IOMMU that is the whole memory of the machine, also what nobody gave to the GPU.
    """

    def __init__(self, slot: Any, *, physical: bool) -> None:
        self.slot, self.physical = slot, physical
        self.reached: list[tuple[int, int, bool, bool]] = []
        """(address, bytes, whether to write, whether it was given to the GPU) of each access."""
        self.others: dict[int, Pool] = {}

    def decode(self, address: int, nbytes: int, write: bool) -> tuple[Pool, int] | None:
        found: tuple[Pool, int] | None = self.slot.decode(address, nbytes, write)
        self.reached.append((address, nbytes, write, found is not None))
        if found is not None or not self.physical:
            return found
        page = address & -PAGE
        if page not in self.others:
            self.others[page] = FilePool("memory of others", 2 * PAGE)
            self.others[page].bytes[:] = OTHERS
        return self.others[page], address - page

    def message(self, vector: int) -> None:
        self.slot.message(vector)

    def strays(self) -> list[str]:
        """Accesses to what the process did not give, and bytes of others that changed."""
        found = [f"{address:#x}+{nbytes:#x}" for address, nbytes, _, own in self.reached if not own]
        return found + [f"changed: {page:#x}" for page, pool in self.others.items()
                        if np.any(pool.bytes != OTHERS)]  # fmt: skip


def own_memory(board: Any) -> list[bytes]:
    """All memory of the process that the GPU can reach through the bus."""
    domain = board.machine.slot(0).domain
    pins = [one.pin for one in domain.inside(0, 1 << 64)] if domain is not None else []
    pins += [page.pin for page in board.huge.values()]
    return [pin.pool.bytes.tobytes() for pin in pins]


@pytest.mark.parametrize("grade", GRADES)
@pytest.mark.parametrize("chip", CHIPS)
def test_a_store_to_an_unmapped_page_changes_nothing_of_the_machine(chip: str, grade: str) -> None:
    iommu, dma = GRADES[grade]
    board: Any = machine(chip, iommu=iommu, amdgpu=False)
    gpu: Any = board.gpus[0]
    bus = Recorder(board.machine.slot(0), physical=not iommu)
    gpu.connect(bus)
    with open_over_pci(board, **({"AMD_DMA": dma} if dma else {})) as device:
        store = device.load(kernel(BYTE, chip, 64))
        device.launch(store, [NOWHERE, 9], 1)
        with pytest.raises(DeviceFault):
            device.synchronize()
        check(not bus.strays(), f"{bus.strays()}")
        at = DUMMY_PAGE.offset + (NOWHERE & PAGE - len(MARK))
        left = gpu.board.vram.bytes[at : at + len(MARK)].tobytes()
        check(left == MARK, f"the default page is not in VRAM: {left.hex()}")
        check(all(MARK not in memory for memory in own_memory(board)), "the process's memory")
        check(bool(bus.reached) is (grade != "no DMA"), f"{len(bus.reached)} accesses")
        work(device)
    check(not bus.strays(), f"{bus.strays()}")
    check(not board.violations, f"{board.violations[:5]}")

"""How the board fetches instructions: to the end of what is mapped, wherever its pages lie."""

from __future__ import annotations

import pytest

from boards.amd.wave.types import MemoryFault
from boards.machine.extents import Piece
from tests.boards.board_driver import Driver
from tests.support import check


def test_instructions_end_with_what_is_mapped() -> None:
    driver = Driver()
    buffer = driver.buffer(4096)
    check(len(driver.space().fetch(buffer.va + 4088, 64)) == 8)
    with pytest.raises(MemoryFault) as fault:
        driver.space().fetch(buffer.va + 4094, 64)
    check((fault.value.kind, fault.value.va) == ("unmapped", buffer.va + 4096))


def test_instructions_go_on_in_the_next_page_wherever_that_lies() -> None:
    """src: an RDNA3 instruction with a literal has 12 bytes, and pages end every 4096."""
    driver = Driver()
    memory = driver.world.gpus[0].memory
    taken = memory.take(memory.free_bytes, 1)[0].start // 4096 * 4096 + 4096
    memory.give([Piece(taken + 8192 * number, 4096) for number in range(40)])
    buffer = driver.buffer(8192)
    starts = [piece.start for piece in driver.device().find_mapping(buffer.va).buffer.pieces]
    check(starts == [taken, taken + 8192], f"two pieces: {starts}")
    buffer.region.write(4088, bytes(range(1, 17)))
    check(driver.space().fetch(buffer.va + 4088, 16) == bytes(range(1, 17)))

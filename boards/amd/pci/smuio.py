"""SMUIO: the counter of the reference clock, which runs from power-on and through every reset."""

from __future__ import annotations

from boards.amd.pci.board import Board
from boards.amd.pci.register_file import Block

LOWER, UPPER = "GOLDEN_TSC_COUNT_LOWER", "GOLDEN_TSC_COUNT_UPPER"
_WORD_BITS = 32


class Smuio:
    """64 bits of 100 MHz in two registers, as the timestamps of the GPU's engines count.

    src: gfx_v11_0.c gfx_v11_0_get_gpu_clock_counter() reads the upper half before and after the
    lower one, so nothing latches the other half.
    """

    def __init__(self, board: Board, block: Block) -> None:
        block.read_only(LOWER, UPPER)
        block.on_read(LOWER, board.clock.ticks)
        block.on_read(UPPER, lambda: board.clock.ticks() >> _WORD_BITS)

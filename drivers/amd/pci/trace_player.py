"""Playing a register trace to a board of AMD's, for `python -m drivers.replay`."""

from __future__ import annotations

from drivers.amd.pci.boot import BAR_REGISTERS
from drivers.bare import trace_player
from drivers.board_option import powered_on


def play_file(
    path: str, chip: str, *, vram_bytes: int, any_firmware: bool
) -> tuple[int, list[str]]:
    """(accesses done, differences) of the trace in a file, on a board of a chip.

    Raises: NotFound, MalformedInput; ValueError for an unknown chip, or where the board refuses.
    """
    board = powered_on(chip, vram_bytes, any_firmware=any_firmware)
    return trace_player.play_file(path, board, BAR_REGISTERS)

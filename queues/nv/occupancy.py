"""How many lanes and workgroups an SM has room for.

# src: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; how registers
# src: are given out: cuda_occupancy.h of the CUDA toolkit, cudaOccMaxBlocksPerSMRegsLimit()
"""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple

from drivers.base.errors import BadArgument
from queues.nv.generations import WARP_LANES

REGISTERS: Final = 1 << 16
"""Of an SM, and the most of one workgroup."""
PARTITIONS: Final = 4
"""Parts of an SM: a workgroup's warps go to them in turns, and each has a quarter of everything."""
REGISTERS_UNIT: Final = 256
"""A warp's registers are given out in multiples of this."""
MAX_DEPTH: Final = 64
"""Lanes of a workgroup along z."""


class Room(NamedTuple):
    """What is resident on an SM at once."""

    warps: int
    blocks: int


ROOM: Final = {
    75: Room(32, 16), 80: Room(64, 32), 86: Room(48, 16), 89: Room(48, 24), 90: Room(64, 32),
    100: Room(64, 32), 103: Room(64, 32), 110: Room(48, 24), 120: Room(48, 24), 121: Room(48, 24),
}  # fmt: skip


def _up(value: int, to: int) -> int:
    return -(-value // to)


def warps_by_registers(registers: int) -> int:
    """Warps whose lanes have so many registers each, that an SM has room for."""
    each = _up(max(registers, 1) * WARP_LANES, REGISTERS_UNIT) * REGISTERS_UNIT
    return REGISTERS // PARTITIONS // each * PARTITIONS


def check_block(name: str, registers: int, block: tuple[int, int, int]) -> None:
    """Raises: BadArgument for a workgroup that no SM has room for.

    The GPU itself stops the channel (an SKED error), which is no error of one launch.
    """
    most, lanes = warps_by_registers(registers) * WARP_LANES, prod(block)
    if lanes > most:
        raise BadArgument(
            f"{name}: {lanes} lanes of {registers} registers; a workgroup has {REGISTERS}",
            hint=f"use at most {most} lanes, or compile it for larger workgroups",
        )
    if block[2] > MAX_DEPTH:
        raise BadArgument(
            f"{name}: workgroups of {' x '.join(map(str, block))} lanes",
            hint=f"a workgroup has at most {MAX_DEPTH} lanes along z: use x or y",
        )


def resident_blocks(sm: int, registers: int, lanes: int) -> int:
    """Workgroups that an SM runs at once where it has shared memory for them."""
    room, warps = ROOM[sm], _up(lanes, WARP_LANES)
    by_registers = warps_by_registers(registers) // (_up(warps, PARTITIONS) * PARTITIONS)
    return max(1, min(room.blocks, room.warps // warps, by_registers))

"""How lanes of a wave exchange values: the instructions of each AMD generation."""

from __future__ import annotations

from dataclasses import dataclass

from compilers.amd.targets import AmdTarget

ROW_LANES, HALF_LANES = 16, 32
ROW_XMASK, ROW_ROTATE, QUAD = 0x160, 0x120, {1: 0xB1, 2: 0x4E}
"""DPP controls: lane ^ n within rows of 16; rotation within them; quad permutations.
# src: LLVM AMDGPU SIDefines.h DPP::DppCtrl"""
SWIZZLE_AND_MASK, SWIZZLE_XOR_SHIFT = 0x1F, 10
"""ds_swizzle's bit-mask mode. # src: LLVM AMDGPU SIDefines.h Swizzle::BITMASK_*"""
SAME_ROW_LOW, SAME_ROW_HIGH = 0x76543210, 0xFEDCBA98
"""Selectors of permlanex16 with which each lane takes its own place of the other row."""


@dataclass(frozen=True, slots=True)
class Swap:
    """One way to read the lane `lane ^ mask`: "dpp", "permlanex16", "swizzle" or "bpermute"."""

    how: str
    control: int = 0


def swap(mask: int, target: AmdTarget, *, permlane: bool = True) -> Swap:
    """The cheapest way for a mask of one bit; without `permlane` where the compiler moves
    permlanex16 into branches. Raises: ValueError past the wave.
    """
    if mask & (mask - 1) or not 0 < mask < target.chip.family.wave_lanes:
        raise ValueError(f"no lane {mask} away in a wave of {target.chip.family.wave_lanes}")
    modern = target.chip.family.name.startswith("RDNA")
    if mask < ROW_LANES and modern:
        return Swap("dpp", ROW_XMASK | mask)
    if mask in QUAD:
        return Swap("dpp", QUAD[mask])
    if mask == ROW_LANES // 2:
        return Swap("dpp", ROW_ROTATE | mask)
    if mask == ROW_LANES and modern and permlane:
        return Swap("permlanex16")
    if mask < HALF_LANES:
        return Swap("swizzle", mask << SWIZZLE_XOR_SHIFT | SWIZZLE_AND_MASK)
    return Swap("bpermute", mask)

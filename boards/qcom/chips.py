"""Adreno GPUs that there are boards of.

src: Mesa 25.0.7, src/freedreno/common/freedreno_devices.py (SPs, fibers, instruction cache, bank
bits); Linux 6.12, drivers/gpu/drm/msm/adreno/a6xx_catalog.c (chip ids, GMEM). Nothing was measured.
"""

from __future__ import annotations

from dataclasses import dataclass

_KIB, _MIB = 1 << 10, 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AdrenoChip:
    """One GPU as data."""

    name: str
    title: str
    chip_id: int
    gpu_id: int
    """The number in its name; 0 where the kernel has none."""
    generation: int
    """6 or 7."""
    gmem_bytes: int
    sps: int
    """Shader processors, as private memory counts them."""
    fibers: int
    """Lanes in flight on each of them."""
    instr_cache: int
    """Units of 128 bytes that LOAD_STATE6 may preload."""
    bank_bit: int
    """Highest bank bit of its memory."""
    lpac: bool
    """Whether it has a second compute pipe, and SP_CS_CNTL on generation 6."""
    scalar_alu: bool
    """Whether it computes on shared registers: Mesa's a6xx_gen3, a6xx_gen4 and a7xx_base."""
    constants: int
    """vec4 of constants of a compute kernel. # src: ir3_compiler.c, max_const_compute"""
    io_coherent: bool
    """Whether its SMMU can look into CPU caches."""
    va_bytes: int
    """Addresses that msm gives a process."""
    max_hz: int
    shared_bytes: int = 32 * _KIB


def _chip(name: str, title: str, chip_id: int, gpu_id: int, **other: int) -> AdrenoChip:
    seventh = gpu_id >= 700 or not gpu_id
    return AdrenoChip(
        name=name, title=title, chip_id=chip_id, gpu_id=gpu_id, generation=7 if seventh else 6,
        gmem_bytes=other["gmem"], sps=other["sps"], fibers=128 * 16 * other.get("fibers", 2),
        instr_cache=other.get("cache", 127), bank_bit=other.get("bank", 16),
        lpac=seventh or bool(other.get("lpac", 0)),
        scalar_alu=seventh or bool(other.get("scalar", 0)),
        constants=512 if seventh and gpu_id else 256, io_coherent=bool(other.get("coherent", 1)),
        va_bytes=other.get("va", 16 << 30), max_hz=other["mhz"] * 1_000_000,
    )  # fmt: skip


CHIPS = {
    chip.name: chip
    for chip in (
        _chip("a618", "Adreno618", 0x06010800, 618, gmem=512 * _KIB, sps=1, fibers=1, cache=64,
              bank=14, va=4 << 30, mhz=800),
        _chip("a619", "Adreno619", 0x06010900, 619, gmem=512 * _KIB, sps=1, fibers=1, cache=64,
              bank=13, va=4 << 30, mhz=850),
        _chip("a630", "Adreno630v2", 0x06030001, 630, gmem=_MIB, sps=2, fibers=1, cache=64,
              bank=15, va=4 << 30, mhz=710),
        _chip("a640", "Adreno640v2", 0x06040001, 640, gmem=_MIB, sps=2, fibers=4, cache=64,
              bank=15, va=4 << 30, mhz=675),
        _chip("a650", "Adreno650v3", 0x06050002, 650, gmem=_MIB + 128 * _KIB, sps=3,
              scalar=1, mhz=670),
        _chip("a660", "Adreno660v2", 0x06060001, 660, gmem=_MIB + 512 * _KIB, sps=3, lpac=1,
              scalar=1, mhz=840),
        _chip("a690", "Adreno690", 0x06090000, 690, gmem=4 * _MIB, sps=8, lpac=1,
              scalar=1, mhz=690),
        _chip("a730", "Adreno730v2", 0x07030001, 730, gmem=2 * _MIB, sps=4, mhz=900),
        _chip("a740", "Adreno740v2", 0x43050A01, 740, gmem=3 * _MIB, sps=6, mhz=680),
        _chip("a750", "Adreno750", 0x43051401, 750, gmem=3 * _MIB, sps=6, mhz=903),
        _chip("x1-85", "AdrenoX1-85", 0x43050C01, 0, gmem=3 * _MIB, sps=6, va=256 << 30,
              mhz=1500),
    )
}  # fmt: skip


def chip(name: str) -> AdrenoChip:
    """One by its name. Raises: ValueError with those there are."""
    if name not in CHIPS:
        raise ValueError(f"no Adreno board {name!r}: there are {', '.join(CHIPS)}")
    return CHIPS[name]

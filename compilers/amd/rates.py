"""Rates of AMD chips, as data: for estimates that are counted, never measured here.

A row is one product of the chip at its boost clock. Counts come from the vendor's data sheets and
instruction set documents; `latency_s` is an assumption, marked as one. Chips without a row have no
estimates: add one with its sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypedDict

from compilers.amd.targets import TARGETS, amd_target
from drivers.base.errors import Unsupported

LINE_BYTES: Final = 128
"""Line of the second-level cache. # src: RDNA3 and CDNA3 instruction set documents,
"Memory": cache lines of 128 bytes"""
NS: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Issue:
    """How the compute units of one generation issue instructions, and their local memory."""

    units_per_group: int
    """Compute units that one workgroup is spread over: 2 in a work-group processor (WGP mode)."""
    simds: int
    """SIMDs of a compute unit."""
    waves_per_simd: int
    """# src: LLVM AMDGPUBaseInfo.cpp getMaxWavesPerEU(): gfx90a 8, gfx10.3 and later 16"""
    vector_clocks: int
    """Clocks that one vector instruction of a wave keeps a SIMD: 64 lanes through 16 (CDNA), 32
    through 32 (RDNA). # src: CDNA3 and RDNA3 instruction set documents, "Terminology" """
    vgpr_granule: int
    """# src: LLVM AMDGPUBaseInfo.cpp getVGPRAllocGranule(): 8 with unified registers, 24 where a
    SIMD has 1536 of them, 16 elsewhere (wave32)"""
    load_bytes: int
    """Bytes a clock from the first-level vector cache to a compute unit.
    # src: AMD CDNA3 white paper: 64 bytes; RDNA white paper: 64 bytes a clock for each L0"""
    cache_bytes: int
    """First-level vector cache of a compute unit. A load that misses keeps its line while it waits,
    so no more than this is in flight. # src: RDNA3 and CDNA3 instruction set documents: 32 KiB"""
    lds_bytes: int
    """Local memory that the workgroups of a group of units share.
    # src: RDNA3 document 2.3: 128 KiB a work-group processor; CDNA3 document: 64 KiB a unit"""
    lds_banks: int
    """4-byte banks of that memory, all of which answer in one clock.
    # src: RDNA3 document, "Data Share": 64 banks in a work-group processor; CDNA3 document: 32"""
    matrix_clocks: Mapping[str, int] = field(default_factory=dict)
    """Matrix instruction -> clocks that it keeps its SIMD's matrix unit. # src: flops a clock of
    the data sheets (512 a unit gfx11, 1024 gfx12, 2048 gfx942) by the flops of an instruction"""


_WMMA = "v_wmma_f32_16x16x16"
RDNA3: Final = Issue(
    units_per_group=2, simds=2, waves_per_simd=16, vector_clocks=1, vgpr_granule=24,
    load_bytes=64, cache_bytes=32 << 10, lds_bytes=128 << 10,
    lds_banks=64,
    matrix_clocks={f"{_WMMA}_f16": 32, f"{_WMMA}_bf16": 32},
)  # fmt: skip
RDNA4: Final = Issue(
    units_per_group=2, simds=2, waves_per_simd=16, vector_clocks=1, vgpr_granule=24,
    load_bytes=64, cache_bytes=32 << 10, lds_bytes=128 << 10,
    lds_banks=64,
    matrix_clocks={f"{_WMMA}_f16": 16, f"{_WMMA}_bf16": 16},
)  # fmt: skip
CDNA3: Final = Issue(
    units_per_group=1, simds=4, waves_per_simd=8, vector_clocks=4, vgpr_granule=8,
    load_bytes=64, cache_bytes=32 << 10, lds_bytes=64 << 10,
    lds_banks=32,
    matrix_clocks={
        "v_mfma_f32_16x16x16_f16": 16, "v_mfma_f32_16x16x16_bf16": 16,
        "v_mfma_f32_32x32x8_f16": 32, "v_mfma_f32_32x32x8_bf16": 32,
    },
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rates:
    """One product."""

    arch: str
    product: str
    units: int
    """Compute units."""
    clock_hz: float
    """The boost clock: the fastest consumer of bytes that there is."""
    bandwidth: float
    """Bytes a second of its memory."""
    latency_s: float
    """Assumed time of a load that misses every cache while memory is busy: about twice and a half
    of what an idle GPU takes. No silicon was measured here."""
    idle_s: float
    """Time of a load that misses every cache while no other load is in flight."""
    issue: Issue

    @property
    def groups(self) -> int:
        """Places that a workgroup can be on: work-group processors, or compute units of CDNA."""
        return self.units // self.issue.units_per_group

    @property
    def needed_bytes(self) -> float:
        """Bytes that must be in flight in each compute unit for the full bandwidth: Little's law,
        bandwidth times latency."""
        return self.bandwidth * self.latency_s / self.units

    def loaded_s(self, unit_bytes: float) -> float:
        """Latency with so many bytes in flight in each compute unit: between that of idle and of
        busy memory, in proportion to what is in flight of what bandwidth needs. An assumption."""
        busy = min(unit_bytes / self.needed_bytes, 1)
        return self.idle_s + (self.latency_s - self.idle_s) * busy

    @property
    def latency_clocks(self) -> float:
        """The latency of busy memory in clocks of the compute units."""
        return self.latency_s * self.clock_hz

    @property
    def vgprs_per_simd(self) -> int:
        """Registers of one SIMD, each one wave wide."""
        return amd_target(self.arch).chip.vgprs_per_simd

    def waves_of(self, vgprs: int) -> int:
        """Waves of so many vector registers that a SIMD holds."""
        granule = self.issue.vgpr_granule
        taken = -(-max(vgprs, 1) // granule) * granule
        return min(self.issue.waves_per_simd, self.vgprs_per_simd // taken)


_ROWS = (
    # src: AMD product pages: compute units, boost clock, memory bandwidth of each product.
    # src: chipsandcheese.com "Latency Testing is Hard (RDNA 3 Power Saving)": 150 to 199 ns to
    # gfx1100's Infinity Cache (vector); GDDR6 beyond it is assumed at 240 ns idle, 600 ns busy.
    Rates("gfx1100", "Radeon RX 7900 XTX", 96, 2.5e9, 960e9, 600 * NS, 240 * NS, RDNA3),
    Rates("gfx1201", "Radeon RX 9070 XT", 64, 2.97e9, 640e9, 600 * NS, 240 * NS, RDNA4),
    # LPDDR5X-8000, 256 bits; assumed slower than GDDR6.
    Rates("gfx1151", "Radeon 8060S (AI Max+ 395)", 40, 2.9e9, 256e9, 700 * NS, 280 * NS, RDNA3),
    # Eight dies and four I/O dies lie between a unit and its memory: assumed slowest of all.
    # src: published pointer chases on MI300X, 1 GiB, one lane: 341 and 353 ns (ROCm 7.2.4, two runs
    # of one checklist), 262 ns from its Infinity Cache (chipsandcheese.com "Testing AMD's Giant
    # MI300X": 218 ns); another's with misses of the TLB: 650 ns.
    Rates("gfx942", "Instinct MI300X", 304, 2.1e9, 5.3e12, 900 * NS, 353 * NS, CDNA3),
)
RATES: Final[Mapping[str, Rates]] = {row.arch: row for row in _ROWS}


def rates_of(arch: str) -> Rates:
    """The row of a chip. Raises: Unsupported, with the names there are."""
    found = RATES.get(arch)
    if found is None:
        raise Unsupported(f"no rates of {arch!r}", hint=f"Known: {', '.join(RATES)}")
    return found


def units_per_group(arch: str) -> int:
    """Compute units that one workgroup is spread over, of any chip: see `Issue`."""
    row, target = RATES.get(arch), TARGETS.get(arch)
    if row is not None or target is None:
        return row.issue.units_per_group if row else 1
    family = RDNA4 if target.chip.family.name.startswith("RDNA") else CDNA3
    return family.units_per_group


class InFlight(TypedDict, total=False):
    """The fields of `GpuTarget` that say what memory needs in flight, and where it can be."""

    units_per_group: int
    unit_bytes: float
    unit_cache_bytes: int
    line_bytes: int


def in_flight(arch: str) -> InFlight:
    """What is known of a chip; one without a row keeps what is usual."""
    found = InFlight(units_per_group=units_per_group(arch), line_bytes=LINE_BYTES)
    row = RATES.get(arch)
    if row is not None:
        found |= InFlight(unit_bytes=row.needed_bytes, unit_cache_bytes=row.issue.cache_bytes)
    return found

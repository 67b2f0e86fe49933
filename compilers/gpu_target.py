"""A GPU's parameters for lowering, of any vendor."""

from __future__ import annotations

from dataclasses import dataclass

from compilers.ir import Kernel
from compilers.matrix_form import MatrixForm, TileForm

BLOCK = 256
"""Lanes of a workgroup: some waves, so that one waits for memory while others compute."""
LIKELY_WAVE = 32
"""Lanes that share work where the width of a wave is not known."""
TEAM_SHARED_BYTES = 40 << 10
"""Most shared memory of scans and sorts by waves: a sort of rows of 64-bit keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTarget:
    """One GPU. Sizes in bytes."""

    max_block: int
    """Lanes of the largest workgroup."""
    shared_bytes: int
    """Of a workgroup."""
    wave_lanes: int | None = None
    """None: the kernel's compiler chooses it (Adreno), or it differs from GPU to GPU (WebGPU)."""
    vector_lanes: int | None = None
    """Most elements of a vector in its language: 4 of MSL and WGSL, 16 of OpenCL C. None: any."""
    max_groups: int | None = None
    """Workgroups of the largest launch along x. A kernel of more has them work in turns."""
    vectors: bool = False
    """Whether it is a CPU, whose workgroups are best of one lane; see `Limits.schedule`."""
    swaps: bool = False
    """Whether lanes of a wave exchange values: `swap`, `ballot` and the counts of its bits."""
    costly_loads: bool = False
    """Whether a load costs as much as several products, in any memory: where a processor plays a
    GPU's lanes. Products then keep more of their sums in registers."""
    wide_integers: bool = True
    """Whether kernels have integers of 64 bits."""
    matrix_forms: tuple[MatrixForm, ...] = ()
    """The best of each dtype first."""
    tile_forms: tuple[TileForm, ...] = ()
    """The largest of each dtype first; of a dtype that `matrix_forms` has, too."""
    copies: bool = False
    """Whether memory is copied to shared memory while a lane goes on, and waves gather rows of it
    together: `Copy` and `Gather`."""
    units_per_group: int = 1
    """Compute units that one workgroup is spread over."""
    unit_bytes: float = 16 << 10
    """Bytes that a compute unit has in flight at full bandwidth; by default what the fastest known
    GPU needs."""
    unit_cache_bytes: int | None = None
    """First-level vector cache of a compute unit: no more is in flight there. None: not known."""
    line_bytes: int = 128
    """What the second-level cache fetches at once."""

    @property
    def most_lanes(self) -> int:
        """Lanes of the largest workgroup that is a power of two."""
        return 1 << (self.max_block.bit_length() - 1)

    @property
    def block(self) -> int:
        """Lanes of a usual workgroup: a power of two."""
        return min(BLOCK, self.most_lanes)

    @property
    def team_lanes(self) -> int:
        """Lanes that work is shared out by: a wave, where its width is known."""
        return self.wave_lanes or min(LIKELY_WAVE, self.block)

    @property
    def swap_lanes(self) -> int:
        """Neighbouring lanes that can always exchange values without shared memory; 1: none."""
        return self.wave_lanes if self.swaps and self.wave_lanes else 1

    @property
    def teams(self) -> bool:
        """Whether scans and sorts may work by waves, in workgroups of `BLOCK` lanes."""
        room = self.max_block >= BLOCK and self.shared_bytes >= TEAM_SHARED_BYTES
        return self.swap_lanes > 1 and room and self.wide_integers

    def fits(self, kernel: Kernel) -> bool:
        """Whether a workgroup of the kernel fits this GPU."""
        return kernel.block <= self.max_block and kernel.shared_bytes <= self.shared_bytes

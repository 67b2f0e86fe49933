"""The Adreno chips that code is generated for, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from drivers.base.errors import Unsupported

WAVE_LANES: Final = 64
"""Of a wave, or twice as many. # src: Mesa 25.0.7, freedreno_devices.py, threadsize_base"""
MAX_BLOCK: Final = 1024
"""# src: Mesa 25.0.7, threadsize_base * max_waves"""
SHARED_BYTES: Final = 32 << 10
"""# src: Mesa 25.0.7, freedreno_devices.py, cs_shared_mem_size"""
MAX_REGISTERS: Final = 48
"""vec4 of a lane: r48 and more are shared. # src: Mesa 25.0.7, ir3.h"""
GRANULARITY: Final = 2
"""Processors of a core that a workgroup's waves are spread over.
# src: Mesa 25.0.7, freedreno_devices.py, wave_granularity"""
MAX_WAVES: Final = 16
"""In flight in a core. # src: Mesa 25.0.7, freedreno_devices.py, max_waves"""
BRANCH_STACK: Final = 64
"""Entries that waves in flight share. # src: Mesa 25.0.7, ir3_compiler.c, branchstack_size"""
SHARED_UNIT_BYTES: Final = 1024
"""# src: Mesa 25.0.7, ir3.c: shared is allocated in chunks of 1k"""
VECTOR_BYTES: Final = 16
"""Most that a lane loads at once."""


@dataclass(frozen=True, slots=True)
class QcomTarget:
    """One chip as a compiler's target."""

    generation: int
    register_file: int
    """vec4 of registers that waves in flight share, for each lane.
    # src: Mesa 25.0.7, freedreno_devices.py, reg_size_vec4"""
    units: int
    """Shader processors. # src: Mesa 25.0.7, freedreno_devices.py, num_ccu"""
    most_constants: int = 0
    """vec4 of constants, where that is not the generation's number."""

    @property
    def constants(self) -> int:
        """vec4 of constants. # src: Mesa 25.0.7, ir3_compiler.c, max_const_compute"""
        return self.most_constants or (256 if self.generation == 6 else 512)

    def registers(self, block: int) -> int:
        """vec4 that a lane may use when all waves of a workgroup are in flight together.

        # src: Mesa 25.0.7, ir3.c, ir3_get_reg_dependent_max_waves
        """
        waves = max(-(-block // WAVE_LANES), GRANULARITY)
        return min(MAX_REGISTERS, self.register_file * GRANULARITY // waves)

    def wave_lanes(self, registers: int, block: int, shared_bytes: int, branch_stack: int) -> int:
        """128 where more lanes are in flight so, and all of a workgroup's; 64 elsewhere.

        Mesa takes 128 for every larger workgroup whose registers allow it.
        # src: Mesa 25.0.7, ir3.c, ir3_should_double_threadsize
        """
        wide = 2 * WAVE_LANES
        usual = self.waves(registers, block, shared_bytes, branch_stack, WAVE_LANES)
        double = self.waves(registers, block, shared_bytes, branch_stack, wide)
        pays = block > WAVE_LANES and 2 * double > usual and double * wide >= block
        return wide if pays else WAVE_LANES

    def waves(
        self, registers: int, block: int, shared_bytes: int, branch_stack: int, lanes: int
    ) -> int:
        """Waves in flight in a core: registers in vec4, sizes of a workgroup, lanes of a wave.

        # src: Mesa 25.0.7, ir3.c: ir3_get_reg_dependent_max_waves, ..._independent_max_waves
        """
        double = lanes // WAVE_LANES
        found = MAX_WAVES
        if registers:
            found = min(found, self.register_file // (registers * double) * GRANULARITY)
        if branch_stack:
            found = min(found, BRANCH_STACK // branch_stack * GRANULARITY)
        if shared_bytes:
            pairs = -(-block // (lanes * GRANULARITY))
            groups = SHARED_BYTES // (-(-shared_bytes // SHARED_UNIT_BYTES) * SHARED_UNIT_BYTES)
            found = min(found, pairs * groups * GRANULARITY)
        return found


CHIPS: Final[Mapping[str, QcomTarget]] = {
    "a618": QcomTarget(6, 96, 1),
    "a619": QcomTarget(6, 96, 1),
    "a620": QcomTarget(6, 96, 1),
    "a621": QcomTarget(6, 64, 2),
    "a630": QcomTarget(6, 96, 2),
    "a635": QcomTarget(6, 64, 2),
    "a640": QcomTarget(6, 96, 2),
    "a650": QcomTarget(6, 64, 3),
    "a660": QcomTarget(6, 64, 3),
    "a662": QcomTarget(6, 64, 3),
    "a680": QcomTarget(6, 96, 4),
    "a690": QcomTarget(6, 64, 8),
    "a730": QcomTarget(7, 96, 4),
    "a735": QcomTarget(7, 96, 3),
    "a740": QcomTarget(7, 96, 6),
    "a750": QcomTarget(7, 96, 6),
    "x1-85": QcomTarget(7, 96, 6, 256),
}
"""Name of the architecture -> its numbers."""


def qcom_target(arch: str) -> QcomTarget:
    """The chip of that name. Raises: Unsupported."""
    found = CHIPS.get(arch)
    if found is None:
        raise Unsupported(f"no Adreno {arch!r}", hint=f"Known: {', '.join(CHIPS)}")
    return found

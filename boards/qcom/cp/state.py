"""What LOAD_STATE6 has loaded for compute: constants, and where code and descriptors are.

src: Mesa 25.0.7, adreno_pm4.xml, CP_LOAD_STATE6; tu_shader.cc tu6_emit_xs (units of each type)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from boards.machine.arrays import Array, Words
from boards.qcom.cp.faults import OPCODE_ERROR, GpuFault

MOST_VEC4 = 512
VEC4_BYTES, DESCRIPTOR_BYTES, SAMPLER_BYTES, CODE_BYTES, UBO_BYTES = 16, 64, 16, 128, 8
SHARED_VEC4 = 504
"""Where shared constants are. # src: Mesa 25.0.7, ir3_compiler.c, shared_consts_base_offset"""
SHARED_WORDS = 32
_CS_TEX, _CS_SHADER, _IBO, _CS_IBO = 5, 13, 14, 15


class Type(IntEnum):
    """STATE_TYPE: what it means depends on the block; texture blocks have samplers first."""

    SHADER = 0
    CONSTANTS = 1
    UBO = 2
    IBO = 3


class Source(IntEnum):
    """STATE_SRC."""

    DIRECT = 0
    BINDLESS = 1
    INDIRECT = 2
    UBO = 3


Read = Callable[[int, int], Array]
"""(address, bytes) -> what UCHE has there. Raises: PageFault."""
Find = Callable[[str, str], None]


def _constants() -> Words:
    return np.zeros(MOST_VEC4 * 4, np.uint32)


@dataclass(slots=True)
class Load:
    """One packet."""

    offset: int
    type: Type
    source: Source
    block: int
    units: int
    address: int
    direct: Words

    @classmethod
    def of(cls, words: Words) -> Load:
        """Of the words behind the header. Raises: GpuFault."""
        head = int(words[0])
        return cls(
            offset=head & 0x3FFF, type=Type(head >> 14 & 3), source=Source(head >> 16 & 3),
            block=head >> 18 & 0xF, units=head >> 22,
            address=int(words[1]) & ~3 | int(words[2]) << 32, direct=words[3:],
        )  # fmt: skip

    def words(self, unit_bytes: int, read: Read) -> Words:
        """Its data. Raises: GpuFault, PageFault."""
        nbytes = self.units * unit_bytes
        if self.source is Source.DIRECT:
            if len(self.direct) * 4 != nbytes:
                what = f"LOAD_STATE6 of {self.units} units with {len(self.direct)} words"
                raise GpuFault(OPCODE_ERROR, what)
            return self.direct
        if self.source is not Source.INDIRECT:
            raise GpuFault(OPCODE_ERROR, f"LOAD_STATE6 of constants from {self.source.name}")
        if self.address % VEC4_BYTES:
            raise GpuFault(OPCODE_ERROR, f"LOAD_STATE6 from {self.address:#x}, not 16-aligned")
        found: Words = np.ascontiguousarray(read(self.address, nbytes)).view(np.uint32)
        return found


@dataclass(slots=True)
class ComputeState:
    """Of one submission."""

    constants: Words = field(default_factory=_constants)
    loaded: Array = field(default_factory=lambda: np.zeros(MOST_VEC4 * 4, np.bool_))
    shared: Words = field(default_factory=lambda: np.zeros(SHARED_WORDS, np.uint32))
    """Shared constants of generation 6, c504 and on."""
    shared_loaded: Array = field(default_factory=lambda: np.zeros(SHARED_WORDS, np.bool_))
    ubos: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By number: address, vec4."""
    code_va: int = 0
    code_units: int = 0
    """Of the code that was preloaded; 0: none since the last invalidation."""
    texture_va: int = 0
    sampler_va: int = 0
    uav_va: int = 0

    def invalidate(self, *, state: bool, uavs: bool) -> None:
        """HLSQ_INVALIDATE_CMD: loads of these kinds are forgotten; constants stay."""
        if state:
            self.code_units = self.texture_va = self.sampler_va = 0
            self.ubos.clear()
        if uavs:
            self.uav_va = 0

    def load(self, load: Load, read: Read, find: Find) -> None:
        """One packet of a compute block. Raises: GpuFault, PageFault."""
        if load.block == _CS_SHADER:
            self._shader_block(load, read, find)
        elif load.block == _CS_TEX:
            self._texture_block(load, read)
        elif load.block == _IBO and load.type is Type.UBO and load.source is Source.DIRECT:
            self._shared_constants(load)
        elif load.block in (_IBO, _CS_IBO):
            find("state block", f"LOAD_STATE6 of block {load.block} is for graphics here")

    def _shader_block(self, load: Load, read: Read, find: Find) -> None:
        if load.type is Type.SHADER:
            if load.source is not Source.INDIRECT:
                raise GpuFault(OPCODE_ERROR, "LOAD_STATE6 of code that is not in memory")
            read(load.address, load.units * CODE_BYTES)
            self.code_va, self.code_units = load.address, load.units
        elif load.type is Type.CONSTANTS:
            self._constants(load, load.words(VEC4_BYTES, read))
        elif load.source is Source.BINDLESS:
            return
        elif load.type is Type.UBO:
            self._ubos(load, load.words(UBO_BYTES, read))
        else:
            if load.source is Source.INDIRECT:
                read(load.address, load.units * DESCRIPTOR_BYTES)
            self.uav_va = load.address

    def _shared_constants(self, load: Load) -> None:
        """Of compute: words, also counted in words. # src: tu_cmd_buffer.cc, shared consts"""
        last = load.offset + load.units
        if last > SHARED_WORDS or len(load.direct) != load.units:
            raise GpuFault(OPCODE_ERROR, f"LOAD_STATE6 of shared constants up to {last}")
        self.shared[load.offset : last] = load.direct
        self.shared_loaded[load.offset : last] = True

    def _constants(self, load: Load, words: Words) -> None:
        first = load.offset * 4
        if first + len(words) > len(self.constants):
            what = f"LOAD_STATE6 of constants c{load.offset}+{load.units}: {MOST_VEC4} there are"
            raise GpuFault(OPCODE_ERROR, what)
        self.constants[first : first + len(words)] = words
        self.loaded[first : first + len(words)] = True

    def _ubos(self, load: Load, words: Words) -> None:
        for index in range(load.units):
            low, high = int(words[2 * index]), int(words[2 * index + 1])
            self.ubos[load.offset + index] = low | (high & 0x1FFFF) << 32, high >> 17

    def _texture_block(self, load: Load, read: Read) -> None:
        if load.source is Source.BINDLESS:
            return
        sampler = load.type is Type.SHADER
        unit = SAMPLER_BYTES if sampler else DESCRIPTOR_BYTES
        if load.source is Source.INDIRECT:
            read(load.address, load.units * unit)
        if sampler:
            self.sampler_va = load.address
        else:
            self.texture_va = load.address

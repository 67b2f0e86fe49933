"""What a compiler passes to the Adreno driver with a kernel: `Resources.vendor` of its Binary.

The image holds the instructions from byte 0, `instrlen` units of 128 bytes, filled up with nops,
then the words of `literals`. `Binary.entry` is 0. The driver copies the image to the GPU and loads
the constants of each launch: arguments from vec4 `param_vec4` on (each at Arg.offset bytes from
there), the literals, and the number of workgroups.

# src: Mesa 25.0.7, src/freedreno/computerator/a6xx.cc (which register gets which of these)
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Self

from drivers.base.contracts import Binary
from drivers.base.errors import MalformedInput
from queues.qcom.chips import MAX_CONSTLEN as MAX_CONSTLEN
from queues.qcom.registers import GEN6
from queues.qcom.textures import MOST_TEXTURES, Texture

INSTR_UNIT_BYTES: Final = 128
VEC4_BYTES: Final = 16
NO_REGISTER: Final = 0xFC
"""r63.x: nothing is wanted. # src: Mesa 25.0.7, ir3.h regid(63, 0)"""
FLUSH16: Final = "flush16"
"""Feature of kernels: float16 is computed in half registers, where subnormal numbers are 0."""
OPENCL: Final = "opencl"
"""Feature of kernels: Qualcomm's OpenCL compiler makes their code."""
MAX_FULL: Final = 48
"""Registers of a lane in vec4, r0 ... r47; r48 and more are shared or special."""
WAVES: Final = (64, 128)
NO_BASE: Final = 0xFFFF_FFFF
MOST_SLOTS: Final = 0xFFFF_FFFF
_HEAD: Final = struct.Struct("<17I")
_TEXTURE: Final = struct.Struct("<3I")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdrenoCode:
    """One kernel of ir3 code."""

    generation: int
    """6 or 7: whose encodings these are."""
    instrlen: int
    """Units of 128 bytes."""
    full_registers: int
    """vec4 of full registers that a lane uses, half ones of the merged file counted in."""
    half_registers: int
    """vec4 of half registers."""
    branch_stack: int
    """Branches that may be open at once."""
    wave_lanes: int
    """64 or 128."""
    constlen: int
    """vec4 of constants that the kernel reads: all below are loaded."""
    param_vec4: int
    literal_vec4: int
    literal_words: int
    """At the end of the image."""
    grid_vec4: int
    """Where the number of workgroups goes, x y z; `MAX_CONSTLEN`: nowhere."""
    group_id_reg: int
    """Number (4 * register + component) of the first of three registers, or NO_REGISTER."""
    local_id_reg: int
    private_bytes: int
    """Of one lane, a multiple of 4."""
    opencl: int = 0
    """1: it is launched as code of Qualcomm's OpenCL compiler (`queues.qcom.opencl`). The literals
    are then all constants from vec4 0 on, with zeros where arguments go."""
    base_word: int = NO_BASE
    """Of the constants from `param_vec4` on: where the number of the first workgroup goes, which
    the code adds to a workgroup's own; it reads no other part of that. Or NO_BASE."""
    lane_slots: int = 0
    """Issue slots and memory of one lane, in slots: `queues.qcom.pieces` has how they are counted.
    0: not known."""
    textures: tuple[Texture, ...] = ()
    """Parameters that are read as images; their words of the constants are not read."""

    def encode(self) -> bytes:
        """The bytes of `Resources.vendor`. Raises: MalformedInput for what does not fit them."""
        try:
            names = list(self.__dataclass_fields__)[:-1]
            head = _HEAD.pack(*(getattr(self, name) for name in names))
            return head + b"".join(
                _TEXTURE.pack(one.param, one.item_bytes, one.texels) for one in self.textures
            )
        except struct.error as error:
            raise MalformedInput(f"ir3 code: {error}") from error

    @classmethod
    def of(cls, binary: Binary) -> Self:
        """The record that a compiler wrote for this kernel. Raises: MalformedInput."""
        blob = binary.resources.vendor
        count, rest = divmod(len(blob) - _HEAD.size, _TEXTURE.size)
        if rest or not 0 <= count <= MOST_TEXTURES:
            raise MalformedInput(f"{binary.name}: no Adreno code, {len(blob)} bytes about it")
        names = list(cls.__dataclass_fields__)[:-1]
        textures = tuple(Texture(*one) for one in _TEXTURE.iter_unpack(blob[_HEAD.size :]))
        head = dict(zip(names, _HEAD.unpack_from(blob), strict=True))
        made = cls(**head, textures=textures)
        made.check(binary)
        return made

    def check(self, binary: Binary) -> None:
        """Raises: MalformedInput for what no kernel of this image can have."""
        size = self.instrlen * INSTR_UNIT_BYTES + self.literal_words * 4
        if not self.instrlen or size != len(binary.image):
            raise MalformedInput(f"{binary.name}: {len(binary.image)} bytes of image, not {size}")
        if self.full_registers > MAX_FULL or self.half_registers > 2 * MAX_FULL:
            raise MalformedInput(f"{binary.name}: {self.full_registers} registers of a lane")
        if self.wave_lanes not in WAVES:
            raise MalformedInput(f"{binary.name}: waves of {self.wave_lanes} lanes")
        if self.opencl and (self.opencl > 1 or self.generation != GEN6):
            raise MalformedInput(f"{binary.name}: OpenCL code of generation {self.generation}")
        ends = [self.param_vec4, self.literal_vec4 + -(-self.literal_words // 4)]
        if self.base_word != NO_BASE:
            ends.append(self.param_vec4 + self.base_word // 4 + 1)
        if self.grid_vec4 != MAX_CONSTLEN:
            ends.append(self.grid_vec4 + 1)
        if not max(ends) <= self.constlen <= MAX_CONSTLEN:
            raise MalformedInput(f"{binary.name}: constants up to {max(ends)} of {self.constlen}")

"""Operands that a kernel reads through the texture units: buffers of texels of four elements.

A launch writes the descriptors into memory of its program, with the operands' addresses, and loads
them. Coordinates are whole texels, nothing is filtered, and the formats are integers, so that bits
arrive as they are. What is behind the last texel reads 0. Samplers are not used, but there are as
many as textures, all 0: freedreno loads them so, and counts both by one number.
# src: Mesa 25.0.7, fdl/fd6_view.cc fdl6_buffer_view_init (descriptor),
# gallium/drivers/freedreno/a6xx/fd6_texture.cc build_texture_state (packets, dummy_sampler),
# fd6_compute.cc (SP_CS_CONFIG),
# vulkan/tu_common.h MAX_TEXEL_ELEMENTS, vulkan/tu_device.cc minTexelBufferOffsetAlignment
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from drivers.base.errors import BadArgument, MalformedInput
from queues.qcom import pm4, words
from queues.qcom.chips import Chip
from queues.qcom.pm4 import Op, StateBlock, StateType, halves
from queues.qcom.registers import field

IMAGES: Final = "images"
"""The feature of a device whose kernels may read operands so."""
TEXEL_ELEMENTS: Final = 4
MOST_TEXELS: Final = 1 << 27
BASE_ALIGN: Final = 64
"""Bytes. A descriptor has STARTOFFSETTEXELS for what is between; no operand here needs it."""
MOST_TEXTURES: Final = 16
"""Of a kernel: a choice; an instruction counts to 127."""
DESCRIPTOR_BYTES: Final = 64
SAMPLER_BYTES: Final = 16
_SAMPLER_WORDS: Final = SAMPLER_BYTES // pm4.WORD_BYTES
DESCRIPTOR_WORDS: Final = DESCRIPTOR_BYTES // pm4.WORD_BYTES
ADDRESS_BYTES: Final = 8
BASE_WORD: Final = 4
"""Of a descriptor: two words with the address."""
FORMATS: Final[Mapping[int, int]] = {2: 0x63, 4: 0x83}
"""Bytes of an element -> FMT6_16_16_16_16_UINT, FMT6_32_32_32_32_UINT. # src: a6xx.xml"""
_BUFFER: Final = 4
"""A6XX_TEX_BUFFER."""
_WIDTH_BITS: Final = 15
_SWIZZLE: Final = 0 << 4 | 1 << 7 | 2 << 10 | 3 << 13


@dataclass(frozen=True, slots=True)
class Texture:
    """An operand, by the number of the kernel's parameter. Texture n of a kernel is t#n."""

    param: int
    item_bytes: int
    """Of an element."""
    texels: int

    def check(self, name: str, sizes: Sequence[int]) -> None:
        """Raises: MalformedInput for what no kernel has, whose parameters have these bytes."""
        sized = self.item_bytes in FORMATS and 0 < self.texels <= MOST_TEXELS
        if self.param >= len(sizes) or sizes[self.param] != ADDRESS_BYTES or not sized:
            raise MalformedInput(f"{name}: {self} of a kernel with parameters of {sizes} bytes")


def check(name: str, textures: Sequence[Texture], sizes: Sequence[int]) -> None:
    """Those of a kernel. Raises: MalformedInput."""
    for texture in textures:
        texture.check(name, sizes)
    if len({texture.param for texture in textures}) < len(textures):
        raise MalformedInput(f"{name}: two textures of one parameter")


def descriptor(texture: Texture) -> list[int]:
    """Its words, without the address."""
    low = texture.texels & (1 << _WIDTH_BITS) - 1
    return [
        _SWIZZLE | field(FORMATS[texture.item_bytes], 29, 22),
        field(low, 14, 0) | field(texture.texels >> _WIDTH_BITS, 29, 15),
        field(1, 15, 4) | field(_BUFFER, 31, 29),
        *[0] * (DESCRIPTOR_WORDS - 3),
    ]


def memory_bytes(count: int) -> int:
    """Of descriptors and, behind them, samplers."""
    return count * (DESCRIPTOR_BYTES + SAMPLER_BYTES)


def config(count: int) -> int:
    """NTEX and NSAMP of SP_CS_CONFIG."""
    return field(count, 16, 9) | field(count, 21, 17)


def write_descriptors(va: int, textures: Sequence[Texture]) -> list[int]:
    """The command processor writes them to memory. Texture n begins at word
    3 + n * DESCRIPTOR_WORDS."""
    made = [word for texture in textures for word in descriptor(texture)]
    made += [0] * (_SAMPLER_WORDS * len(textures))
    return pm4.pkt7(Op.MEM_WRITE, [*halves(va), *made])


HEAD_WORDS: Final = 3
"""Of that packet, before the first descriptor."""


def load_descriptors(chip: Chip, va: int, count: int) -> list[int]:
    """After they were written: the caches forget what they had there, and the units know them."""
    made = pm4.pkt7(Op.WAIT_MEM_WRITES)
    made += words.invalidate(chip)
    made += pm4.load_state(
        StateBlock.CS_TEX, StateType.CONSTANTS, first=0, units=count, va=va
    )  # fmt: skip
    made += words.write(chip, "SP_CS_TEX_CONST", *halves(va))
    samplers = va + count * DESCRIPTOR_BYTES
    made += pm4.load_state(
        StateBlock.CS_TEX, StateType.SHADER, first=0, units=count, va=samplers
    )  # fmt: skip
    made += words.write(chip, "SP_CS_TEX_SAMP", *halves(samplers))
    return made + words.write(chip, "SP_CS_TEX_COUNT", count)


def check_bases(name: str, textures: Sequence[Texture], args: Sequence[int]) -> None:
    """Raises: BadArgument for an address that a descriptor cannot hold."""
    for texture in textures:
        if args[texture.param] % BASE_ALIGN:
            raise BadArgument(
                f"{name}: argument {texture.param} at {args[texture.param]:#x} is read as an image",
                hint=f"align it to {BASE_ALIGN} bytes, or unset QCOM_IMAGES",
            )

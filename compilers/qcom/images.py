"""Which operands of a kernel are read through the texture units, four elements at a time.

An operand is one when nothing writes it and every access reads four elements from a multiple of
four on. An access is `isam` by a whole texel's number; y is 0.
# src: Mesa 25.0.7, ir3_compiler_nir.c: emit_intrinsic_load_uav and emit_intrinsic_load_ssbo read
# buffers so, with coordinates (n, 0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from compilers.ir import Ref
from compilers.qcom.emitter import Emitter, literal
from compilers.render.common import memory_dtype
from queues.qcom.textures import FORMATS, MOST_TEXELS, MOST_TEXTURES, TEXEL_ELEMENTS, Texture

_SHIFT = TEXEL_ELEMENTS.bit_length() - 1


@dataclass
class Images:
    """Of one rendering: what is read as an image, and what could be."""

    chosen: tuple[Ref, ...] = ()
    read: dict[Ref, None] = field(default_factory=dict)
    """Operands that were read as an image can be, in the order of their first access."""
    other: set[Ref] = field(default_factory=set)
    """Those that an access was made to that no image has."""

    def takes(self, ref: Ref, index: str, lanes: int, unit: int) -> bool:
        """Note a load of scalars; whether it is one of an image."""
        fits = (
            ref.space == "global" and lanes > 0 and not lanes % TEXEL_ELEMENTS
            and not unit % TEXEL_ELEMENTS and ":" not in index
            and memory_dtype(ref).itemsize in FORMATS
            and TEXEL_ELEMENTS <= ref.size <= MOST_TEXELS * TEXEL_ELEMENTS
        )  # fmt: skip
        if fits:
            self.read[ref] = None
        else:
            self.other.add(ref)
        return ref in self.chosen

    def refuse(self, ref: Ref) -> None:
        """An access that no image has."""
        self.other.add(ref)

    @property
    def found(self) -> tuple[Ref, ...]:
        """Operands for another rendering to read as images."""
        return tuple(ref for ref in self.read if ref not in self.other)[:MOST_TEXTURES]

    def load(self, e: Emitter, ref: Ref, index: str, start: int) -> str:
        """The register with the texel that holds the element `index` + `start`."""
        texel = e.op("add.u", e.op("shr.b", index, literal(_SHIFT)), literal(start >> _SHIFT))
        made, at = e.name(), e.take(texel, literal(0))
        number = self.chosen.index(ref)
        e.line(f"isam.u{memory_dtype(ref).bits}", made, at, str(number), str(TEXEL_ELEMENTS))
        return made

    def textures(self, params: Sequence[Ref]) -> str:
        """For the kernel's first line: " param:bytes:texels" of each."""
        found = [
            f" {params.index(ref)}:{memory_dtype(ref).itemsize}:{ref.size // TEXEL_ELEMENTS}"
            for ref in self.chosen
        ]
        return "".join(found)


def textures_of(words: Sequence[str]) -> tuple[Texture, ...]:
    """What a kernel's first line says. Raises: ValueError."""
    found = []
    for one in words:
        param, item_bytes, texels = map(int, one.split(":"))
        found.append(Texture(param, item_bytes, texels))
    return tuple(found)

"""Where an instruction of category 5 looks: coordinates, layer, offset and level.

The first source has the coordinates, two or three, then the layer of an array; the second has the
offset, where there is one, then the level. A line's second coordinate is there, too.
src: Mesa 25.0.7, ir3_compiler_nir.c, emit_tex ("lay out the first argument in the proper order")
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from boards.machine.arrays import Array
from boards.qcom.wave.bits import NotModelled, bits
from boards.qcom.wave.descriptor import Resource
from boards.qcom.wave.lanes import Registers, reads
from boards.qcom.wave.operands import Uses
from boards.qcom.wave.state import Waves

_3D, _ARRAY, _COMPARES, _OFFSET, _PROJECTED = 48, 49, 50, 52, 53


@dataclass(frozen=True, slots=True)
class Look:
    """The sources of one instruction."""

    where: Registers
    coordinates: int
    layered: bool
    second: Registers | None
    offset: int
    """Words of the second source that are an offset."""
    level: bool
    half: bool

    def texels(self, w: Waves, at: Array, dimensions: int) -> list[Array]:
        """Whole coordinates, with the offset."""
        place = [self.where.read(w, part, at) for part in range(min(self.coordinates, dimensions))]
        return [
            one.astype(np.int32).astype(np.int64) + self.moved(w, part, at)
            for part, one in enumerate(place)
        ]

    def exact(self, w: Waves, at: Array, dimensions: int) -> list[Array]:
        """Coordinates as they are filtered, without the offset."""
        kind = np.float16 if self.half else np.float32
        place = [self.where.read(w, part, at) for part in range(min(self.coordinates, dimensions))]
        return [part.view(kind).astype(np.float64) for part in place]

    def moved(self, w: Waves, part: int, at: Array) -> Array | int:
        """The offset along an axis."""
        if self.second is None or part >= self.offset:
            return 0
        found: Array = self._signed(self.second.read(w, part, at))
        return found

    def _signed(self, value: Array) -> Array:
        found: Array = value.view(np.int16 if self.half else np.int32).astype(np.int64)
        return found

    def layer(self, w: Waves, at: Array, resource: Resource, *, whole: bool) -> Array | None:
        """Which layer; None: the image has none. A real number is cut off, and clamped."""
        if not self.layered:
            return None
        value = self.where.read(w, self.coordinates, at)
        if whole:
            return self._signed(value)
        kind = np.float16 if self.half else np.float32
        number = np.floor(np.nan_to_num(value.view(kind).astype(np.float64)))
        return np.clip(number, 0, max(resource.depth - 1, 0)).astype(np.int64)

    def check_level(self, w: Waves, at: Array, op: str) -> None:
        """Images have one level here."""
        if self.level and self.second is not None:
            found = self.second.read(w, self.offset, at)
            if (found << 1).any():
                w.report("level of an image without levels", op)


def look_of(word: int, uses: Uses, *, level: bool) -> Look:
    """The sources of an instruction with a level, or without. Raises: NotModelled."""
    if bits(word, _COMPARES, _COMPARES) or bits(word, _PROJECTED, _PROJECTED):
        raise NotModelled("a comparison or a projection")
    half, coordinates = not bits(word, 0, 0), 2 + bits(word, _3D, _3D)
    layered = bool(bits(word, _ARRAY, _ARRAY))
    offset = coordinates if bits(word, _OFFSET, _OFFSET) else 0
    where = reads(uses, bits(word, 1, 8), coordinates + layered, half=half)
    count = offset + level
    second = reads(uses, bits(word, 9, 16), count, half=half) if count else None
    return Look(
        where=where, coordinates=coordinates, layered=layered, second=second, offset=offset,
        level=level, half=half,
    )  # fmt: skip

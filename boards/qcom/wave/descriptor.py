"""Descriptors of 64 bytes: buffers and images as the shader processors read them; of 8: UBOs.

src: Mesa 25.0.7, src/freedreno/registers/adreno/a6xx.xml (A6XX_TEX_CONST, A6XX_UBO, a6xx_format)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.qcom import tiling
from boards.qcom.tiling import Tiling
from boards.qcom.wave.bits import NotModelled
from boards.qcom.wave.state import Waves

DESCRIPTOR_BYTES: Final = 64
_WORDS: Final = 8
_1D, _2D, _CUBE, _3D, _BUFFER = range(5)
_UBO_WORDS: Final = 2
_TILE_ALL, _FLAG = 27, 28
_KINDS: Final = {
    "unorm": (0x03, 0x0F, 0x30, 0x15, 0x43, 0x60),
    "snorm": (0x04, 0x10, 0x32, 0x16, 0x44, 0x61),
}
_SIZES: Final = ((1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (2, 4))
"""Bytes of a component, and how many, of the formats above."""
FORMATS: Final[dict[int, tuple[str, int, int]]] = {
    **{c: (kind, *_SIZES[at]) for kind, codes in _KINDS.items() for at, c in enumerate(codes)},
    0x05: ("u", 1, 1), 0x11: ("u", 1, 2), 0x33: ("u", 1, 4),
    0x06: ("s", 1, 1), 0x12: ("s", 1, 2), 0x34: ("s", 1, 4),
    0x17: ("f", 2, 1), 0x45: ("f", 2, 2), 0x62: ("f", 2, 4),
    0x18: ("u", 2, 1), 0x46: ("u", 2, 2), 0x63: ("u", 2, 4),
    0x19: ("s", 2, 1), 0x47: ("s", 2, 2), 0x64: ("s", 2, 4),
    0x4A: ("f", 4, 1), 0x67: ("f", 4, 2), 0x82: ("f", 4, 4),
    0x4B: ("u", 4, 1), 0x68: ("u", 4, 2), 0x83: ("u", 4, 4),
    0x4C: ("s", 4, 1), 0x69: ("s", 4, 2), 0x84: ("s", 4, 4),
}  # fmt: skip
"""Kind, bytes of a component, components."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A buffer or an image."""

    va: int
    format: tuple[str, int, int]
    dimensions: int
    width: int
    """Of a buffer: its items."""
    height: int
    depth: int
    pitch_bytes: int
    layer_bytes: int
    swizzle: tuple[int, int, int, int]
    is_buffer: bool
    tiling: Tiling | None
    """None: linear."""
    raw: tuple[int, ...]

    @property
    def item_bytes(self) -> int:
        """Of a texel."""
        return self.format[1] * self.format[2]

    @property
    def bytes(self) -> int:
        """Of a buffer."""
        return self.width * self.item_bytes


def read_words(w: Waves, va: int, count: int) -> tuple[int, ...]:
    """Words of GPU memory. Raises: PageFault."""
    found = w.memory.gather(np.array([va], np.uint64), 4, count)
    return tuple(int(word) for word in found[0])


def resource_at(w: Waves, va: int) -> Resource:
    """The buffer or image of a descriptor. Raises: PageFault, NotModelled."""
    d = read_words(w, va, _WORDS)
    code, kind = d[0] >> 22 & 0xFF, d[2] >> 29
    if not any(d):
        return Resource(0, ("u", 4, 1), 1, 0, 0, 0, 0, 0, (0, 1, 2, 3), is_buffer=True,
                        tiling=None, raw=d)  # fmt: skip
    if code not in FORMATS:
        raise NotModelled(f"an image of format {code:#x}")
    is_buffer = kind == _BUFFER
    base = (d[4] & ~0x1F) | (d[5] & 0x1FFFF) << 32
    if d[4] & 0x1F:
        w.report("base of an image", f"{d[4]:#x}: it has no bits below 32")
    _, size, components = FORMATS[code]
    if is_buffer:
        base += (d[2] >> 16 & 0x3F) * size * components
    return Resource(
        va=base,
        format=FORMATS[code],
        dimensions={_1D: 1, _2D: 2, _CUBE: 2, _3D: 3}.get(kind, 1),
        width=d[1] & 0x3FFFFFFF if is_buffer else d[1] & 0x7FFF,
        height=0 if is_buffer else d[1] >> 15 & 0x7FFF,
        depth=d[5] >> 17 & 0x1FFF,
        pitch_bytes=0 if is_buffer else d[2] >> 7 & 0x3FFFFF,
        layer_bytes=(d[3] & 0x7FFFFF) << 12,
        swizzle=(d[0] >> 4 & 7, d[0] >> 7 & 7, d[0] >> 10 & 7, d[0] >> 13 & 7),
        is_buffer=is_buffer,
        tiling=_tiling(w, d, FORMATS[code]),
        raw=d,
    )


def _tiling(w: Waves, d: tuple[int, ...], form: tuple[str, int, int]) -> Tiling | None:
    """How an image is tiled, None for a linear one. Raises: NotModelled."""
    mode, kind, item_bytes = d[0] & 3, d[2] >> 29, form[1] * form[2]
    if kind == _BUFFER or not mode:
        return None
    if mode != tiling.TILE_3 or d[3] >> _FLAG & 1 or not tiling.has_tiles(item_bytes):
        raise NotModelled(f"an image of tile mode {mode}, compressed: {d[3] >> _FLAG & 1}")
    if kind != _2D:
        raise NotModelled("a tiled image that is not of two dimensions")
    everywhere = bool(d[3] >> _TILE_ALL & 1)
    width = d[1] & 0x7FFF
    return Tiling(w.dispatch.bank_bit) if tiling.is_tiled(
        mode, width, everywhere=everywhere
    ) else None  # fmt: skip


def ubo_at(w: Waves, va: int) -> tuple[int, int]:
    """Address and bytes of a uniform buffer."""
    low, high = read_words(w, va, _UBO_WORDS)
    return low | (high & 0x1FFFF) << 32, (high >> 17) * 16


def set_base(w: Waves, base: int) -> int:
    """The address of a bindless set. Raises: NotModelled."""
    sets = w.dispatch.bindless
    if base >= len(sets) or not sets[base]:
        raise NotModelled(f"bindless set {base}, which has no address")
    return sets[base]


def groups_by(index: Array) -> list[tuple[int, Array]]:
    """Positions of lanes by the descriptor that they name."""
    return [(int(value), np.flatnonzero(index == value)) for value in np.unique(index)]

"""CP_BLIT: the 2D engine fills and copies surfaces, which is how Vulkan fills buffers.

Its own cache (CCU) is not modelled: what it wrote is in memory at once, and UCHE must be
invalidated before a shader reads it. Compressed, scaled, rotated: reported, not done.
src: Mesa 25.0.7, a6xx.xml: a6xx_2d_blit_cntl and the registers named 2D; tu_clear_blit.cc, r2d_*
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from boards.machine.arrays import Array, Words
from boards.qcom import tiling
from boards.qcom.cp.faults import OPCODE_ERROR, GpuFault
from boards.qcom.cp.processor import Processor

_OP_SCALE: Final = 3
_BLIT_CNTL, _DST_INFO, _DST, _DST_PITCH, _SOLID = 0x8C00, 0x8C17, 0x8C18, 0x8C1A, 0x8C2C
_SRC_X, _SRC_END_X, _SRC_Y, _SRC_END_Y = 0x8401, 0x8402, 0x8403, 0x8404
_DST_TL, _DST_BR = 0x8405, 0x8406
_SRC_INFO: Final = {6: 0xB4C0, 7: 0xB2C0}
_PITCH_SHIFT, _SRC_PITCH_LOW = 6, 9
_PLAIN: Final = {0x03: 1, 0x05: 1, 0x06: 1, 0x4A: 4, 0x4B: 4, 0x4C: 4, 0x82: 16, 0x83: 16, 0x84: 16}
"""Bytes of a pixel of 8_UNORM, 8_UINT, 8_SINT, and of one or four components of 32_FLOAT, UINT and
SINT: a fill's color is the pixel. # src: a6xx.xml, a6xx_format"""
_FORMATS: Final = {**_PLAIN, 0x30: 4, 0x33: 4, 0x62: 8, 0x67: 8, 0x68: 8}
"""And 8_8_8_8_UNORM, 8_8_8_8_UINT, 16_16_16_16_FLOAT, 32_32_FLOAT, 32_32_UINT."""
_FORMAT, _WORD_BYTES = 0xFF, 4
_SOLID_COLOR, _NOT_PLAIN = 1 << 7, 7
_COMPRESSED, _COORDINATE = 1 << 12, 0x3FFF
_TILE_SHIFT: Final = 8


class _Box(NamedTuple):
    left: int
    top: int
    width: int
    height: int


def _box(first: int, last: int) -> _Box:
    left, top = first & _COORDINATE, first >> 16 & _COORDINATE
    right, bottom = last & _COORDINATE, last >> 16 & _COORDINATE
    return _Box(left, top, right - left + 1, bottom - top + 1)


def _pair(cp: Processor, register: int) -> int:
    return cp.register(register) | cp.register(register + 1) << 32


def _surface(cp: Processor, register: int) -> int:
    """Bytes of a pixel; 0: no surface that is modelled, which is reported."""
    info = cp.register(register)
    size = 0 if info & _COMPRESSED else _FORMATS.get(info & _FORMAT, 0)
    if not size or _mode(info) not in (0, tiling.TILE_3):
        cp.machine.find("unmodelled", f"a blit of surface {info:#x}")
        return 0
    return size


def _mode(info: int) -> int:
    return info >> _TILE_SHIFT & 3


def _places(cp: Processor, box: _Box, pitch: int, size: int) -> Array:
    """Byte offsets of a tiled surface's pixels, by rows."""
    x, y = np.meshgrid(
        np.arange(box.left, box.left + box.width), np.arange(box.top, box.top + box.height)
    )
    return tiling.offsets(x, y, size, pitch, tiling.Tiling(cp.machine.chip.bank_bit)).reshape(-1)


def blit(cp: Processor, words: Words) -> None:
    """A fill, or a copy of the same size."""
    if int(words[0]) != _OP_SCALE:
        raise GpuFault(OPCODE_ERROR, f"CP_BLIT of operation {int(words[0])}")
    control = cp.register(_BLIT_CNTL)
    size = _surface(cp, _DST_INFO)
    if control & _NOT_PLAIN:
        cp.machine.find("unmodelled", f"a blit with control {control:#x}")
    elif size:
        box = _box(cp.register(_DST_TL), cp.register(_DST_BR))
        pixels = _filled(cp, box, size) if control & _SOLID_COLOR else _copied(cp, box, size)
        if pixels is not None:
            _put(cp, box, size, pixels)
    caches = cp.machine.caches
    caches.landed = caches.writes


def _filled(cp: Processor, box: _Box, size: int) -> bytes | None:
    if cp.register(_DST_INFO) & _FORMAT not in _PLAIN:
        cp.machine.find("unmodelled", "a fill with a color that has to be packed")
        return None
    words = range(-(-size // _WORD_BYTES))
    pixel = b"".join(cp.register(_SOLID + at).to_bytes(_WORD_BYTES, "little") for at in words)
    return pixel[:size] * (box.width * box.height)


def _copied(cp: Processor, box: _Box, size: int) -> bytes | None:
    first = _SRC_INFO[cp.machine.chip.generation]
    if _surface(cp, first) != size or (cp.register(first) ^ cp.register(_DST_INFO)) & _FORMAT:
        cp.machine.find("unmodelled", "a blit that converts")
        return None
    left, top = cp.register(_SRC_X) >> 8, cp.register(_SRC_Y) >> 8
    wide = (cp.register(_SRC_END_X) >> 8) - left + 1
    high = (cp.register(_SRC_END_Y) >> 8) - top + 1
    if (wide, high) != (box.width, box.height):
        cp.machine.find("unmodelled", f"a blit that scales {wide}x{high}")
        return None
    base, pitch = _pair(cp, first + 2), cp.register(first + 4) >> _SRC_PITCH_LOW << _PITCH_SHIFT
    info = cp.register(first)
    if _mode(info):
        places = _places(cp, _Box(left, top, wide, high), pitch, size)
        return b"".join(cp.shader_read(base + int(at), size).tobytes() for at in places)
    rows = [
        cp.shader_read(base + (top + row) * pitch + left * size, wide * size) for row in range(high)
    ]
    return np.concatenate(rows).tobytes()


def _put(cp: Processor, box: _Box, size: int, pixels: bytes) -> None:
    base, pitch = _pair(cp, _DST), cp.register(_DST_PITCH) << _PITCH_SHIFT
    info = cp.register(_DST_INFO)
    if _mode(info):
        _put_tiled(cp, _places(cp, box, pitch, size) + base, size, pixels)
        return
    row_bytes = box.width * size
    for row in range(box.height):
        va = base + (box.top + row) * pitch + box.left * size
        cp.write(va, pixels[row * row_bytes : (row + 1) * row_bytes])


def _put_tiled(cp: Processor, places: Array, size: int, pixels: bytes) -> None:
    """Pixels to their addresses, in runs."""
    order = np.argsort(places)
    data = np.frombuffer(pixels, np.uint8).reshape(-1, size)[order]
    sorted_places = places[order]
    cuts = np.flatnonzero(np.diff(sorted_places) != size) + 1
    for first, run in zip([0, *cuts], np.split(data, cuts), strict=True):
        cp.write(int(sorted_places[first]), run.tobytes())

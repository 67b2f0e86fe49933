"""Texels of buffers and images: from memory to registers and back."""

from __future__ import annotations

from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.qcom.tiling import offsets
from boards.qcom.wave.convert import F16, KINDS, is_half
from boards.qcom.wave.descriptor import Resource
from boards.qcom.wave.state import Waves

_ZERO, _ONE = 4, 5
_COMPONENTS: Final = 4


def place_of(
    resource: Resource, place: list[Array], layer: Array | None = None
) -> tuple[Array, Array]:
    """Byte offsets, and which are inside. A coordinate beyond the dimensions is the layer."""
    extent = (resource.width, resource.height, resource.depth)
    axes = min(len(place), resource.dimensions)
    if layer is None and len(place) > axes > 1:
        layer = place[axes]
    inside = np.ones(len(place[0]), np.bool_)
    for axis in range(axes):
        inside &= (place[axis] >= 0) & (place[axis] < extent[axis])
    if layer is not None:
        inside &= (layer >= 0) & (layer < max(resource.depth, 1))
    kept = [np.where(inside, one, 0) for one in place[:axes]]
    if resource.tiling is not None and axes > 1:
        x, y = kept[:2]
        offset = offsets(x, y, resource.item_bytes, resource.pitch_bytes, resource.tiling)
    else:
        steps = (resource.item_bytes, resource.pitch_bytes, resource.layer_bytes)
        offset = np.zeros(len(inside), np.int64)
        for one, step in zip(kept, steps, strict=False):
            offset = offset + one * step
    if layer is not None:
        offset = offset + np.where(inside, layer, 0) * resource.layer_bytes
    return offset, inside


def _register(value: Array, kind: str, target: int) -> Array:
    """A component as a register of a type holds it."""
    if kind in ("f", "unorm", "snorm"):
        return _bits(value.astype(np.float16 if target == F16 else np.float32))
    if is_half(target):
        return _bits(value.astype(np.int16 if KINDS[target] == "s" else np.uint16))
    return _bits(value.astype(np.int32) if kind == "s" else value.astype(np.uint32))


def _bits(value: Array) -> Array:
    answer: Array = value.view(f"u{value.dtype.itemsize}")
    return answer


def _decoded(raw: Array, kind: str) -> Array:
    size = raw.dtype.itemsize
    if kind == "f":
        return raw.view(f"f{size}")
    if kind == "s":
        return raw.view(f"i{size}")
    most = (1 << (size * 8 - (kind == "snorm"))) - 1
    if kind == "unorm":
        return raw.astype(np.float64) / most
    if kind == "snorm":
        return np.maximum(raw.view(f"i{size}").astype(np.float64) / most, -1.0)
    return raw


def load_texels(
    w: Waves, resource: Resource, place: list[Array], target: int, layer: Array | None = None
) -> list[Array]:
    """Four components of each lane, as registers of type `target`; 0 outside."""
    kind, size, count = resource.format
    offset, inside = place_of(resource, place, layer)
    raw = np.zeros((len(offset), count), f"u{size}")
    if inside.any():
        va = (resource.va + offset[inside]).astype(np.uint64)
        raw[inside] = w.memory.gather(va, size, count)
    stored = [_decoded(np.ascontiguousarray(raw[:, part]), kind) for part in range(count)]
    one = np.where(inside, 1, 0).astype(stored[0].dtype)
    channels = [*stored, *[np.zeros_like(one)] * (3 - count), *([one] if count < 4 else [])]
    picked = [*channels, np.zeros_like(one), one]
    if resource.is_buffer:
        return [_register(picked[part], kind, target) for part in range(_COMPONENTS)]
    return [_register(picked[part], kind, target) for part in resource.swizzle]


def store_texels(
    w: Waves, resource: Resource, place: list[Array], values: list[Array], source: int
) -> None:
    """Stores components of registers of type `source`; nothing outside."""
    kind, size, count = resource.format
    offset, inside = place_of(resource, place)
    if not inside.any():
        return
    blank = np.zeros_like(values[0])
    columns = [*values, *[blank] * count][:count]
    data = np.stack([_encoded(column[inside], kind, size, source) for column in columns], axis=1)
    w.memory.scatter((resource.va + offset[inside]).astype(np.uint64), data)


def _encoded(raw: Array, kind: str, size: int, source: int) -> Array:
    if kind in ("u", "s"):
        return raw.astype(f"u{size}")
    value = raw.view(np.float16 if source == F16 else np.float32)
    if kind == "f":
        return _bits(value.astype(f"f{size}"))
    low, most = (0.0, (1 << size * 8) - 1) if kind == "unorm" else (-1.0, (1 << size * 8 - 1) - 1)
    scaled = np.rint(np.clip(np.nan_to_num(value.astype(np.float64)), low, 1.0) * most)
    return _bits(scaled.astype(np.int64).astype(f"i{size}"))

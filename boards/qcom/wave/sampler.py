"""Samplers: coordinates of any size to texels, and texels to one value.

src: Mesa 25.0.7, src/freedreno/registers/adreno/a6xx.xml, A6XX_TEX_SAMP, a6xx_tex_clamp,
a6xx_tex_filter. Weights have 8 bits (tu_device.cc, subTexelPrecisionBits).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from boards.machine.arrays import Array
from boards.qcom.wave.bits import NotModelled
from boards.qcom.wave.convert import F16, F32
from boards.qcom.wave.descriptor import Resource, read_words
from boards.qcom.wave.state import Waves
from boards.qcom.wave.texel import load_texels

SAMPLER_BYTES: Final = 16
_WORDS: Final = 4
_NEAREST, _LINEAR = 0, 1
_REPEAT, _TO_EDGE, _MIRROR = 0, 1, 2
_STEPS: Final = 256


@dataclass(frozen=True, slots=True)
class Sampler:
    """How coordinates become texels."""

    linear: bool
    wraps: tuple[int, int, int]
    in_texels: bool
    """Coordinates count texels, not images."""


def sampler_at(w: Waves, va: int) -> Sampler:
    """The sampler of a descriptor. Raises: PageFault, NotModelled."""
    words = read_words(w, va, _WORDS)
    near, far = words[0] >> 1 & 3, words[0] >> 3 & 3
    wraps = (words[0] >> 5 & 7, words[0] >> 8 & 7, words[0] >> 11 & 7)
    if near != far or near not in (_NEAREST, _LINEAR):
        raise NotModelled(f"a sampler with filters {near} and {far}")
    if any(wrap not in (_REPEAT, _TO_EDGE, _MIRROR) for wrap in wraps[:2]):
        raise NotModelled(f"a sampler that wraps by {wraps}")
    if words[0] >> 14 & 7 or words[1] >> 1 & 7:
        raise NotModelled("a sampler that is anisotropic or compares")
    return Sampler(near == _LINEAR, wraps, in_texels=bool(words[1] >> 5 & 1))


def _wrapped(place: Array, size: int, wrap: int) -> Array:
    if wrap == _REPEAT:
        return place % size
    if wrap == _MIRROR:
        turned = place % (2 * size)
        return np.where(turned < size, turned, 2 * size - 1 - turned)
    return np.clip(place, 0, size - 1)


def sample(
    w: Waves, resource: Resource, sampler: Sampler, place: list[Array], target: int,
    layer: Array | None, moved: list[Array | int],
) -> list[Array]:  # fmt: skip
    """Four components of each lane, as registers of type `target`; `moved`: by whole texels."""
    extent = (resource.width, resource.height, resource.depth)
    exact = _in_texels(resource, sampler, place)
    exact = [one + by for one, by in zip(exact, moved, strict=True)]
    if not sampler.linear:
        texels = [
            _wrapped(np.floor(part).astype(np.int64), size, wrap)
            for part, size, wrap in zip(exact, extent, sampler.wraps, strict=False)
        ]
        return load_texels(w, resource, texels, target, layer)
    if target not in (F16, F32):
        raise NotModelled("integers that are filtered")
    return _filtered(w, resource, sampler, exact, target, layer)


def _in_texels(resource: Resource, sampler: Sampler, place: list[Array]) -> list[Array]:
    extent = (resource.width, resource.height, resource.depth)
    exact = [np.nan_to_num(part) for part in place]
    if sampler.in_texels:
        return exact
    return [part * size for part, size in zip(exact, extent, strict=False)]


_CORNERS: Final = ((0, 1), (1, 1), (1, 0), (0, 0))
"""(x, y) of the texels that a gather returns, in order.
# src: Vulkan 1.3, Texel Gathering; GL_ARB_texture_gather"""


def gather(
    w: Waves, resource: Resource, sampler: Sampler, place: list[Array], target: int,
    layer: Array | None, moved: list[Array | int], part: int,
) -> list[Array]:  # fmt: skip
    """One component of the four texels that would be filtered."""
    exact = _in_texels(resource, sampler, place)
    extent = (resource.width, resource.height)
    low = [np.floor(one - 0.5).astype(np.int64) + by for one, by in zip(exact, moved, strict=True)]
    found = []
    for corner in _CORNERS:
        texels = [
            _wrapped(low[axis] + corner[axis], extent[axis], sampler.wraps[axis])
            for axis in range(2)
        ]
        found.append(load_texels(w, resource, texels, target, layer)[part])
    return found


def _filtered(
    w: Waves, resource: Resource, sampler: Sampler, exact: list[Array], target: int,
    layer: Array | None,
) -> list[Array]:  # fmt: skip
    extent = (resource.width, resource.height, resource.depth)
    low = [np.floor(part - 0.5) for part in exact]
    share = [
        np.rint((part - 0.5 - below) * _STEPS) / _STEPS
        for part, below in zip(exact, low, strict=True)
    ]
    total = [np.zeros(len(exact[0])) for _ in range(4)]
    for corner in product((0, 1), repeat=len(exact)):
        weight = np.ones(len(exact[0]))
        texels = []
        for axis, side in enumerate(corner):
            weight = weight * (share[axis] if side else 1 - share[axis])
            at = low[axis].astype(np.int64) + side
            texels.append(_wrapped(at, extent[axis], sampler.wraps[axis]))
        for part, value in enumerate(load_texels(w, resource, texels, F32, layer)):
            total[part] += weight * value.view(np.float32)
    kind = np.float16 if target == F16 else np.float32
    return [part.astype(kind).view(f"u{np.dtype(kind).itemsize}") for part in total]

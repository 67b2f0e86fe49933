"""Buffers and images by descriptor, read and sampled by ir3 on the board, against numpy."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from boards.machine.arrays import Array, Words
from tests.boards.ir3_runner import BASE, LANES
from tests.boards.qcom_words import OUT, SETS, STORE, random_words, run_kernel
from tests.support import check

_LANE: Final = np.arange(LANES)


def _descriptor(words: Words, slot: int, values: list[int]) -> None:
    words[SETS + slot * 16 :][: len(values)] = values


def _buffer(words: Words, slot: int, word: int, count: int) -> None:
    va = BASE + word * 4
    _descriptor(words, slot, [0x4B << 22, count, 4 << 29 | 1 << 4, 0, va & 0xFFFFFFFF, va >> 32])


def test_buffers_by_descriptor_have_bounds() -> None:
    """What is behind the end reads 0 and stores nothing; resinfo says where it is."""
    words = random_words(8)
    before = words.copy()
    _buffer(words, 0, 16, 40)
    _buffer(words, 1, OUT, 50)
    text = """
resinfo.b.untyped.1d.u32.1.imm.base0 r5.x, 1
(ss)nop
ldib.b.untyped.1d.u32.1.imm.base0 r4.x, r0.x, 0
(sy)add.u r4.x, r4.x, r5.x
(rpt5)nop
stib.b.untyped.1d.u32.1.imm.base0 r4.x, r0.x, 1
"""
    run_kernel(text, words, bindless=(BASE + SETS * 4,))
    want = np.where(_LANE < 40, before[16 : 16 + LANES], 0) + 50
    want[50:] = before[OUT + 50 : OUT + LANES]
    check(np.array_equal(words[OUT : OUT + LANES], want.astype(np.uint32)))


_IMAGE, _WIDTH, _HEIGHT = 2560, 7, 5


def _image(words: Words) -> Array:
    """Of 7 x 5 float32 x 4, each row 128 bytes."""
    va = BASE + _IMAGE * 4
    texels = np.random.default_rng(9).standard_normal((_HEIGHT, _WIDTH, 4)).astype(np.float32)
    rows = words[_IMAGE : _IMAGE + 32 * _HEIGHT].view(np.float32).reshape(_HEIGHT, 8, 4)
    rows[:, :_WIDTH] = texels
    swizzle = 0 << 4 | 1 << 7 | 2 << 10 | 3 << 13
    size = _WIDTH | _HEIGHT << 15
    _descriptor(words, 0, [0x82 << 22 | swizzle, size, 1 << 29 | 128 << 7, 0, va & 0xFFFFFFFF, 1])
    return texels


def test_texels_of_an_image() -> None:
    """isam by whole coordinates."""
    words = random_words(9)
    texels = _image(words)
    x, y = _LANE % _WIDTH, _LANE // _WIDTH % _HEIGHT
    words[:LANES], words[LANES : 2 * LANES] = x, y
    text = """
ldg.a.u32 r3.x, g[r2.x+(r1.x)<<2], 1
add.u r5.x, r1.x, 64
(rpt5)nop
ldg.a.u32 r3.y, g[r2.x+(r5.x)<<2], 1
(sy)nop
isam.base0 (f32)(xyzw)r6.x, r3.x, s#0, t#0
(sy)mov.f32f32 r4.x, r6.z
"""
    run_kernel(text + STORE, words, bindless=(BASE + SETS * 4,))
    check(np.array_equal(words[OUT : OUT + LANES].view(np.float32), texels[y, x, 2]))


@pytest.mark.parametrize("linear", [False, True])
def test_sampled_image(linear: bool) -> None:
    """saml at the level 0: the nearest texel, or four by weights of 8 bits; edges repeat."""
    words = random_words(10)
    texels = _image(words).astype(np.float64)
    _descriptor(words, 1, [(1 << 1 | 1 << 3) * linear | 1 << 5 | 1 << 8, 0, 0, 0])
    made = np.random.default_rng(11)
    u, v = (made.uniform(-0.3, 1.3, LANES).astype(np.float32) for _ in range(2))
    words[:LANES], words[LANES : 2 * LANES] = u.view(np.uint32), v.view(np.uint32)
    text = """
ldg.a.u32 r3.x, g[r2.x+(r1.x)<<2], 1
add.u r5.x, r1.x, 64
mov.f32f32 r5.y, (0.0)
(rpt5)nop
ldg.a.u32 r3.y, g[r2.x+(r5.x)<<2], 1
(sy)nop
saml.base0 (f32)(xyzw)r6.x, r3.x, r5.y, s#1, t#0
(sy)mov.f32f32 r4.x, r6.y
"""
    run_kernel(text + STORE, words, bindless=(BASE + SETS * 4,))
    x, y = u.astype(np.float64) * _WIDTH, v.astype(np.float64) * _HEIGHT
    if linear:
        x0, y0 = np.floor(x - 0.5), np.floor(y - 0.5)
        fx, fy = np.rint((x - 0.5 - x0) * 256) / 256, np.rint((y - 0.5 - y0) * 256) / 256
        want = np.zeros(LANES)
        for dx, dy in ((0, 0), (1, 0), (0, 1), (1, 1)):
            weight = (fx if dx else 1 - fx) * (fy if dy else 1 - fy)
            want += weight * _texel(texels, x0 + dx, y0 + dy)
    else:
        want = _texel(texels, np.floor(x), np.floor(y))
    got = words[OUT : OUT + LANES].view(np.float32)
    check(bool(np.allclose(got, want, rtol=1e-6, atol=1e-7)), str(got[:4] - want[:4]))


def _texel(texels: Array, x: Array, y: Array) -> Array:
    column = np.clip(x, 0, _WIDTH - 1).astype(int)
    answer: Array = texels[np.clip(y, 0, _HEIGHT - 1).astype(int), column, 1]
    return answer


def test_layers_of_an_image() -> None:
    """isam.a: the layer comes behind the coordinates; outside of the layers it reads 0."""
    words = np.zeros(1 << 13, np.uint32)
    words[: random_words(1).size] = random_words(1)
    image, layers, layer_words = 4096, 3, 1024
    texels = np.random.default_rng(2).integers(1, 1 << 32, (layers, 4, 16), np.uint32)
    for layer in range(layers):
        first = image + layer * layer_words
        words[first : first + 64] = texels[layer].reshape(-1)
    va = BASE + image * 4
    _descriptor(words, 0, [0x4B << 22 | 1 << 7 | 2 << 10 | 3 << 13, 16 | 4 << 15, 1 << 29 | 64 << 7,
                           layer_words * 4 >> 12, va & 0xFFFFFFFF, 1 | layers << 17])  # fmt: skip
    text = """
and.b r3.x, r0.x, 15
shr.b r3.z, r0.x, 4
mov.u32u32 r3.y, 2
(rpt5)nop
isam.a.base0 (u32)(x)r4.x, r3.x, s#0, t#0
(sy)nop
"""
    run_kernel(text + STORE, words, bindless=(BASE + SETS * 4,))
    x, layer = _LANE & 15, _LANE >> 4
    want = np.where(layer < layers, texels[np.minimum(layer, layers - 1), 2, x], 0)
    check(np.array_equal(words[OUT : OUT + LANES], want.astype(np.uint32)))


@pytest.mark.parametrize(("op", "part"), [("gather4r", 0), ("gather4b", 2)])
def test_gathered_texels(op: str, part: int) -> None:
    """One component of four texels, from below on the left counter-clockwise, as Vulkan has it."""
    words = random_words(12)
    texels = _image(words)
    _descriptor(words, 1, [1 << 5 | 1 << 8, 0, 0, 0])
    made = np.random.default_rng(13)
    u, v = (made.uniform(-0.1, 1.1, LANES).astype(np.float32) for _ in range(2))
    words[:LANES], words[LANES : 2 * LANES] = u.view(np.uint32), v.view(np.uint32)
    for number, (dx, dy) in enumerate(((0, 1), (1, 1), (1, 0), (0, 0))):
        text = f"""
ldg.a.u32 r3.x, g[r2.x+(r1.x)<<2], 1
add.u r5.x, r1.x, 64
(rpt5)nop
ldg.a.u32 r3.y, g[r2.x+(r5.x)<<2], 1
(sy)nop
{op}.base0 (f32)(xyzw)r6.x, r3.x, s#1, t#0
(sy)mov.f32f32 r4.x, r6.{"xyzw"[number]}
"""
        run_kernel(text + STORE, words, bindless=(BASE + SETS * 4,))
        x0 = np.floor(u.astype(np.float64) * _WIDTH - 0.5)
        y0 = np.floor(v.astype(np.float64) * _HEIGHT - 0.5)
        column = np.clip(x0 + dx, 0, _WIDTH - 1).astype(int)
        want = texels[np.clip(y0 + dy, 0, _HEIGHT - 1).astype(int), column, part]
        check(np.array_equal(words[OUT : OUT + LANES].view(np.float32), want), f"texel {number}")

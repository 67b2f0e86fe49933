"""Memory, lanes and control flow of ir3 on the board, against numpy and Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from boards.machine.arrays import Array, Words
from tests.boards.ir3_runner import BASE, LANES, execute
from tests.support import check

_OUT: Final = 2048
"""The word that results begin at."""
_SETS: Final = 1024
"""The word that descriptors begin at."""
_CONSTANTS: Final = [BASE & 0xFFFFFFFF, BASE >> 32, (BASE & 0xFFFFFFFF) + _OUT * 4, BASE >> 32]
_HEAD: Final = """
mov.u32u32 r2.x, c0.x
mov.u32u32 r2.y, c0.y
mov.u32u32 r2.z, c0.z
mov.u32u32 r2.w, c0.w
mad.u24 r1.x, c1.x, r48.x, r0.x
(rpt5)nop
"""


def _words(seed: int = 1) -> Words:
    return np.random.default_rng(seed).integers(0, 1 << 32, 4096, np.uint32)


def _run(text: str, words: Words, block: int = LANES, **more: Any) -> None:
    constants = [*_CONSTANTS, block, 0, 0, 0, *more.pop("constants", [])]
    more.setdefault("shared_bytes", 2048)
    done = execute(_HEAD + text + "\nend", constants, words, block=(block, 1, 1), **more)
    check(done.fault is None, str(done.fault))
    check(not done.violations, str([str(one) for one in done.violations[:3]]))


_STORE: Final = "\n(sy)(ss)(rpt5)nop\nstg.a.u32 g[r2.z+(r1.x)<<2], r4.x, 1"


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_loads_of_several_components(count: int) -> None:
    """A vector of words from an address with a negative offset."""
    words = _words()
    before = words.copy()
    text = """
shl.b r3.x, r0.x, 4
(rpt2)nop
add.u r2.x, r2.x, r3.x
(rpt5)nop
"""
    text += f"ldg.u32 r4.x, g[r2.x+8], {count}\n(sy)add.u r2.z, r2.z, r3.x\n(rpt5)nop\n"
    text += f"stg.u32 g[r2.z-16], r4.x, {count}"
    _run(text, words)
    for part in range(count):
        got = words[_OUT - 4 + part :][: 4 * LANES : 4]
        check(np.array_equal(got, before[2 + part :][: 4 * LANES : 4]), str(part))


@pytest.mark.parametrize(("kind", "dtype"), [("u8", np.uint8), ("u16", np.uint16)])
def test_narrow_loads_and_stores(kind: str, dtype: type[np.generic]) -> None:
    """Items of half registers, addressed in bytes."""
    words = _words()
    size = np.dtype(dtype).itemsize
    text = f"""
shl.b r3.x, r0.x, {size - 1}
(rpt2)nop
add.u r2.x, r2.x, r3.x
add.u r2.z, r2.z, r3.x
(rpt5)nop
ldg.{kind} hr8.x, g[r2.x], 1
(sy)add.u hr8.y, hr8.x, 1
(rpt5)nop
stg.{kind} g[r2.z], hr8.y, 1
"""
    want = words.view(dtype)[:LANES] + 1
    _run(text, words)
    got = words[_OUT:].view(dtype)[:LANES]
    check(np.array_equal(got, np.asarray(want).astype(dtype)), kind)


def test_index_of_generation_7_is_in_bytes() -> None:
    """ldg.a and stg.a."""
    words = _words()
    text = """
shl.b r3.x, r1.x, 2
(rpt5)nop
ldg.a.u32 r4.x, g[r2.x+r3.x+16], 1
(sy)(rpt5)nop
stg.a.u32 g[r2.z+r3.x+0], r4.x, 1
"""
    _run(text, words, generation=7, groups=(3, 1, 1))
    check(np.array_equal(words[_OUT : _OUT + 3 * LANES], words[4 : 4 + 3 * LANES]))


def test_shared_memory_between_waves() -> None:
    """Two waves of each workgroup exchange four components."""
    words = _words()
    before = words.copy()
    text = """
shl.b r3.x, r0.x, 4
sub.u r3.y, 127, r0.x
ldg.a.u32 r4.x, g[r2.x+(r1.x)<<2], 1
(rpt2)nop
shl.b r3.y, r3.y, 4
(sy)mov.u32u32 r4.y, r4.x
mov.u32u32 r4.z, r4.x
mov.u32u32 r4.w, r4.x
(rpt5)nop
stl.u32 l[r3.x], r4.x, 4
bar.g
(ss)nop
(sy)ldl.u32 r5.x, l[r3.y], 4
(ss)mov.u32u32 r4.x, r5.w
"""
    _run(text + _STORE, words, block=128, groups=(4, 1, 1))
    want = before[: 4 * 128].reshape(4, 128)[:, ::-1].reshape(-1)
    check(np.array_equal(words[_OUT : _OUT + 512], want))


_ATOMIC: Final[dict[str, Callable[[int, int], int]]] = {
    "add": lambda old, new: old + new,
    "sub": lambda old, new: old - new,
    "xchg": lambda old, new: new,
    "min": min,
    "max": max,
    "and": lambda old, new: old & new,
    "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new,
}


def _in_turn(name: str, cells: list[int], where: Array, data: Array) -> list[int]:
    found = []
    for place, value in zip(where.tolist(), data.tolist(), strict=True):
        found.append(cells[place])
        cells[place] = _ATOMIC[name](cells[place], value) & 0xFFFFFFFF
    return found


@pytest.mark.parametrize("name", _ATOMIC)
def test_atomics_by_address(name: str) -> None:
    """192 lanes on eight words; the board's lanes go in their order."""
    words = _words(3)
    cells, data = words[3000:3008].tolist(), words[: 3 * LANES].copy()
    where = np.arange(3 * LANES) & 7
    text = f"""
and.b r3.z, r0.x, 7
ldg.a.u32 r4.y, g[r2.x+(r1.x)<<2], 1
(rpt2)nop
shl.b r3.z, r3.z, 2
(rpt2)nop
add.u r3.x, r3.z, c2.x
mov.u32u32 r3.y, r2.y
(sy)(rpt5)nop
atomic.g.{name}.untyped.1d.u32.1.g r4.x, r3.x, r4.y
"""
    _run(text + _STORE, words, groups=(3, 1, 1), constants=[(BASE & 0xFFFFFFFF) + 12000, 0, 0, 0])
    found = _in_turn(name, cells, where, data)
    check(words[3000:3008].tolist() == cells, "memory")
    check(words[_OUT : _OUT + 3 * LANES].tolist() == found, "what was there")


def test_atomics_on_shared_memory() -> None:
    """A histogram, by two waves."""
    words = _words(4)
    data = words[:128].copy()
    text = """
shl.b r3.x, r0.x, 2
mov.u32u32 r4.x, 0
(rpt5)nop
stl.u32 l[r3.x], r4.x, 1
ldg.a.u32 r5.x, g[r2.x+(r1.x)<<2], 1
bar.g
(ss)nop
(sy)and.b r5.x, r5.x, 15
mov.u32u32 r5.y, 1
(rpt1)nop
shl.b r5.x, r5.x, 2
(rpt5)nop
atomic.add.untyped.1d.u32.1.l r6.x, l[r5.x], r5.y
bar.g
(ss)nop
(sy)ldl.u32 r4.x, l[r3.x], 1
"""
    _run(text + _STORE, words, block=128)
    check(np.array_equal(words[_OUT : _OUT + 16], np.bincount(data & 15, minlength=16)))


_LANE: Final = np.arange(LANES)
_ACROSS: Final[dict[str, Array]] = {
    "shfl.xor.u32 r4.x, r3.x, 5": _LANE ^ 5,
    "shfl.rdown.u32 r4.x, r3.x, 3": (_LANE + 3) % LANES,
    "shfl.rup.u32 r4.x, r3.x, 3": (_LANE - 3) % LANES,
    "quad_shuffle.horiz (u32)(x)r4.x, r3.x": _LANE ^ 1,
    "quad_shuffle.vert (u32)(x)r4.x, r3.x": _LANE ^ 2,
    "quad_shuffle.diag (u32)(x)r4.x, r3.x": _LANE ^ 3,
}


@pytest.mark.parametrize("text", _ACROSS)
def test_values_from_other_lanes(text: str) -> None:
    """Which lane each lane hears from."""
    words = _words(5)
    before = words.copy()
    head = "ldg.a.u32 r3.x, g[r2.x+(r1.x)<<2], 1\n(sy)(rpt5)nop\n"
    _run(head + text + _STORE, words)
    check(np.array_equal(words[_OUT : _OUT + LANES], before[_ACROSS[text]]), text)


def test_broadcast_within_clusters() -> None:
    """Mesa's example: fibers 2 and 3 are off, and fiber 1 is heard."""
    words = np.arange(4096, dtype=np.uint32)
    text = """
mov.u32u32 r4.x, 1000
and.b r3.y, r0.x, 6
(rpt2)nop
cmps.u.eq p0.x, r3.y, 2
(rpt5)nop
br p0.x, #2
brcst.active.w8 (u32)(x)r4.x, r0.x
(jp)nop
"""
    _run(text + _STORE, words)
    want = np.full(LANES, 1000)
    for first in range(0, LANES, 8):
        want[first + 4 : first + 8] = first + 1
    check(np.array_equal(words[_OUT : _OUT + LANES], want), str(words[_OUT : _OUT + 16]))


def test_loops_of_each_lane() -> None:
    """Each lane goes round as often as its number says, and skips odd turns."""
    words = _words(6)
    text = """
mov.u32u32 r4.x, 0
mov.u32u32 r3.x, 0
(rpt2)nop
cmps.u.ge p0.x, r3.x, r0.x
(rpt5)nop
br p0.x, #8
and.b p0.y, r3.x, 1
(rpt5)nop
br p0.y, #2
add.u r4.x, r4.x, r3.x
(jp)add.u r3.x, r3.x, 1
(rpt2)nop
jump #-9
(jp)nop
"""
    _run(text + _STORE, words)
    want = [sum(range(0, lane, 2)) for lane in range(LANES)]
    check(words[_OUT : _OUT + LANES].tolist() == want, str(words[_OUT : _OUT + 8]))


def test_relative_registers_and_constants() -> None:
    """By a0.x, which differs from lane to lane."""
    words = _words(7)
    text = """
and.b hr12.x, hr0.x, h(3)
(rpt3)mov.u32u32 r8.x, c2.x
(rpt5)nop
mova a0.x, hr12.x
(rpt5)nop
mov.u32u32 r4.y, c<a0.x + 8>
mov.u32u32 r4.z, r<a0.x + 32>
(rpt2)nop
add.u r4.x, r4.y, r4.z
"""
    _run(text.replace("c2.x", "c2.z") + _STORE, words, constants=[5, 6, 7, 8])
    want = np.array([5, 6, 7, 8])[_LANE & 3] + 7
    check(np.array_equal(words[_OUT : _OUT + LANES], want), str(words[_OUT : _OUT + 8]))


@pytest.mark.parametrize("lanes", [64, 128])
def test_places_in_three_dimensions(lanes: int) -> None:
    """Workgroups of 5 x 3 x 2 in a grid of 2 x 3 x 2; the last wave is not full."""
    words = np.zeros(4096, np.uint32)
    text = """
mov.u32u32 r2.x, c0.z
mov.u32u32 r2.y, c0.w
mad.u24 r3.x, c1.y, r0.z, r0.y
mad.u24 r3.y, c1.y, r48.z, r48.y
(rpt2)nop
mad.u24 r3.x, c1.x, r3.x, r0.x
mad.u24 r3.y, c1.z, r3.y, r48.x
(rpt2)nop
mad.u24 r3.z, c1.w, r3.y, r3.x
shl.b r4.x, r3.y, 8
(rpt2)nop
or.b r4.x, r4.x, r3.x
(rpt5)nop
stg.a.u32 g[r2.x+(r3.z)<<2], r4.x, 1
end
"""
    done = execute(text, [*_CONSTANTS, 5, 3, 2, 30], words, block=(5, 3, 2), groups=(2, 3, 2),
                   wave_lanes=lanes)  # fmt: skip
    check(done.fault is None and not done.violations, str(done.violations))
    want = [group << 8 | local for group in range(12) for local in range(30)]
    check(words[_OUT : _OUT + 360].tolist() == want)


def _descriptor(words: Words, slot: int, values: list[int]) -> None:
    words[_SETS + slot * 16 :][: len(values)] = values


def _buffer(words: Words, slot: int, word: int, count: int) -> None:
    va = BASE + word * 4
    _descriptor(words, slot, [0x4B << 22, count, 4 << 29 | 1 << 4, 0, va & 0xFFFFFFFF, va >> 32])


def test_buffers_by_descriptor_have_bounds() -> None:
    """What is behind the end reads 0 and stores nothing; resinfo says where it is."""
    words = _words(8)
    before = words.copy()
    _buffer(words, 0, 16, 40)
    _buffer(words, 1, _OUT, 50)
    text = """
resinfo.b.untyped.1d.u32.1.imm.base0 r5.x, 1
(ss)nop
ldib.b.untyped.1d.u32.1.imm.base0 r4.x, r0.x, 0
(sy)add.u r4.x, r4.x, r5.x
(rpt5)nop
stib.b.untyped.1d.u32.1.imm.base0 r4.x, r0.x, 1
"""
    _run(text, words, bindless=(BASE + _SETS * 4,))
    want = np.where(_LANE < 40, before[16 : 16 + LANES], 0) + 50
    want[50:] = before[_OUT + 50 : _OUT + LANES]
    check(np.array_equal(words[_OUT : _OUT + LANES], want.astype(np.uint32)))


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
    words = _words(9)
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
    _run(text + _STORE, words, bindless=(BASE + _SETS * 4,))
    check(np.array_equal(words[_OUT : _OUT + LANES].view(np.float32), texels[y, x, 2]))


@pytest.mark.parametrize("linear", [False, True])
def test_sampled_image(linear: bool) -> None:
    """saml at the level 0: the nearest texel, or four by weights of 8 bits; edges repeat."""
    words = _words(10)
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
    _run(text + _STORE, words, bindless=(BASE + _SETS * 4,))
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
    got = words[_OUT : _OUT + LANES].view(np.float32)
    check(bool(np.allclose(got, want, rtol=1e-6, atol=1e-7)), str(got[:4] - want[:4]))


def _texel(texels: Array, x: Array, y: Array) -> Array:
    column = np.clip(x, 0, _WIDTH - 1).astype(int)
    answer: Array = texels[np.clip(y, 0, _HEIGHT - 1).astype(int), column, 1]
    return answer

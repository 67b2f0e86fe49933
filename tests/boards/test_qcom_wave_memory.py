"""Memory, lanes and control flow of ir3 on the board, against numpy and Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest

from boards.machine.arrays import Array
from tests.boards.ir3_runner import BASE, LANES, execute
from tests.boards.qcom_words import CONSTANTS, OUT, STORE, random_words, run_kernel
from tests.support import check


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_loads_of_several_components(count: int) -> None:
    """A vector of words from an address with a negative offset."""
    words = random_words()
    before = words.copy()
    text = """
shl.b r3.x, r0.x, 4
(rpt2)nop
add.u r2.x, r2.x, r3.x
(rpt5)nop
"""
    text += f"ldg.u32 r4.x, g[r2.x+8], {count}\n(sy)add.u r2.z, r2.z, r3.x\n(rpt5)nop\n"
    text += f"stg.u32 g[r2.z-16], r4.x, {count}"
    run_kernel(text, words)
    for part in range(count):
        got = words[OUT - 4 + part :][: 4 * LANES : 4]
        check(np.array_equal(got, before[2 + part :][: 4 * LANES : 4]), str(part))


@pytest.mark.parametrize(("kind", "dtype"), [("u8", np.uint8), ("u16", np.uint16)])
def test_narrow_loads_and_stores(kind: str, dtype: type[np.generic]) -> None:
    """Items of half registers, addressed in bytes."""
    words = random_words()
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
    run_kernel(text, words)
    got = words[OUT:].view(dtype)[:LANES]
    check(np.array_equal(got, np.asarray(want).astype(dtype)), kind)


def test_index_of_generation_7_is_in_bytes() -> None:
    """ldg.a and stg.a."""
    words = random_words()
    text = """
shl.b r3.x, r1.x, 2
(rpt5)nop
ldg.a.u32 r4.x, g[r2.x+r3.x+16], 1
(sy)(rpt5)nop
stg.a.u32 g[r2.z+r3.x+0], r4.x, 1
"""
    run_kernel(text, words, generation=7, groups=(3, 1, 1))
    check(np.array_equal(words[OUT : OUT + 3 * LANES], words[4 : 4 + 3 * LANES]))


def test_shared_memory_between_waves() -> None:
    """Two waves of each workgroup exchange four components."""
    words = random_words()
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
    run_kernel(text + STORE, words, block=128, groups=(4, 1, 1))
    want = before[: 4 * 128].reshape(4, 128)[:, ::-1].reshape(-1)
    check(np.array_equal(words[OUT : OUT + 512], want))


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
    words = random_words(3)
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
    run_kernel(
        text + STORE, words, groups=(3, 1, 1), constants=[(BASE & 0xFFFFFFFF) + 12000, 0, 0, 0]
    )
    found = _in_turn(name, cells, where, data)
    check(words[3000:3008].tolist() == cells, "memory")
    check(words[OUT : OUT + 3 * LANES].tolist() == found, "what was there")


def test_atomics_on_shared_memory() -> None:
    """A histogram, by two waves."""
    words = random_words(4)
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
    run_kernel(text + STORE, words, block=128)
    check(np.array_equal(words[OUT : OUT + 16], np.bincount(data & 15, minlength=16)))


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
    words = random_words(5)
    before = words.copy()
    head = "ldg.a.u32 r3.x, g[r2.x+(r1.x)<<2], 1\n(sy)(rpt5)nop\n"
    run_kernel(head + text + STORE, words)
    check(np.array_equal(words[OUT : OUT + LANES], before[_ACROSS[text]]), text)


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
    run_kernel(text + STORE, words)
    want = np.full(LANES, 1000)
    for first in range(0, LANES, 8):
        want[first + 4 : first + 8] = first + 1
    check(np.array_equal(words[OUT : OUT + LANES], want), str(words[OUT : OUT + 16]))


def test_loops_of_each_lane() -> None:
    """Each lane goes round as often as its number says, and skips odd turns."""
    words = random_words(6)
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
    run_kernel(text + STORE, words)
    want = [sum(range(0, lane, 2)) for lane in range(LANES)]
    check(words[OUT : OUT + LANES].tolist() == want, str(words[OUT : OUT + 8]))


def test_relative_registers_and_constants() -> None:
    """By a0.x, which differs from lane to lane."""
    words = random_words(7)
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
    run_kernel(text.replace("c2.x", "c2.z") + STORE, words, constants=[5, 6, 7, 8])
    want = np.array([5, 6, 7, 8])[_LANE & 3] + 7
    check(np.array_equal(words[OUT : OUT + LANES], want), str(words[OUT : OUT + 8]))


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
    done = execute(text, [*CONSTANTS, 5, 3, 2, 30], words, block=(5, 3, 2), groups=(2, 3, 2),
                   wave_lanes=lanes)  # fmt: skip
    check(done.fault is None and not done.violations, str(done.violations))
    want = [group << 8 | local for group in range(12) for local in range(30)]
    check(words[OUT : OUT + 360].tolist() == want)

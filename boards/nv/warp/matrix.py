"""HMMA and IMMA: products of matrices, whose parts the lanes of a warp hold.

Part p of a factor is 8 columns by 4 lanes by what a register holds; the rows of the first factor
come in two halves of 8. src: PTX ISA, "Matrix Fragments for mma.m16n8k4" to m16n8k64; bits
measured: flips of words of nvrtc 13.5 as nvdisasm 13.5 prints them. How silicon rounds is not
published: here all products and the addend are summed in a double and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from boards.machine.arrays import Array
from boards.nv.warp.build import Action, Builder
from boards.nv.warp.convert import half_rounded
from boards.nv.warp.double import fused, put_pair
from boards.nv.warp.fields import ZERO, NotModelled
from boards.nv.warp.floating import NEAREST, as_words
from boards.nv.warp.half import brains, halves
from boards.nv.warp.state import Threads

_GROUPS, _IN_GROUP = 8, 4
_UPPER = np.uint32(16)
_TF32 = np.uint32(0xFFFFE000)
"""src: PTX ISA: the low 13 bits of a .tf32 operand are not read"""
_LIMITS = (-(1 << 31), (1 << 31) - 1)
Report = Callable[[str], None]
Numbers = Callable[[Array], Array]
"""Registers to rows of what each holds, low first."""


def _singles(words: Array) -> Array:
    return (words & _TF32).view(np.float32).astype(np.float64)[None]


def _whole(bits: int, *, is_signed: bool) -> Numbers:
    """Whole numbers of 4 or 8 bits."""

    def of(words: Array) -> Array:
        rows = [words >> np.uint32(low) & np.uint32((1 << bits) - 1) for low in range(0, 32, bits)]
        found = np.stack(rows).astype(np.int64)
        return (
            np.where(found >> (bits - 1) == 1, found - (1 << bits), found) if is_signed else found
        )

    return of


def _part(t: Threads, first: int, count: int, numbers: Numbers) -> Array:
    """(register, warp, group, place along the sum)."""
    rows = np.zeros((count, t.count), np.uint32) if first == ZERO else np.array(
        t.registers[first : first + count]
    )  # fmt: skip
    each = np.stack([numbers(row) for row in rows])
    shaped = each.reshape(count, each.shape[1], -1, _GROUPS, _IN_GROUP)
    turned = np.moveaxis(shaped, 1, 4)
    return turned.reshape(count, -1, _GROUPS, _IN_GROUP * each.shape[1])


def _products(a: Array, b: Array, halves_of_rows: int) -> Array:
    """(half of the rows, column of two, warp, group, lane of it)."""
    parts = len(b)
    shaped = a.reshape(parts, halves_of_rows, *a.shape[1:])
    total = np.einsum("prwgk,pwck->rwgc", shaped, b, optimize=False)
    columns = total.reshape(*total.shape[:3], _IN_GROUP, 2)
    return np.moveaxis(columns, -1, 1)


def _check_whole(t: Threads, mask: Array, name: str, report: Report) -> None:
    if (t.whole_warps(mask) & ~mask).any():
        report(f"{name} of a warp whose lanes do not all run it")


def _latency(parts: int) -> str:
    """Operands in one pass come sooner. # src: Mesa sm80_instr_latencies.rs, MMA_1x_collect"""
    return "mma" if parts > 1 else "mma1"


def _addend(t: Threads, first: int, count: int) -> Array:
    if first == ZERO:
        return np.zeros((count, t.count), np.uint32)
    return np.array(t.registers[first : first + count])


def _format(build: Builder) -> tuple[Numbers, int, bool]:
    """(numbers of a factor, registers of the second one, whether the sums are singles)."""
    deep, small, single = build.take(75), build.take(78), bool(build.take(76))
    brain, tensor = bool(build.take(82)), bool(build.take(83))
    if tensor and single and not brain:
        if deep:
            raise NotModelled("HMMA of TF32 of this depth")
        return _singles, 1 if small else 2, True
    if small or tensor or (brain and not single):
        raise NotModelled("HMMA of this format")
    return (brains if brain else halves), 1 + deep, single


def hmma(build: Builder, report: Report) -> Action:
    """HMMA of halves, bfloat16 or TF32, summed as singles or halves."""
    numbers, parts, single = _format(build)
    count = 4 if single else 2
    one, two = build.gpr(24, 0, 2 * parts), build.gpr(32, 1, parts)
    three, result = build.gpr(64, 2, count), build.gpr_out(count=count)
    build.latency = _latency(parts)

    def run(t: Threads, mask: Array) -> None:
        _check_whole(t, mask, "HMMA", report)
        a, b = _part(t, one, 2 * parts, numbers), _part(t, two, parts, numbers)
        added = _addend(t, three, count)
        shape = 2, 2, -1, _GROUPS, _IN_GROUP
        if single:
            addend = added.view(np.float32).astype(np.float64).reshape(shape)
            values = _products(a, b, 2) + addend
            words = as_words(values.astype(np.float32)).reshape(4, t.count)
        else:
            addend = np.stack([halves(row) for row in added]).reshape(shape)
            near = half_rounded(_products(a, b, 2) + addend, 0).reshape(2, 2, t.count)
            bits = np.where(np.isnan(near), 0x7FFF, near.view(np.uint16)).astype(np.uint32)
            words = bits[:, 0] | bits[:, 1] << _UPPER
        for place in range(count if result != ZERO else 0):
            t.put(result + place, words[place], mask)

    return run


def dmma(build: Builder, report: Report) -> Action:
    """DMMA.884: doubles, summed one after the other, each product and sum rounded once."""
    one, two = build.gpr(24, 0, 2), build.gpr(32, 1, 2)
    three, result = build.gpr(64, 2, 4), build.gpr_out(count=4)
    build.only(72, 5, 0)
    build.only(78, 2, 0)
    build.only(62, 2, 0)
    build.only(87, 4, 0)  # measured: nvdisasm 13.5.37 prints UP6 to UP0 for 1 to 7, nothing for 0
    build.latency = "variable"

    def doubles(t: Threads, first: int, count: int) -> Array:
        words = _addend(t, first, 2 * count).reshape(count, 2, t.count)
        pairs = words[:, 0] | words[:, 1].astype(np.uint64) << np.uint64(32)
        return np.asarray(pairs.view(np.float64).reshape(count, -1, _GROUPS, _IN_GROUP))

    def run(t: Threads, mask: Array) -> None:
        _check_whole(t, mask, "DMMA", report)
        a, b = doubles(t, one, 1)[0], doubles(t, two, 1)[0]
        total = np.moveaxis(doubles(t, three, 2), 0, -1).reshape(-1, _GROUPS, 2 * _IN_GROUP)
        for place in range(_IN_GROUP):
            left, right = np.broadcast_arrays(a[:, :, None, place], b[:, None, :, place])
            x, y, z = (np.ascontiguousarray(each).ravel() for each in (left, right, total))
            total = fused(x, y, z, NEAREST).reshape(total.shape)
        columns = np.moveaxis(total.reshape(-1, _GROUPS, _IN_GROUP, 2), -1, 0)
        words = np.ascontiguousarray(columns).view(np.uint64).reshape(2, t.count)
        for place in range(2 if result != ZERO else 0):
            put_pair(t, result + 2 * place, words[place], mask)

    return run


def imma(build: Builder, report: Report) -> Action:
    """IMMA of whole numbers of 8 or 4 bits, summed in 32 bits, with .SAT within them."""
    build.only(73, 2, 2)
    tall, deep, deeper = build.take(86), build.take(75), build.take(85)
    small = build.take(83), build.take(84)
    signs, saturate = (bool(build.take(76)), bool(build.take(78))), bool(build.take(82))
    if small[0] != small[1]:
        raise NotModelled("IMMA of two sizes")
    bits = 4 if small[0] else 8
    parts = _depth(tall, deep, deeper, bits)
    rows = 1 + tall
    one, two = build.gpr(24, 0, rows * parts), build.gpr(32, 1, parts)
    three, result = build.gpr(64, 2, 2 * rows), build.gpr_out(count=2 * rows)
    build.latency = _latency(parts)
    first, second = (_whole(bits, is_signed=each) for each in signs)

    def run(t: Threads, mask: Array) -> None:
        _check_whole(t, mask, "IMMA", report)
        a, b = _part(t, one, rows * parts, first), _part(t, two, parts, second)
        added = _addend(t, three, 2 * rows).view(np.int32).astype(np.int64)
        total = _products(a, b, rows).reshape(2 * rows, t.count) + added
        total = np.clip(total, *_LIMITS) if saturate else total
        for place in range(2 * rows if result != ZERO else 0):
            t.put(result + place, (total[place] & 0xFFFFFFFF).astype(np.uint32), mask)

    return run


def _depth(tall: int, deep: int, deeper: int, bits: int) -> int:
    """Registers of the second factor; the fields name 16, 32 or 64 terms of a sum.

    measured: 8816 00, 16816 00, 16832 10, 8832 01, 16864 01 of bits 75 and 85
    """
    if deep and deeper:
        raise NotModelled("IMMA of this depth")
    terms = 64 if deeper and tall else 32 if deep or deeper else 16
    parts, rest = divmod(terms * bits, 4 * 32)
    if rest or parts not in (1, 2):
        raise NotModelled(f"IMMA of {terms} terms of {bits} bits")
    return parts

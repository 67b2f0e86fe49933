"""A census: every short vector instruction of every family, in every form that it has."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.boards import isa_forms as forms
from tests.boards.isa_forms import A, B, D, Short, State
from tests.share import part
from tests.support import check

_M32 = np.uint32(0xFFFFFFFF)
_PARTS = ((0, 8), (8, 8), (16, 8), (24, 8), (0, 16), (16, 16), (0, 32))
"""Lowest bit and width of each part that SDWA selects."""
_OLDER = ("gfx90a", "gfx942", "gfx950", "gfx10")
"""Families where v_pk_fmac_f16 takes no lanes from elsewhere."""
_TWO_RESULTS = ("v_cvt_pk_f32_fp8", "v_cvt_pk_f32_bf8")
_CHIPS = pytest.mark.parametrize("chip", forms.CHIPS)
_DERIVED = {"gfx90a": "gfx942", "gfx950": "gfx942", "gfx1151": "gfx1100"}
"""Chips whose tables are another one's with changes: all that is their own, a part of the rest."""
_OF_DERIVED = 40
Check = Callable[[Short, int], Iterator[list[str]]]


def _census(chip: str, what: Check, least: int) -> None:
    """Every instruction of a chip; some of them in a share. `least`: how many have the form."""
    all_of_them = list(forms.shorts(chip))
    rnd = random.Random(chip)
    if chip in _DERIVED:
        known = {short.name for short in forms.shorts(_DERIVED[chip])}
        same = [short for short in all_of_them if short.name in known]
        own = [short for short in all_of_them if short.name not in known]
        all_of_them = own + rnd.sample(same, _OF_DERIVED)
        least = 0
    picked = rnd.sample(all_of_them, part(len(all_of_them), 24))
    wrong: list[str] = []
    had = 0
    for number, short in enumerate(picked):
        found = list(what(short, number))
        had += bool(found)
        wrong += [line for lines in found for line in lines]
    check(not wrong, "\n".join(wrong))
    check(had >= least or len(picked) < len(all_of_them), f"{had} of {len(picked)} have the form")


def _reference(short: Short, state: State, **changes: Any) -> State | None:
    return forms.run(short, [short.word()], state, **changes)


@_CHIPS
def test_every_instruction_is_executed(chip: str) -> None:
    missing = [s.name for s in forms.shorts(chip) if _reference(s, forms.start(s, 0)) is None]
    check(not missing, f"{missing}")


def _long(short: Short, seed: int) -> Iterator[list[str]]:
    words = forms.long_words(short)
    if words is not None:
        state = forms.start(short, seed)
        found, expected = forms.run(short, words, state), _reference(short, state)
        yield forms.differences(short, found, expected, "e64")


@_CHIPS
def test_long_encodings(chip: str) -> None:
    _census(chip, _long, 200)


def _literals(short: Short, seed: int) -> Iterator[list[str]]:
    """# src: RDNA3 ISA 6.1.1 and CDNA3 ISA 5.1: a literal of 32 bits is the upper half of an f64,
    and is extended to an integer of 64 bits: by its sign for i64."""
    state, rng = forms.start(short, seed), random.Random(seed)
    first = next(slot for slot in short.entry.slots if slot.field == "a")
    for literal in (rng.getrandbits(32), rng.choice((0x3F800000, 0xFFFFFFF7, 7))):
        halves = [literal]
        if first.dwords == 2:
            above = 0xFFFFFFFF if short.kind == "i64" and literal >> 31 else 0
            halves = [0, literal] if short.kind == "f64" else [literal, above]
        prepared = state
        for i, half in enumerate(halves):
            prepared = prepared.with_source(A + i, np.uint32(half))
        found = forms.run(short, [short.word(forms.LITERAL), literal], state)
        expected = _reference(short, prepared)
        if found is not None and expected is not None:
            vgpr = expected.vgpr.copy()
            vgpr[A : A + len(halves)] = state.vgpr[A : A + len(halves)]
            expected = replace(expected, vgpr=vgpr)
        yield forms.differences(short, found, expected, f"literal {literal:#x}")


@_CHIPS
def test_literals(chip: str) -> None:
    _census(chip, _literals, 200)


def _signed(raw: Any, kind: str, negative: bool, absolute: bool) -> Any:
    """A dword whose float has another sign; of an f64 its upper dword."""
    sign = np.uint32(0x8000 if kind == "f16" else 0x80000000)
    raw = raw & ~sign if absolute else raw
    return raw ^ sign if negative else raw


def _of_kind(short: Short, number: int) -> bool:
    """Whether a source is a float of the instruction's type: of some the second is an integer."""
    return short.floats and not (number and ("ldexp" in short.name or "class" in short.name))


def _signs(short: Short, seed: int) -> Iterator[list[str]]:
    state = forms.start(short, seed)
    if not short.floats or short.name.startswith("v_mov"):
        return
    for number, register in enumerate((A, B)[: len(short.sources)]):
        if not _of_kind(short, number):
            continue
        for negative, absolute in random.Random(seed).sample([(1, 0), (0, 1), (1, 1)], 2):
            words = forms.long_words(short, neg=negative << number, abs=absolute << number)
            if words is None:
                return
            top = register + (short.kind == "f64")
            changed = _signed(state.vgpr[top], short.kind, bool(negative), bool(absolute))
            prepared = state.with_source(top, changed)
            expected = _reference(short, prepared)
            if expected is not None:
                vgpr = expected.vgpr.copy()
                vgpr[top] = state.vgpr[top]
                expected = replace(expected, vgpr=vgpr)
            found = forms.run(short, words, state)
            form = f"neg {negative} abs {absolute} of {register}"
            yield forms.differences(short, found, expected, form)


@_CHIPS
def test_signs(chip: str) -> None:
    _census(chip, _signs, 60)


def _part(raw: Any, select: int, extend: bool) -> Any:
    low, width = _PARTS[select]
    field = raw >> np.uint32(low) & np.uint32((1 << width) - 1)
    if extend and width < 32:
        field = np.where(field >> np.uint32(width - 1) != 0, field - np.uint32(1 << width), field)
    return field.astype(np.uint32)


def _placed(result: Any, old: Any, select: int, unused: int) -> Any:
    """A result in its part: the rest becomes zeros (0), the sign (1), or stays (2)."""
    low, width = _PARTS[select]
    mask = np.uint32(((1 << width) - 1) << low)
    field = result << np.uint32(low) & mask
    if unused == 2:
        return field | old & ~mask
    if unused == 1 and low + width < 32:
        negative = field >> np.uint32(low + width - 1) & np.uint32(1)
        field = np.where(negative, field | _M32 << np.uint32(low + width), field)
    return field


def _parts(short: Short, seed: int) -> Iterator[list[str]]:
    """# src: CDNA3 ISA 13.3.8 and 13.3.9, RDNA2 ISA 13.3.8 and 13.3.9."""
    wide = short.wide and short.name not in _TWO_RESULTS
    # src: llvm VOP2Instructions.td: what adds to its destination has no such form here
    if not short.family.sdwa or wide or short.packed or "mac_" in short.name:
        return
    rng, state = random.Random(seed), forms.start(short, seed)
    for _ in range(4):
        selects, extends = rng.choices(range(7), k=2), [False, False]
        target, unused = (6, 0) if short.name in _TWO_RESULTS else (
            rng.randrange(7), rng.randrange(3)
        )  # fmt: skip
        if not short.floats and short.kind[:1] == "i":
            extends = [bool(rng.getrandbits(1)) for _ in range(2)]
        extra = A | selects[0] << 16 | extends[0] << 19 | selects[1] << 24 | extends[1] << 27
        extra |= 0 if short.compares else target << 8 | unused << 11
        found = forms.run(short, [short.word(forms.SDWA), extra], state)
        prepared = state.with_source(A, _part(state.vgpr[A], selects[0], extends[0]))
        if "b" in short.sources:
            prepared = prepared.with_source(B, _part(state.vgpr[B], selects[1], extends[1]))
        if not short.compares:
            prepared = prepared.with_source(D, np.uint32(0))
        expected = _reference(short, prepared)
        if expected is not None:
            vgpr = state.vgpr.copy()
            if short.name in _TWO_RESULTS:
                vgpr[D : D + 2] = expected.vgpr[D : D + 2]
            elif not short.compares:
                vgpr[D] = _placed(expected.vgpr[D], state.vgpr[D], target, unused)
            expected = replace(expected, vgpr=vgpr)
        form = f"SDWA {extra:#010x}"
        yield forms.differences(short, found, expected, form)


@_CHIPS
def test_parts_of_registers(chip: str) -> None:
    _census(chip, _parts, 150 if chip in ("gfx90a", "gfx942", "gfx950", "gfx1030") else 0)


def _lanes_of(control: int, lanes: int) -> list[int]:
    """The lane that each lane reads, -1 outside its row or the wave.

    # src: RDNA3 ISA 15.3.7 and CDNA3 ISA 13.3.10, DPP_CTRL.
    """
    found = []
    for lane in range(lanes):
        row, column = lane // 16 * 16, lane % 16
        if control < 0x100:
            source = lane // 4 * 4 + (control >> 2 * (lane % 4) & 3)
        elif control in (0x140, 0x141):
            size = 16 if control == 0x140 else 8
            source = lane // size * size + size - 1 - lane % size
        elif control >> 4 == 0x10:
            source = lane + control % 16 if column + control % 16 < 16 else -1
        elif control >> 4 == 0x11:
            source = lane - control % 16 if column >= control % 16 else -1
        elif control >> 4 == 0x12:
            source = row + (column - control % 16) % 16
        else:  # row_share, or row_newbcast
            source = row + control % 16
        found.append(source)
    return found


def _permuted(short: Short, seed: int) -> Iterator[list[str]]:
    """Source 0 from other lanes; lanes that a mask or a missing source leaves out stay."""
    family = short.family
    lacks = short.wide or "legacy" in short.name or "dx9" in short.name
    lacks |= short.name == "v_pk_fmac_f16" and short.family.name in _OLDER
    if short.layout.name not in family.dpp_encodings or lacks:
        return
    # a mask is compared where all lanes stay on: what the others give is in no document
    writes = short.compares or any(slot.field == "V" for slot in short.entry.slots[:2])
    rng, state = random.Random(seed), forms.start(short, seed)
    lanes = family.lane_counts[0]
    controls = (rng.randrange(256), 0x100 + rng.randrange(1, 16), 0x110 + rng.randrange(1, 16),
                0x120 + rng.randrange(1, 16), 0x140, 0x141, 0x150 + rng.randrange(16))  # fmt: skip
    for control in rng.sample(controls, 3):
        rows, banks, bound = rng.randrange(1, 16), rng.randrange(1, 16), rng.getrandbits(1)
        if writes:
            rows, banks, bound = 15, 15, 1
        extra = A | control << 8 | bound << 19 | banks << 24 | rows << 28
        sources = np.array(_lanes_of(control, lanes))
        value = np.where(sources < 0, np.uint32(0), state.vgpr[A][:, sources])
        lane = np.arange(lanes)
        on = (rows >> lane // 16 & 1) & (banks >> lane % 16 // 4 & 1) != 0
        on &= (sources >= 0) | bool(bound)
        found = forms.run(short, [short.word(forms.DPP16), extra], state)
        expected = _reference(short, state.with_source(A, value))
        if expected is not None:
            vgpr = np.where(on, expected.vgpr, state.vgpr)
            vgpr[A] = state.vgpr[A]
            expected = replace(expected, vgpr=vgpr)
        yield forms.differences(short, found, expected, f"DPP {extra:#010x}")


@_CHIPS
def test_lanes_from_elsewhere(chip: str) -> None:
    _census(chip, _permuted, 90)


def _numbers(raw: Any, kind: str) -> Any:
    if kind == "f16":
        return raw.astype(np.uint16).view(np.float16)
    return np.ascontiguousarray(raw).view(np.float32)


def _limited(short: Short, seed: int) -> Iterator[list[str]]:
    """The output modifiers of floats: a factor, then a limit to 0 and 1.

    # src: RDNA2 ISA 6.2.2: a factor only while denormals are flushed and IEEE is off.
    """
    result = short.name.split("_")[2] if short.name.startswith("v_cvt_f") else short.kind
    if result not in ("f16", "f32") or short.compares or short.name.startswith("v_mov"):
        return
    state = forms.start(short, seed)
    plain = _reference(short, state, mode=0)
    # src: llvm VOP1Instructions.td, VOPProfile_Base_CVT_F_F8: HasClamp and HasOMod are 0
    if plain is None or "fp8" in short.name or "bf8" in short.name:
        return
    if not short.name.startswith(
        ("v_cvt_f", "v_add", "v_mul_f", "v_sub", "v_max", "v_min", "v_fma", "v_rcp", "v_sqrt")
    ):
        return
    value = _numbers(plain.vgpr[D], result)
    for omod, factor in enumerate((1.0, 2.0, 4.0, 0.5)):
        for clamp in (0, 1):
            words = forms.long_words(short, omod=omod, clamp=clamp)
            if words is None:
                return
            found = forms.run(short, words, state, mode=0)
            scaled = value * value.dtype.type(factor)
            tiny = np.abs(scaled) < np.finfo(value.dtype).tiny
            scaled = np.where(tiny & (omod > 0), 0, scaled)
            limited = np.where(scaled > 0, np.minimum(scaled, 1), 0) if clamp else scaled
            if found is None:
                yield [f"{short.name}, omod {omod} clamp {clamp}: not executed"]
                continue
            seen = _numbers(found.vgpr[D], result)
            same = (seen == limited) | (np.isnan(seen) & np.isnan(limited))
            yield [] if same.all() else [f"{short.name}, omod {omod} clamp {clamp}: {seen[~same]}"]


@_CHIPS
def test_factors_and_limits_of_results(chip: str) -> None:
    _census(chip, _limited, 20)


_WITHOUT = {"gfx90a": 0x140, "gfx942": 0x140, "gfx1030": 0x150, "gfx1100": 0x150, "gfx1201": 0x150}


@pytest.mark.parametrize("chip", _WITHOUT)
def test_operands_of_64_bits_come_from_their_own_lane(chip: str) -> None:
    """src: llvm AMDGPUAsmParser.cpp: of 64 bits gfx9 has row_newbcast alone, others nothing."""
    extra = A | _WITHOUT[chip] << 8 | 1 << 19 | 0xFF << 24
    wide = [s for s in forms.shorts(chip) if s.wide and s.layout.name == "VOP1"]
    kept = [s.name for s in wide if forms.run(s, [s.word(forms.DPP16), extra], forms.start(s, 0))]
    check(bool(wide) and not kept, f"{kept}")


@pytest.mark.parametrize("chip", ["gfx942", "gfx1030"])
def test_what_adds_to_its_destination_has_no_parts(chip: str) -> None:
    extra = A | 6 << 8 | 6 << 16 | 6 << 24
    adding = [s for s in forms.shorts(chip) if "mac_f" in s.name]
    kept = [s.name for s in adding if forms.run(s, [s.word(forms.SDWA), extra], forms.start(s, 0))]
    check(bool(adding) and not kept, f"{kept}")

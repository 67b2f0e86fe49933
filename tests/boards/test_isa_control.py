"""EXEC, SCC and VCC as scalar instructions read and write them, against Python's integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from boards.amd.isa.decode import Instruction, decode
from boards.amd.isa.families import FAMILIES
from boards.amd.wave.execute import bind
from boards.amd.wave.state import EXEC, VCC, Waves
from tests.boards.wave_harness import CHIPS
from tests.support import check

_TARGET, _SOURCE, _VGPR = 4, 8, 256
_COUNT = 256
_Rule = Callable[[int, int], int]


def _inst(cpu: str, lanes: int, name: str, **fields: int) -> Instruction | None:
    """An instruction by its mnemonic, or None where the family has none."""
    family = FAMILIES[cpu]
    for layout in family.layouts:
        for opcode, entry in layout.entries.items():
            if entry.name == name:
                word = layout.value | opcode << layout.opcode[0]
                word |= sum(value << layout.fields[field][0] for field, value in fields.items())
                return decode(family, [word & 0xFFFFFFFF, word >> 32, 0, 0], 0x1000, lanes)
    return None


def _run(inst: Instruction, w: Waves) -> Any:
    run = bind(inst)
    if run is None:
        raise AssertionError(f"{inst.name} has no meaning")
    with np.errstate(all="ignore"):
        return run(w)


def _waves(cpu: str, lanes: int) -> tuple[Waves, np.random.Generator]:
    """Waves with random EXEC and VCC, some of them 0, and what made them."""
    w = Waves(_COUNT, lanes, 8, 0, _COUNT, FAMILIES[cpu].null)
    rng = np.random.default_rng(lanes)
    for register in (EXEC, VCC, _SOURCE):
        w.sgpr[register : register + 2] = rng.integers(0, 1 << 32, (2, _COUNT), np.uint32)
        w.sgpr[register, rng.random(_COUNT) < 0.3] = 0
        w.sgpr[register + 1, rng.random(_COUNT) < 0.3] = 0
    w.select(np.arange(_COUNT))
    return w, rng


def _numbers(w: Waves, register: int, bits: int) -> list[int]:
    low, high = (w.sgpr[register + i].tolist() for i in range(2))
    return [a | b << 32 if bits > 32 else a for a, b in zip(low, high, strict=True)]


_SIZES = [pytest.param(cpu, n, id=f"{cpu}-{n}") for cpu in CHIPS for n in FAMILIES[cpu].lane_counts]
_MASKS: dict[str, _Rule] = {
    "and": lambda s, e: s & e, "or": lambda s, e: s | e, "xor": lambda s, e: s ^ e,
    "nand": lambda s, e: ~(s & e), "nor": lambda s, e: ~(s | e), "xnor": lambda s, e: ~(s ^ e),
    "and_not0": lambda s, e: ~s & e, "or_not0": lambda s, e: ~s | e,
    "and_not1": lambda s, e: s & ~e, "or_not1": lambda s, e: s | ~e,
    "andn1": lambda s, e: ~s & e, "orn1": lambda s, e: ~s | e,
    "andn2": lambda s, e: s & ~e, "orn2": lambda s, e: s | ~e,
}  # fmt: skip


@pytest.mark.parametrize(("cpu", "lanes"), _SIZES)
def test_masks_that_are_saved_and_written(cpu: str, lanes: int) -> None:
    seen = 0
    for name, rule in _MASKS.items():
        for action in ("saveexec", "wrexec"):
            inst = _inst(cpu, lanes, f"s_{name}_{action}_b{lanes}", d=_TARGET, a=_SOURCE)
            if inst is None:
                continue
            w, _ = _waves(cpu, lanes)
            before, source = (_numbers(w, r, lanes) for r in (EXEC, _SOURCE))
            _run(inst, w)
            after = [rule(s, e) & (1 << lanes) - 1 for s, e in zip(source, before, strict=True)]
            check(_numbers(w, EXEC, lanes) == after, f"{inst.name}: EXEC")
            kept = after if action == "wrexec" else before
            check(_numbers(w, _TARGET, lanes) == kept, f"{inst.name}: what it saves")
            check(w.scc.tolist() == [value != 0 for value in after], f"{inst.name}: SCC")
            seen += 1
    check(seen >= 12, f"only {seen} instructions")


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


_CONSTANTS: dict[str, Callable[[int, int, bool], tuple[int, bool]]] = {
    "s_movk_i32": lambda old, k, scc: (k, scc),
    "s_cmovk_i32": lambda old, k, scc: (k if scc else old, scc),
    "s_mulk_i32": lambda old, k, scc: (old * k, scc),
    "s_addk_i32": lambda old, k, scc: (old + k, not -(1 << 31) <= _signed(old) + k < 1 << 31),
}
_CONSTANTS["s_addk_co_i32"] = _CONSTANTS["s_addk_i32"]


@pytest.mark.parametrize("cpu", CHIPS)
@pytest.mark.parametrize("name", _CONSTANTS)
def test_constants_of_16_bits(cpu: str, name: str) -> None:
    lanes = FAMILIES[cpu].lane_counts[0]
    for k in (0, 1, -1, 0x7FFF, -0x8000):
        inst = _inst(cpu, lanes, name, d=_TARGET, i=k & 0xFFFF)
        if inst is None:
            check(name.startswith("s_addk"), f"no {name}")
            return
        w, rng = _waves(cpu, lanes)
        w.sgpr[_TARGET] = rng.integers(0, 1 << 32, _COUNT, np.uint32)
        w.sgpr[_TARGET, :3] = 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF
        w.scc[:] = rng.random(_COUNT) < 0.5
        old, scc = w.sgpr[_TARGET].tolist(), w.scc.tolist()
        _run(inst, w)
        wanted = [_CONSTANTS[name](value, k, bit) for value, bit in zip(old, scc, strict=True)]
        check(w.sgpr[_TARGET].tolist() == [v & 0xFFFFFFFF for v, _ in wanted], f"{name} {k}")
        check(w.scc.tolist() == [bit for _, bit in wanted], f"{name} {k}: SCC")


@pytest.mark.parametrize(("cpu", "lanes"), _SIZES)
def test_branches_look_at_the_whole_mask(cpu: str, lanes: int) -> None:
    for register, name in ((VCC, "vcc"), (EXEC, "exec")):
        for suffix, taken in (("z", True), ("nz", False)):
            inst = _inst(cpu, lanes, f"s_cbranch_{name}{suffix}", i=-3 & 0xFFFF)
            if inst is None:
                raise AssertionError(f"no s_cbranch_{name}{suffix}")
            w, _ = _waves(cpu, lanes)
            jump = _run(inst, w)
            wanted = [(mask == 0) is taken for mask in _numbers(w, register, lanes)]
            check(jump.target == 0x1000 + 4 - 12, hex(jump.target))
            check(jump.taken.tolist() == wanted, f"{name}{suffix}")


@pytest.mark.parametrize(("cpu", "lanes"), _SIZES)
def test_the_first_lane_that_is_on(cpu: str, lanes: int) -> None:
    inst = _inst(cpu, lanes, "v_readfirstlane_b32", d=_TARGET, a=_VGPR + 1)
    if inst is None:
        raise AssertionError("no v_readfirstlane_b32")
    w, rng = _waves(cpu, lanes)
    w.vgpr[1] = rng.integers(0, 1 << 32, (_COUNT, lanes), np.uint32)
    masks = _numbers(w, EXEC, lanes)
    first = [(mask & -mask).bit_length() - 1 if mask else 0 for mask in masks]
    _run(inst, w)
    np.testing.assert_array_equal(w.sgpr[_TARGET], w.vgpr[1][np.arange(_COUNT), first])

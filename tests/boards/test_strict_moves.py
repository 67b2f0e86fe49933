"""Moves of register pairs of which compilers only mean the lower half."""

from __future__ import annotations

import numpy as np

from boards.amd.isa.families import FAMILIES
from boards.amd.wave.execute import execute
from boards.amd.wave.types import Dispatch, Strict
from tests.boards.wave_harness import FlatMemory
from tests.support import check

_CODE_VA = 0x10000
_SET_S16 = 0xBE900081
_MOVE_S16, _MOVE_S18 = 0x7E047010, 0x7E047012
_END = 0xBF810000
"""s_mov_b32 s16, 1; v_mov_b64 v[2:3], s[16:17] and s[18:19]; s_endpgm. src: llvm-mc, gfx942"""


def violations(*words: int, chip: str = "gfx942") -> list[str]:
    memory = FlatMemory()
    memory.place(_CODE_VA, np.array([*words, _END, *[0xBF800000] * 4], np.uint32))
    dispatch = Dispatch(
        _CODE_VA, (1, 1, 1), (64, 1, 1), user_sgprs=(0, 0), lanes=64, rsrc1=0xF0 << 12 | 0x87,
        rsrc2=2 << 1, rsrc3=1,
    )  # fmt: skip
    report = execute(dispatch, memory, Strict(), FAMILIES[chip])
    return [violation.what for violation in report.violations]


def test_the_upper_half_of_a_moved_pair_may_be_undefined() -> None:
    """LLVM writes two 32-bit moves as one of 64 bits where the second value is undefined."""
    check(not violations(_SET_S16, _MOVE_S16), str(violations(_SET_S16, _MOVE_S16)))


def test_the_lower_half_may_not() -> None:
    check(violations(_SET_S16, _MOVE_S18) == ["s18"], str(violations(_SET_S16, _MOVE_S18)))


def pair_move(low: int, high: int, op_sel: int) -> tuple[int, int]:
    """v_pk_mov_b32 v[2:3] of two scalar pairs. src: LLVM 19's disassembler, gfx90a"""
    return 0xD3B34002 | op_sel << 11, low | high << 9 | 0x18000000


def test_gfx90a_moves_pairs_with_a_packed_instruction() -> None:
    def found(low: int, high: int, op_sel: int) -> list[str]:
        return violations(_SET_S16, *pair_move(low, high, op_sel), chip="gfx90a")

    check(not found(16, 16, 0b10), f"s[16:17] as it is: {found(16, 16, 0b10)}")
    check(found(18, 18, 0b10) == ["s18"], "the lower half may not be undefined")
    check(found(16, 16, 0b01) == ["s17"], "halves swapped are no move")
    check(found(16, 18, 0b10) == ["s19"], "nor are two pairs")
    check(found(16, 18, 0b00) == ["s18"], "only what is taken counts")


_PACKED_ADD, _CROSSED_ADD = (0xD3B24002, 0x18020902), (0xD3B25002, 0x08020902)
"""v_pk_add_f32 v[2:3], v[2:3], v[4:5]; the same with op_sel:[0,1] op_sel_hi:[1,0]"""
_USE_V2, _USE_V3 = 0x020C0502, 0x020C0703
"""v_add_f32 v6, v2, v2; v_add_f32 v6, v3, v3"""
_LANE_0, _ALL_LANES = 0xBEFE0181, 0xBEFE01C1
"""s_mov_b64 exec, 1 and -1. src of all: llvm-mc 14, gfx90a"""


def one(*registers: int) -> list[int]:
    """v_mov_b32 vN, 1.0 of each."""
    return [0x7E0002F2 | register << 17 for register in registers]


def test_half_of_a_packed_result_is_as_undefined_as_what_it_was_made_of() -> None:
    """LLVM adds two numbers with one v_pk_add_f32 where the other halves mean nothing."""
    add, lower = _PACKED_ADD, one(2, 4, 5)
    check(not violations(*lower, *add, _USE_V2), "v3 was never written, and is not used")
    check(violations(*lower, *add, _USE_V3) == ["v3"], "now it is")
    check(violations(*lower, *add, *add, _USE_V3) == ["v3"], "also when it was added twice")
    check(not violations(*lower, *add, *one(3), _USE_V3), "something else was written")
    check(not violations(*one(2, 3, 4, 5), *add, _USE_V2, _USE_V3), "all is defined")
    check(violations(*one(3, 4), *add) == ["v2"], "neither half means anything")
    crossed = violations(*one(2, 5), *_CROSSED_ADD, _USE_V2, _USE_V3)
    check(crossed == ["v3"], f"v2 + v5 below, v3 + v4 above: {crossed}")


def test_a_packed_result_loses_what_it_was_made_of() -> None:
    """v2 and v3 are whole, and v5 is not: v3 is undefined behind the add, in the lanes that did."""
    whole = one(2, 3, 4)
    check(violations(*whole, *_PACKED_ADD, _USE_V3) == ["v3"], "made of v5")
    check(not violations(*whole, _LANE_0, *_PACKED_ADD, _USE_V2), "v2 is")
    lanes = violations(*whole, _LANE_0, *one(5), _ALL_LANES, *_PACKED_ADD, _LANE_0, _USE_V3)
    check(not lanes, f"lane 0 had v5: {lanes}")


_OR_S16 = 0x87901010
"""s_or_b64 s[16:17], s[16:17], s[16:17]"""
_USE_S17, _USE_S16 = 0x7E040211, 0x7E040210
"""v_mov_b32 v2, s17 and s16. src: llvm-mc, gfx942"""


def test_the_upper_half_of_a_bitwise_result_is_as_undefined_as_what_it_was_made_of() -> None:
    """LLVM makes one s_or_b64 of two operations of which the second means nothing."""
    check(not violations(_SET_S16, _OR_S16, _USE_S16), str(violations(_SET_S16, _OR_S16, _USE_S16)))
    used = violations(_SET_S16, _OR_S16, _USE_S17)
    check(used == ["s17"], str(used))


_MERGE_S16, _LESS_S18 = 0x89907E10, 0x89906A12
"""s_andn2_b64 s[16:17], s[16:17], exec and s[16:17], s[18:19], vcc. src: llvm-mc, gfx942"""
_SET_VCC = 0xBEEA0181
"""s_mov_b64 vcc, 1"""


def test_a_mask_that_gets_new_lanes_may_begin_undefined() -> None:
    """LLVM merges conditions of loops that way; only lanes that are on are taken from a mask."""
    check(not violations(_MERGE_S16, _USE_S16), str(violations(_MERGE_S16, _USE_S16)))
    check(violations(_SET_VCC, _LESS_S18) == ["s18"], str(violations(_SET_VCC, _LESS_S18)))

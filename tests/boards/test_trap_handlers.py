"""What a runtime's second-level trap handler finds, on a board that runs it for real."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from boards.amd.cp import trap
from boards.amd.cp.engine_types import QueueSpec
from boards.amd.isa.families import FAMILIES
from boards.amd.wave.types import Dispatch, MemoryFault, Strict, WaveFault
from tests.boards.wave_harness import FlatMemory
from tests.support import check

_CODE_VA, _TMA_VA = 0x2000_0000, 0x3000_0800
_OWN = QueueSpec(1, "pm4", 0, 0, 0, 0, trap=(_CODE_VA, 0))
# The end of ROCr 5.2.3's handler, as LLVM 22 assembles it for gfx1030: s_andn2_b32 ttmp7, ttmp7,
# 0x3e000000; s_bitset1_b32 ttmp12, 13 (HALT); s_lshr_b32 ttmp2, ttmp11, 9; s_setreg_b32
# hwreg(HW_REG_IB_STS), ttmp2; s_and_b64 exec, exec, exec; s_and_b64 vcc, vcc, vcc; s_setreg_b32
# hwreg(HW_REG_STATUS), ttmp12; s_rfe_b64 ttmp[0:1]
_END = [
    0x8A73FF73, 0x3E000000, 0xBEF81D8D, 0x906E8977, 0xB9EEF807, 0x87FE7E7E, 0x87EA6A6A, 0xB9F8F802,
    0xBE80226C,
]  # fmt: skip
_S_NOP, _READS_S5 = 0xBF800000, 0xBE840305  # s_mov_b32 s4, s5


def _violations(
    words: list[int], spec: QueueSpec = _OWN, tables: dict[int, bytes] | None = None
) -> list[tuple[str, str]]:
    """What the board reports of a handler that a wave of gfx1030 enters."""

    def read(va: int, nbytes: int) -> bytes:
        data = (tables or {}).get(va)
        if data is None:
            raise MemoryFault("unmapped", "read", va)
        return data[:nbytes]

    memory, found = FlatMemory(), []
    memory.place(_CODE_VA, np.array([*words, *[_S_NOP] * 8], np.uint32))
    host = SimpleNamespace(
        chip=SimpleNamespace(family="gfx10"), find=lambda kind, what: found.append((kind, what)),
        message=lambda value: None,
    )  # fmt: skip
    context: Any = SimpleNamespace(spec=spec, read=read, host=host, waves=memory, strict=Strict())
    dispatch = Dispatch(0x1000, (1, 1, 1), (32, 1, 1), rsrc1=0xF0 << 12 | 7, rsrc2=0)
    fault = WaveFault("illegal instruction", pc=0x1000, text="?")
    trap.enter(context, dispatch, fault, FAMILIES["gfx1030"])
    return found


def test_a_handler_that_puts_the_fetch_state_back() -> None:
    check(not _violations(_END), str(_violations(_END)))


@pytest.mark.parametrize(
    ("words", "text"),
    [([_READS_S5, *_END], "uninitialised"), (_END[:-2] + _END[-1:], "goes back to the program")],
    ids=["a register of the wave", "no HALT"],
)
def test_what_a_handler_may_not_do_is_reported(words: list[int], text: str) -> None:
    check(any(text in what for _, what in _violations(words)), str(_violations(words)))


def test_the_kernels_handler_knows_the_processs_own() -> None:
    """src: cwsr_trap_handler_gfx10.asm L_FETCH_2ND_TRAP: TBA at 0, TMA at 8 of its own TMA"""
    pointers = {_TMA_VA: struct.pack("<2Q", _CODE_VA, 0x77000)}
    spec = QueueSpec(1, "pm4", 0, 0, 0, 0, kernel_trap_va=_TMA_VA)
    reported = _violations(_END[:-2] + _END[-1:], spec, pointers)
    check(any("goes back to the program" in what for _, what in reported), "it was not run")
    check(not _violations(_END, spec, pointers), "a right one")
    reported = _violations(_END, spec, {_TMA_VA: bytes(16)})
    check(not reported, f"without a handler nothing is run: {reported}")
    reported = _violations(_END, spec, {})
    check(any("has no memory" in what for _, what in reported), str(reported))

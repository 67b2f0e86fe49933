"""Registers that no launch changes and each submission owes: another process may have set others.

src: Mesa 25.0.7, src/freedreno/vulkan/tu_cmd_buffer.cc, tu6_init_static_regs(), tu6_init_hw();
src/freedreno/common/freedreno_devices.py (values of each chip); a6xx.xml (names)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from boards.qcom.chips import AdrenoChip
from boards.qcom.cp import registers as r
from boards.qcom.cp.state import Find

SP_FLOAT_CNTL, SP_PERFCTR_ENABLE, SP_TP_MODE_CNTL = 0xAE04, 0xAE0F, 0xB309
_ISAM_SHIFT, _ISAM_MASK, _SHARED_SHIFT = 1, 3, 3
_UBWC_HINT, _FLAG_HINT = 0xB602, 1 << 18
"""TPL1_DBG_ECO_CNTL1: the bit says nothing of compute."""

_EVERY: Final = {SP_FLOAT_CNTL: 0, SP_PERFCTR_ENABLE: 0x3F}
_SIXTH: Final = {0xB605: 0x44, 0xBE00: 0x80, 0xBE01: 0}
"""TPL1_UNKNOWN_B605, HLSQ_UNKNOWN_BE00 and BE01."""
_OLD_NAMES: Final = (0xE12, 0xE19, 0xAE00, 0xAE03, 0xB600, 0xBE04)
"""UCHE_UNKNOWN_0E12, UCHE_CLIENT_PF, SP_DBG_ECO_CNTL, SP_CHICKEN_BITS, TPL1_DBG_ECO_CNTL,
HLSQ_DBG_ECO_CNTL"""
_OLD: Final = {
    "a618": (0x1, 0x4, 0x0, 0x430, 0x108000, 0x80000),
    "a619": (0x1, 0x4, 0x0, 0x430, 0x108000, 0x80000),
    "a630": (0x10000001, 0x4, 0x0, 0x1430, 0x108000, 0x80000),
    "a640": (0x1, 0x4, 0x0, 0x420, 0x8000, 0x0),
    "a650": (0x1, 0x4, 0x1000000, 0x1400, 0x1008000, 0x0),
    "a660": (0x1, 0x84, 0x1000000, 0x1400, 0x5008000, 0x0),
    "a690": (0x1, 0x84, 0x1200000, 0x1400, 0x4C00000, 0x0),
}
_SEVENTH: Final = {
    0xE10: 0, 0xAB01: 0, 0xAB02: 0, 0xAB22: 0, 0xAE00: 0x10000000, 0xAE06: 0, 0xAE6A: 0,
    0xAE6B: 0x80, 0xAE73: 0, 0xB310: 0,
}  # fmt: skip
_A740: Final = {
    0xE11: 0x0, 0xE12: 0x0, 0xE17: 0x40004, 0xE19: 0x84, 0xAE03: 0x10001400, 0xAE08: 0x400,
    0xAE09: 0x430800, 0xAE0A: 0x0, 0xAE6C: 0x0, 0xB600: 0x11100000, _UBWC_HINT: 0x724,
}  # fmt: skip
_NEW: Final = {
    "a730": {
        0xE11: 0x40, 0xE12: 0x3200000, 0xE17: 0x840004, 0xE19: 0x84, 0xAE03: 0x1440, 0xAE08: 0x2400,
        0xAE09: 0x0, 0xAE0A: 0x0, 0xAE6C: 0x8000, 0xB600: 0x1000000, _UBWC_HINT: 0x724,
    },
    "a740": _A740,
    "x1-85": _A740,
    "a750": {
        0xE11: 0x80, 0xE12: 0x40000000, 0xE17: 0x0, 0xAE03: 0x10000400, 0xAE08: 0x0,
        0xAE09: 0x431800, 0xAE0A: 0x800000, 0xAE6C: 0x0, 0xB600: 0x11100000,
    },
}  # fmt: skip


def of_chip(name: str) -> dict[int, int]:
    """Values by register."""
    if name in _OLD:
        return {**_EVERY, **_SIXTH, **dict(zip(_OLD_NAMES, _OLD[name], strict=True))}
    return {**_EVERY, **_SEVENTH, **_NEW[name]}


class Static:
    """What a chip's submissions owe."""

    def __init__(self, chip: AdrenoChip) -> None:
        self._values, self._generation = of_chip(chip.name), chip.generation
        at = r.offsets(chip.generation)
        self._invalidate, self._shared = at.invalidate, at.shared
        self._chosen = (r.SP_MODE_CONTROL, SP_TP_MODE_CNTL, at.invalidate)

    def check(self, registers: Mapping[int, int], threads: int | None, find: Find) -> None:
        """Before a dispatch. `threads`: of CP_THREAD_CONTROL; None: there was none."""
        for register in (*self._chosen, *self._values):
            if register not in registers:
                find("unset register", f"a dispatch without register {register:#x} written")
        for register, value in self._values.items():
            got = registers.get(register, value)
            if register == _UBWC_HINT:
                got &= ~_FLAG_HINT
            if got != value:
                find("static register", f"register {register:#x} is {got:#x}, not {value:#x}")
        self._modes(registers, find)
        if self._generation >= r.SEVENTH and threads is None:
            find("static register", "a dispatch without CP_THREAD_CONTROL")

    def _modes(self, registers: Mapping[int, int], find: Find) -> None:
        mode = registers.get(r.SP_MODE_CONTROL)
        textures = registers.get(SP_TP_MODE_CNTL)
        if mode is None or textures is None:
            return
        if mode >> _ISAM_SHIFT & _ISAM_MASK != textures & _ISAM_MASK:
            find("registers differ", f"ISAMMODE of SP_MODE_CONTROL {mode:#x} and of TP")
        shared = registers.get(self._shared, 0) & 1 if self._shared else mode >> _SHARED_SHIFT & 1
        if shared != mode >> _SHARED_SHIFT & 1:
            find("registers differ", "HLSQ_SHARED_CONSTS is not as SP_MODE_CONTROL says")

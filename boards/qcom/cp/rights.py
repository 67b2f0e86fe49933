"""Which registers there are, and which of them a process may touch.

The kernel sets CP_PROTECT up: ranges that a process cannot write, or neither write nor read.
src: Linux, drivers/gpu/drm/msm/adreno/a6xx_catalog.c, *_protect_regs (A6XX_PROTECT_RDONLY,
A6XX_PROTECT_NORDWR: first register, and how many follow)
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from boards.qcom.cp.faults import OPCODE_ERROR, PROTECTED, GpuFault

_FOLDER = Path(__file__).parent / "tables"
_READ_ONLY = "0:4ff 501:5 50b:2f4 8de:ae 3cc4:1fff fc00:1fff"
_NOTHING = (
    "50e:0 510:0 534:0 800:82 8a0:8 8ab:24 900:4d 98d:272 e00:1 e03:c 3c00:c3 8630:1cf 8e00:0 "
    "8e50:1f 9624:1db 9e78:187 a630:1cf ae02:0 b604:0 be02:1 f000:bff"
)
"""What the lists of generation 6 have in common."""
_GEN1 = "8e08:0 9e70:1 ae50:32f be20:17df"
_A650 = "8e08:0 8e80:27f 9e60:11 ae50:32f b608:7 be20:17df"
_A660 = "8e08:0 8e80:27f 9e60:11 ae50:12f b608:6 be20:15f d000:5ff"
_A690 = "8e08:7 8e80:27f 9e60:11 ae50:12f b608:6 be20:15f d000:5ff"
_OF_CHIP = {
    "a618": _GEN1, "a619": _GEN1, "a630": _GEN1, "a640": _GEN1, "a650": _A650, "a660": _A660,
    "a690": _A690,
}  # fmt: skip
_WITHOUT_A_NAME = {"a750": (0x930A, 0x960A)}
"""# src: Mesa 25.0.7, freedreno_devices.py, raw_magic_regs of FD750"""
_READ_ONLY_7 = "0:4ff 50b:58 5fb:9d 8e7:14b 3cc4:1fff"
_NOTHING_7 = (
    "50e:0 510:0 534:0 699:1e9 8a0:8 8ab:24 8de:1 900:4d 98d:b2 a41:1be df0:1 e01:0 e07:8 "
    "3c00:c3 8630:1cf 8e00:0 8e08:0"
)
"""The first 21 ranges of a730_protect: which others there are is not modelled."""


def _pairs(text: str) -> list[tuple[int, int]]:
    found = []
    for part in text.split():
        first, more = (int(number, 16) for number in part.split(":"))
        found.append((first, first + more))
    return found


@cache
def existing(generation: int) -> frozenset[int]:
    """Every register of a generation."""
    lines = (_FOLDER / f"registers_{generation}.txt").read_text("ascii").splitlines()
    found: set[int] = set()
    for line in lines:
        if not line.startswith("#"):
            first, last = (int(number, 16) for number in line.split())
            found.update(range(first, last + 1))
    return frozenset(found)


@cache
def _protected(name: str, generation: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """(no writes, no reads either)"""
    if generation >= 7:
        return _pairs(_READ_ONLY_7), _pairs(_NOTHING_7)
    return _pairs(_READ_ONLY), _pairs(f"{_NOTHING} {_OF_CHIP[name]}")


class Rights:
    """Those of a process on one chip; what is found is remembered."""

    def __init__(self, name: str, generation: int) -> None:
        self._existing = existing(generation).union(_WITHOUT_A_NAME.get(name, ()))
        self._read_only, self._nothing = _protected(name, generation)
        self._writable: set[int] = set()

    def check_write(self, register: int) -> None:
        """Raises: GpuFault."""
        if register in self._writable:
            return
        self._check(register, [*self._read_only, *self._nothing], "write")
        self._writable.add(register)

    def check_read(self, register: int) -> None:
        """Raises: GpuFault."""
        self._check(register, self._nothing, "read")

    def _check(self, register: int, ranges: list[tuple[int, int]], access: str) -> None:
        if any(first <= register <= last for first, last in ranges):
            raise GpuFault(PROTECTED, f"{access} of register {register:#x}", register, access)
        if register not in self._existing:
            raise GpuFault(OPCODE_ERROR, f"there is no register {register:#x}", register, access)

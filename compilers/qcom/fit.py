"""Operands as the instructions take them: constants and immediates only where there is room.

# src: Mesa 25.0.7, ir3.c, ir3_valid_flags; ir3_cp.c, ir3_valid_immediate
"""

from __future__ import annotations

from typing import Final

from compilers.qcom.parse import FLOW, MEMORY, Code, Item, Place

IMMEDIATE_LIMIT: Final = 512
"""Of category 2: -512 ... 511 are known to work."""
FLOATS: Final = {
    0x00000000: 0, 0x3F000000: 1, 0x3F800000: 2, 0x40000000: 3, 0x40800000: 11,
}  # fmt: skip
"""Words of 0, 1/2, 1, 2, 4 -> their places in the table of float immediates.
# src: Mesa 25.0.7, ir3-common.xml, #flut"""
_SIGN: Final = 1 << 31
_THREE: Final = frozenset({"mad", "madsh", "sel"})
_SPECIAL: Final = frozenset({"rcp", "sqrt", "rsq"})
_FREE: Final = frozenset({"mov", "base", "cov"})
"""Any source."""


def is_float(op: str) -> bool:
    """Whether immediates of an instruction are floats."""
    return op.endswith(".f") or op.startswith("cmps.f")


def small(op: str, one: Place) -> bool:
    """Whether a literal is an immediate of category 2."""
    if is_float(op):
        return one.number in FLOATS
    value = one.number - (one.number >> 31 << 32)
    return -IMMEDIATE_LIMIT <= value < IMMEDIATE_LIMIT


class Fitter:
    """Puts literals that have no room into registers, once in a stretch without branches."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.items: list[Item] = []
        self.held: dict[Place, Place] = {}

    def run(self) -> None:
        """Change the kernel's items."""
        for item in self.code.items:
            if item.stem in FLOW:
                self.held.clear()
            else:
                self._fit(item)
            self.items.append(item)
        self.code.items = self.items

    def _fit(self, item: Item) -> None:
        if item.stem in _FREE:
            if item.stem == "cov" and item.srcs[0].kind == "k":
                self._hold(item, 0)
            return
        if item.stem in MEMORY or item.stem in _SPECIAL:
            for place in range(len(item.srcs)):
                self._hold(item, place)
        elif item.stem == "shfl":
            self._hold(item, 0)
        elif item.stem in _THREE:
            self._hold(item, 1)
        else:
            self._fit_two(item)

    def _fit_two(self, item: Item) -> None:
        if item.op == "sub.f" and item.srcs[1].kind == "k":
            flipped = item.srcs[1].number ^ _SIGN
            item.op, item.srcs[1] = "add.f", Place("k", flipped)
        literals = [place for place, one in enumerate(item.srcs) if one.kind == "k"]
        if len(literals) > 1:
            first_small = small(item.op, item.srcs[0])
            if first_small == small(item.op, item.srcs[1]):
                self._hold(item, 0)

    def _hold(self, item: Item, place: int) -> None:
        """A literal in a register."""
        one = item.srcs[place]
        if one.kind != "k":
            return
        if one not in self.held:
            made = Place("v", self.code.names)
            self.code.names += 1
            self.items.append(Item("mov", "mov", made, [one]))
            self.held[one] = made
        item.srcs[place] = self.held[one]

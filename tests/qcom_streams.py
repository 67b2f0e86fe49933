"""Streams of one dispatch, as Mesa's computerator makes them, to be broken in one place.

# src: notes section 1c; Mesa 25.0.7, src/freedreno/computerator/a6xx.cc
"""

from __future__ import annotations

from dataclasses import dataclass, field

from boards.qcom.cp.static import of_chip
from tests.qcom_boards import WAIT_FOR_IDLE, halves, type4, type7

LOAD_STATE, MARKER, EXEC_CS, MEM_WRITE = 0x34, 0x65, 0x33, 0x3D
WAIT_MEM_WRITES, EVENT_WRITE, MEM_TO_MEM = 0x12, 0x46, 0x73
THREAD_CONTROL = 0x17
INVALIDATE = {6: 49, 7: 51}
CLEAN = {6: 4, 7: 49}
_INVALIDATE_CMD = {6: 0xBB08, 7: 0xAB1F}
_CS_CNTL = {6: 0xB987, 7: 0xA9CD}
_NDRANGE = {6: 0xB990, 7: 0xA9D4}
_END = 0x0300_0000_0000_0000
"""ir3's `end`. # src: Mesa 25.0.7, src/freedreno/isa/ir3-cat0.xml, #instruction-cat0-0src"""
CODE_BYTES = 128


def code() -> bytes:
    """One unit: the first instruction ends it."""
    return _END.to_bytes(8, "little") + bytes(CODE_BYTES - 8)


def invalidate(generation: int) -> list[int]:
    """UCHE forgets what it has."""
    return type7(EVENT_WRITE, INVALIDATE[generation])


def clean(generation: int, va: int) -> list[int]:
    """UCHE is written back; generation 6 writes a word, too."""
    if generation >= 7:
        return type7(EVENT_WRITE, CLEAN[7])
    return type7(EVENT_WRITE, CLEAN[6], *halves(va), 0)


@dataclass
class Dispatch:
    """Every step of a dispatch by name; a test drops or replaces some."""

    generation: int
    code_va: int
    groups: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (64, 1, 1)
    constants: list[int] = field(default_factory=lambda: [0] * 4)
    lpac: bool = False
    chip: str = ""
    """Whose static registers are written; "": those of a630, a660 or a740."""

    def steps(self) -> dict[str, list[int]]:
        """In order."""
        old = self.generation < 7
        ids = 0xFCFCFCC0
        made = {
            "static": self._static(),
            "invalidate": invalidate(self.generation),
            "idle": type7(WAIT_FOR_IDLE),
            "update": type4(_INVALIDATE_CMD[self.generation], 0x7F),
            "constlen": type4(_CS_CNTL[self.generation], 1 << 8 | 1),
            "config": type4(0xA9BB, 1 << 8, 1),
            "control": type4(0xA9B0, 1 << 31 | 2 << 7),
            "sizes": type4(0xA9B1, 1),
            "start": type4(0xA9B4, *halves(self.code_va)),
            "code": type7(LOAD_STATE, 13 << 18 | 2 << 16 | 1 << 22, *halves(self.code_va)),
            "constants": self._constants(),
            "ids": type4(0xB997, ids, 0xFC) if old else type4(0xA9C2, ids, 0xFC),
            "order": [] if old else type4(0xA9DB, 0xFC),
            "marker": type7(MARKER, 8),
            "grid": self._grid(),
            "last": [] if old else type4(0xA9DF, self._local() & ~3),
            "run": type7(EXEC_CS, 0, *self.groups),
        }
        if self.lpac and old:
            made["ids"] += type4(0xA9C2, ids, 0xFC)
        return made

    def _static(self) -> list[int]:
        """What each submission owes, and the mode of Vulkan. # src: tu6_init_static_regs()"""
        old = self.generation < 7
        chip = self.chip or (("a660" if self.lpac else "a630") if old else "a740")
        values = {0xAB00: 5, 0xB309: 0xA2, **of_chip(chip), **({0xBB11: 0} if old else {})}
        made = [] if old else type7(THREAD_CONTROL, 1)
        return made + [word for at, value in values.items() for word in type4(at, value)]

    def words(self, **replaced: list[int]) -> list[int]:
        """The whole stream, with some steps replaced."""
        return [word for step in {**self.steps(), **replaced}.values() for word in step]

    def _constants(self) -> list[int]:
        units = len(self.constants) // 4
        return type7(LOAD_STATE, 13 << 18 | 1 << 14 | units << 22, 0, 0, *self.constants)

    def _local(self) -> int:
        x, y, z = (size - 1 for size in self.block)
        return 3 | x << 2 | y << 12 | z << 22

    def _grid(self) -> list[int]:
        sizes = [count * size for count, size in zip(self.groups, self.block, strict=True)]
        return type4(
            _NDRANGE[self.generation], self._local(), sizes[0], 0, sizes[1], 0, sizes[2], 0
        )

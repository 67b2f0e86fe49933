"""What the command processor hands to the shader processors, and what comes back.

    outcome = run(dispatch, memory)

The command processor has read the registers and loaded the constants; the executor reads neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from boards.machine.arrays import Addresses, Array, Words

NO_REGISTER: Final = 0xFC
"""r63.x: the value is not wanted. # src: Mesa 25.0.7, src/freedreno/ir3/ir3.h, regid(63, 0)"""
BINDLESS_SETS: Final = 8
MOST_INSTRUCTIONS: Final = 1 << 22
"""Steps of one chunk of workgroups, before the dispatch counts as endless."""


class Memory(Protocol):
    """GPU memory, as the addresses of one context reach it."""

    def gather(self, va: Addresses, item: int, count: int) -> Array:
        """`count` unsigned items of `item` (1, 2, 4) bytes from each address, shape (n, count).

        Raises: PageFault.
        """

    def scatter(self, va: Addresses, data: Array) -> None:
        """Stores data of shape (n, count), of dtype uint8, uint16 or uint32, at each address.

        Of two lanes that store to one place the later one wins. Raises: PageFault.
        """


class PageFault(Exception):
    """A GPU address that the context may not access so."""

    def __init__(self, va: int, access: str) -> None:
        super().__init__(f"{access} of {va:#x}")
        self.va, self.access = va, access
        """`access` is "read" or "write"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """A grid of workgroups, and the state of the shader processors that it runs under."""

    generation: int
    """6 or 7."""
    code: bytes
    """All that SP_CS_INSTRLEN covers."""
    code_va: int
    constants: Words
    """The constant file as words, four to a vec4, as long as the constlen of HLSQ_CS_CNTL."""
    loaded: Array
    """bool, of the length of `constants`: which words CP_LOAD_STATE6 or a preamble has written."""
    groups: tuple[int, int, int]
    block: tuple[int, int, int]
    wave_lanes: int = 64
    full_registers: int
    """vec4 of full registers (FULLREGFOOTPRINT)."""
    half_registers: int = 0
    """vec4 of half registers (HALFREGFOOTPRINT)."""
    merged: bool = True
    """MERGEDREGS: half registers are halves of the full ones."""
    branch_stack: int = 0
    """Entries: BRANCHSTACK of SP_CS_CTRL_REG0 counts pairs of them."""
    group_id_reg: int = NO_REGISTER
    """The first of three registers, 4 * register + component; shared if it is r48.x or above."""
    local_id_reg: int = NO_REGISTER
    shared_bytes: int = 0
    private_bytes: int = 0
    """Of one lane. What lies at SP_CS_PVT_MEM_ADDR is kept inside of the executor: the caller
    checks that the memory is mapped."""
    private_by_waves: bool = False
    """PERWAVEMEMLAYOUT: words of one lane do not lie side by side."""
    textures_va: int = 0
    textures: int = 0
    """NTEX: how many are at `textures_va`."""
    samplers_va: int = 0
    uavs_va: int = 0
    ubos: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Uniform buffers that LOAD_STATE6 has loaded, by number: address, bytes."""
    bindless: tuple[int, ...] = ()
    """Addresses of the bindless descriptor sets."""
    shared_constants: Words = field(default_factory=lambda: np.zeros(0, np.uint32))
    """HLSQ_SHARED_CONSTS_IMM of generation 7, which `stsc` reads."""
    scalar_alu: bool = False
    """The chip computes on shared registers: generation 6 as of a650, and 7."""
    early_preamble: bool = False
    """The preamble runs before the waves: EARLYPREAMBLE of SP_CS_CTRL_REG0."""
    bank_bit: int = 15
    """Highest bank bit of the memory: tiled images depend on it."""
    first_group: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class Violation:
    """What code may not do; each is reported once for its instruction."""

    kind: str
    pc: int
    """In bytes from the start of the code."""
    text: str
    detail: str
    wave: int = 0
    lane: int = 0

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail} at {self.pc:#x}: {self.text} (wave {self.wave})"


@dataclass(frozen=True, slots=True)
class Fault:
    """Why the waves stopped before their end."""

    kind: str
    """"page fault", "illegal instruction" or "endless"."""
    pc: int
    text: str
    detail: str
    va: int = 0
    access: str = ""


@dataclass(slots=True)
class Outcome:
    """How a dispatch went."""

    violations: list[Violation] = field(default_factory=list)
    fault: Fault | None = None
    instructions: int = 0
    """Issued, of all waves."""
    cycles: int = 0
    """Issue slots of all waves, with their nops and repetitions."""
    waves: int = 0

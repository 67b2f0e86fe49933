"""The seam between the front end and whatever executes code: one launch, and how it may end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from boards.nv.chip import NvChip
from boards.nv.space import GpuSpace

Grid = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class ConstantBank:
    """A constant buffer as the launch descriptor has it."""

    va: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Launch:
    """A grid that is to be executed. Sizes are of one thread (local) and one block (shared)."""

    chip: NvChip
    code_va: int
    space: GpuSpace
    grid: Grid
    block: Grid
    constants: Mapping[int, ConstantBank]
    registers: int
    barriers: int
    shared_bytes: int
    local_bytes: int
    shared_window: int
    local_window: int
    local_high_bytes: int = 0
    """Of its local bytes, those that end at 16 MiB; the others begin at 0."""

    def constant(self, bank: int) -> bytes:
        """What a constant bank holds as the grid begins. Raises: KeyError, MmuFault."""
        found = self.constants[bank]
        return self.space.read(found.va, found.nbytes)


class SmException(Exception):
    """Code has stopped: RM reports what is in the SM's error registers."""

    def __init__(self, warp_esr: int, pc: int, why: str, address: int = 0) -> None:
        super().__init__(why)
        self.warp_esr, self.pc, self.address = warp_esr, pc, address


class EndlessGrid(Exception):
    """The grid never ends: its channel stays busy until it is torn down."""


class Executor(Protocol):
    """Executes the code of a grid."""

    def launch(self, launch: Launch) -> None:
        """Runs all blocks. Raises: MmuFault, SmException, EndlessGrid."""
        ...


ILLEGAL_INSTRUCTION = 0x09
"""The warp's error register for an encoding that is no instruction.

src: Linux nouveau nvkm/engine/gr/gf100.c gf100_mp_warp_error; a kernel log of a GPU since Volta,
3dem/relion issue 436: "ESR 0x5067b0=0x9", "Illegal Instruction Encoding"
"""


class NoExecutor:
    """Refuses every grid, as a GPU that understands no instruction would."""

    def launch(self, launch: Launch) -> None:
        """Raises: SmException."""
        launch.space.execute(launch.code_va, 1)
        raise SmException(ILLEGAL_INSTRUCTION, launch.code_va, "this board executes no code yet")


Kernel = Callable[[Launch], None]


class KnownKernels:
    """Python in place of code, for tests: a kernel is known by the bytes that it begins with."""

    def __init__(self, kernels: Mapping[bytes, Kernel]) -> None:
        self._kernels = dict(kernels)

    def launch(self, launch: Launch) -> None:
        """Calls what stands for the code. Raises: SmException for code that nobody knows."""
        for code, kernel in self._kernels.items():
            if bytes(launch.space.execute(launch.code_va, len(code))) == code:
                kernel(launch)
                return
        raise SmException(ILLEGAL_INSTRUCTION, launch.code_va, "nothing stands for this code")

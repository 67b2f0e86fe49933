"""Constant bank 0 of a launch: what the compilers expect there besides the arguments.

# src: cubins of nvrtc 12.9 for each architecture, disassembled: which c[0x0] words stand for
# src: blockDim, gridDim, the windows and the first stack pointer
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from queues.nv.classes import WORD_BYTES

STACK_TOP: Final = 0xFFFDC0
"""First value of R1: 16 MiB of addresses, less 0x240 bytes that CUDA's runtime keeps."""
STACK_KEPT_BYTES: Final = 0x240
_QUAD_BYTES: Final = 8
_AXES_BYTES: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class BankLayout:
    """Byte offsets in bank 0; None: the compilers do not use it there."""

    block: int
    """Three words: lanes of a workgroup along x, y, z."""
    grid: int
    """Three words: workgroups along x, y, z."""
    stack: int
    shared_window: int | None = None
    local_window: int | None = None
    params_va: int | None = None
    """Where the address of the arguments is: TMA and `__grid_constant__` need it."""

    @property
    def end(self) -> int:
        """The first byte after what the driver writes; arguments lie behind it."""
        quads = (self.shared_window, self.local_window, self.params_va)
        ends = [at + _QUAD_BYTES for at in quads if at is not None]
        return max(
            *ends, self.block + _AXES_BYTES, self.grid + _AXES_BYTES, self.stack + WORD_BYTES
        )


_AMPERE: Final = BankLayout(
    block=0x00, grid=0x0C, stack=0x28, shared_window=0x18, local_window=0x20
)
_HOPPER: Final = BankLayout(block=0x00, grid=0x0C, stack=0x28, local_window=0x20, params_va=0x198)
_BLACKWELL: Final = BankLayout(
    block=0x360, grid=0x370, stack=0x37C, shared_window=0x2F0, local_window=0x2F8, params_va=0x348
)
_HOPPER_SM, _BLACKWELL_SM = 90, 100


def bank_of(sm: int) -> BankLayout:
    """The layout of an architecture."""
    if sm >= _BLACKWELL_SM:
        return _BLACKWELL
    return _HOPPER if sm >= _HOPPER_SM else _AMPERE

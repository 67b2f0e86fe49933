"""Matrix instructions of NVIDIA GPUs: their forms for lowering, and how to print them.

`mma.sync`: a warp's 32 lanes hold A (16 rows), B (8 columns) and the sum. Lane / 4 is a row of A
and of the sum, and a column of B; a lane's elements are pairs of neighbours along k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.matrix_form import Digit, Fragment, MatrixForm
from compilers.nv.targets import WAVE_LANES

ROWS: Final = 16
COLUMNS: Final = 8
PAIR: Final = 2
"""Elements of 16 bits in one operand register."""
SUMS: Final = 4
_GROUP: Final = Digit("lane", 4, 8, 1)
_BELOW: Final = 8
"""Rows between a lane's two rows of A and of the sum, and k between its two pairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixInstruction:
    """How a form is printed."""

    form: MatrixForm
    element: str
    """PTX's name of the type of A and B: "f16"."""
    intrinsic: str
    """LLVM's name for it."""
    operand: str
    """LLVM's type of an operand register."""

    @property
    def name(self) -> str:
        """PTX's name for it: "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"."""
        shape = f"m{ROWS}n{COLUMNS}k{self.form.depth}"
        return f"mma.sync.aligned.{shape}.row.col.f32.{self.element}.{self.element}.f32"

    @property
    def helper(self) -> str:
        """The name of the function that CUDA C has for it here."""
        return f"mma_k{self.form.depth}_{self.element}"


def _form(dtype: DType, depth: int) -> MatrixForm:
    """# src: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and m16n8k8:
    groupID is lane / 4, threadID_in_group lane % 4"""
    pairs = depth // _BELOW
    return MatrixForm(
        name=f"mma.m{ROWS}n{COLUMNS}k{depth}.{dtype.name}",
        dtype=dtype,
        rows=ROWS,
        columns=COLUMNS,
        depth=depth,
        lanes=WAVE_LANES,
        a=Fragment(
            count=2 * PAIR * pairs,
            line=(_GROUP, Digit("element", PAIR, 2, _BELOW)),
            along=(*_along(), *_further(2 * PAIR, pairs)),
        ),
        b=Fragment(count=PAIR * pairs, line=(_GROUP,), along=(*_along(), *_further(PAIR, pairs))),
        sums=Fragment(count=SUMS, line=(_GROUP, Digit("element", PAIR, 2, _BELOW)), along=_along()),
    )


def _along() -> tuple[Digit, ...]:
    return (Digit("lane", 1, 4, PAIR), Digit("element", 1, PAIR, 1))


def _further(divisor: int, pairs: int) -> tuple[Digit, ...]:
    return (Digit("element", divisor, pairs, _BELOW),) if pairs > 1 else ()


_F16_DEEP: Final = MatrixInstruction(
    form=_form(dt.float16, 16), element="f16", operand="<2 x half>",
    intrinsic="nvvm.mma.m16n8k16.row.col.f32.f32",
)  # fmt: skip
_BF16_DEEP: Final = MatrixInstruction(
    form=_form(dt.bfloat16, 16), element="bf16", operand="i32",
    intrinsic="nvvm.mma.m16n8k16.row.col.bf16",
)  # fmt: skip
_F16: Final = MatrixInstruction(
    form=_form(dt.float16, 8), element="f16", operand="<2 x half>",
    intrinsic="nvvm.mma.m16n8k8.row.col.f32.f32",
)  # fmt: skip
# src: PTX ISA, "mma" target notes: m16n8k8 of f16 from sm_75 on, m16n8k16 and bf16 from sm_80 on
_BY_UNIT: Final[dict[str, tuple[MatrixInstruction, ...]]] = {
    "turing": (_F16,),
    "ampere": (_F16_DEEP, _BF16_DEEP),
}
INSTRUCTIONS: Final[dict[str, MatrixInstruction]] = {
    made.form.name: made for unit in _BY_UNIT.values() for made in unit
}
"""By the name of the form."""


def forms_of(unit: str) -> tuple[MatrixForm, ...]:
    """The forms of an architecture (`compilers.nv.targets`)."""
    return tuple(made.form for made in _BY_UNIT[unit])


def instructions_of(unit: str) -> tuple[MatrixInstruction, ...]:
    """The same, with how they are printed."""
    return _BY_UNIT[unit]

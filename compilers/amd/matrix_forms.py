"""Matrix instructions of AMD GPUs: their forms for lowering, and how to print them.

A lane's elements of A lie in one row of A and are neighbours along K, and its elements of B in one
column of B: with B transposed in memory both are one contiguous load.
"""

from __future__ import annotations

from dataclasses import dataclass

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.matrix_form import Digit, Fragment, MatrixForm


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixInstruction:
    """How a form is printed."""

    form: MatrixForm
    intrinsic: str
    """LLVM's name for it."""
    builtin: str
    """clang's name for it."""
    element: str
    """LLVM's type of an element of the operands."""
    times: int = 1
    """Instructions for one load of the operands: a lane passes its elements in order. Which K
    a lane holds is the same for A and B, so that the sum is over the same elements."""
    flags: int = 0
    """Further integer operands, all 0."""

    @property
    def each(self) -> int:
        """Elements of A, and of B, that a lane passes to one instruction."""
        return self.form.a.count // self.times


def _form(
    name: str, dtype: DType, *, size: int, depth: int, held: int, lanes: int, chunk: int
) -> MatrixForm:
    """A lane holds `held` neighbours of A and B along K; parts of `size` lanes hold different ones,
    or copies where one part holds all. `chunk` neighbouring rows of the sum lie in one lane; the
    parts hold them alternately, and all lanes of a part hold the same rows of adjacent columns."""
    parts, sums = lanes // size, size * size // lanes
    operand = Fragment(
        count=held,
        line=(Digit("lane", 1, size, 1),),
        along=(Digit("lane", size, depth // held, held), Digit("element", 1, held, 1)),
    )
    total = Fragment(
        count=sums,
        line=(
            Digit("element", chunk, sums // chunk, parts * chunk),
            Digit("lane", size, parts, chunk),
            Digit("element", 1, chunk, 1),
        ),
        along=(Digit("lane", 1, size, 1),),
    )
    return MatrixForm(
        name=f"{name}.{dtype.name}",
        dtype=dtype,
        rows=size,
        columns=size,
        depth=depth,
        lanes=lanes,
        a=operand,
        b=operand,
        sums=total,
    )


def _wmma11(dtype: DType, element: str, name: str, vector: str) -> MatrixInstruction:
    # src: RDNA3 ISA 7.9: lanes 16..31 hold copies of lanes 0..15; row 2 i + lane / 16 of the sum
    return MatrixInstruction(
        form=_form("wmma11", dtype, size=16, depth=16, held=16, lanes=32, chunk=1),
        intrinsic=f"wmma.f32.16x16x16.{name}.v8f32.v16{vector}",
        builtin=f"wmma_f32_16x16x16_{name}_w32",
        element=element,
    )


def _wmma12(dtype: DType, element: str, name: str, vector: str) -> MatrixInstruction:
    # src: RDNA4 ISA 7.12: lane / 16 is which half of K, and which 8 rows of the sum
    return MatrixInstruction(
        form=_form("wmma12", dtype, size=16, depth=16, held=8, lanes=32, chunk=8),
        intrinsic=f"wmma.f32.16x16x16.{name}.v8f32.v8{vector}",
        builtin=f"wmma_f32_16x16x16_{name}_w32_gfx12",
        element=element,
    )


def _mfma(dtype: DType, element: str, name: str, suffix: str) -> MatrixInstruction:
    # src: AMD Instinct MI300 ISA 7.1: lane / 32 is which half of K; sums are in groups of 4 rows.
    # Two at a time, so that a lane's read of shared memory is 16 bytes.
    return MatrixInstruction(
        form=_form("mfma", dtype, size=32, depth=16, held=8, lanes=64, chunk=4),
        intrinsic=f"mfma.f32.32x32x8{name}{suffix.replace('_', '.')}",
        builtin=f"mfma_f32_32x32x8{name}{suffix}",
        element=element,
        times=2,
        flags=3,
    )


_BY_UNIT: dict[str, tuple[MatrixInstruction, ...]] = {
    "wmma11": (
        _wmma11(dt.float16, "half", "f16", "f16"),
        _wmma11(dt.bfloat16, "i16", "bf16", "i16"),
    ),
    "wmma12": (
        _wmma12(dt.float16, "half", "f16", "f16"),
        _wmma12(dt.bfloat16, "i16", "bf16", "i16"),
    ),
    "mfma": (_mfma(dt.float16, "half", "f16", ""), _mfma(dt.bfloat16, "i16", "bf16", "_1k")),
}
INSTRUCTIONS: dict[str, MatrixInstruction] = {
    made.form.name: made for unit in _BY_UNIT.values() for made in unit
}
"""By the name of the form."""


def forms_of(unit: str) -> tuple[MatrixForm, ...]:
    """The forms of a generation's matrix unit (compilers/amd/targets.py); "" has none."""
    return tuple(made.form for made in _BY_UNIT.get(unit, ()))

"""Matrix instructions of NVIDIA GPUs: their forms for lowering, and how to print them.

`mma.sync`: a warp's 32 lanes hold A (16 rows), B (8 columns) and the sum. Lane / 4 is a row of A
and of the sum, and a column of B; a lane's elements are the neighbours along k of 4 bytes.

`wgmma`: four warps add a product of 64 rows to sums in their registers, both factors in shared
memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.matrix_form import Digit, Fragment, MatrixForm, TileForm
from compilers.nv.targets import WAVE_LANES

ROWS: Final = 16
COLUMNS: Final = 8
WORD_BYTES: Final = 4
"""Of one operand register."""
SUMS: Final = 4
_GROUP: Final = Digit("lane", 4, 8, 1)
_BELOW: Final = 8
"""Rows between a lane's two rows of A and of the sum."""
_THREADS: Final = 4
"""Lanes that share a row."""
TILE_ROWS: Final = 64
WARPS: Final = 4
"""Of a warpgroup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixInstruction:
    """How a form is printed."""

    form: MatrixForm | TileForm
    element: str
    """PTX's name of the type of A and B: "f16"."""
    intrinsic: str = ""
    """LLVM's name for it; "": it has none."""
    operand: str = "i32"
    """LLVM's type of an operand register."""
    narrowed: bool = False
    """Whether a float32 is rounded to the type first."""

    @property
    def total(self) -> str:
        """PTX's name of the type of the sums."""
        return "s32" if self.form.sums_dtype is dt.int32 else "f32"

    @property
    def per_word(self) -> int:
        """Elements of an operand register."""
        return WORD_BYTES // self.form.dtype.itemsize

    @property
    def name(self) -> str:
        """PTX's name for it: "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"."""
        form = self.form
        shape = f"m{form.rows}n{form.columns}k{form.depth}"
        if isinstance(form, TileForm):
            types = f"{self.total}.{self.element}.{self.element}"
            return f"wgmma.mma_async.sync.aligned.{shape}.{types}"
        types = f"{self.total}.{self.element}.{self.element}.{self.total}"
        return f"mma.sync.aligned.{shape}.row.col.{types}"

    @property
    def helper(self) -> str:
        """The name of the function that CUDA C has for it here."""
        if isinstance(self.form, TileForm):
            return f"wgmma_n{self.form.columns}_{self.element}"
        return f"mma_k{self.form.depth}_{self.element}"


def _form(dtype: DType, pieces: int, name: str = "") -> MatrixForm:
    """With so many times 16 bytes of k.

    # src: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and m16n8k8,
    "... mma.m16n8k32" of .s8, "... mma.m16n8k8" of .tf32: groupID is lane / 4, threadID_in_group
    lane % 4"""
    word = WORD_BYTES // dtype.itemsize
    depth = pieces * _THREADS * word
    return MatrixForm(
        name=f"mma.m{ROWS}n{COLUMNS}k{depth}.{name or dtype.name}",
        dtype=dtype,
        rows=ROWS,
        columns=COLUMNS,
        depth=depth,
        lanes=WAVE_LANES,
        a=Fragment(
            count=2 * word * pieces,
            line=(_GROUP, Digit("element", word, 2, _BELOW)),
            along=(*_along(word), *_further(2 * word, pieces, word)),
        ),
        b=Fragment(
            count=word * pieces,
            line=(_GROUP,),
            along=(*_along(word), *_further(word, pieces, word)),
        ),
        sums=Fragment(count=SUMS, line=(_GROUP, Digit("element", 2, 2, _BELOW)), along=_along(2)),
        sums_dtype=dt.int32 if dtype.kind in "iu" else dt.float32,
        gathered=pieces > 1,
    )


def _along(word: int) -> tuple[Digit, ...]:
    inside = (Digit("element", 1, word, 1),) if word > 1 else ()
    return (Digit("lane", 1, _THREADS, word), *inside)


def _further(divisor: int, pieces: int, word: int) -> tuple[Digit, ...]:
    return (Digit("element", divisor, pieces, _THREADS * word),) if pieces > 1 else ()


def _tile_form(dtype: DType, columns: int) -> TileForm:
    """# src: PTX ISA, "Register Fragments and Shared Memory Matrix Layouts" of wgmma: fragment D of
    m64nNk16: row 16 * (warp % 4) + lane / 4 + 8 * (i / 2 % 2), column 8 * (i / 4) + lane % 4 * 2
    + i % 2"""
    halves = dtype.itemsize == 2
    return TileForm(
        name=f"wgmma.m{TILE_ROWS}n{columns}k{32 // dtype.itemsize}.{dtype.name}",
        dtype=dtype,
        rows=TILE_ROWS,
        columns=columns,
        depth=32 // dtype.itemsize,
        lanes=WARPS * WAVE_LANES,
        sums=Fragment(
            count=columns // 2,
            line=(_GROUP, Digit("lane", WAVE_LANES, WARPS, ROWS), Digit("element", 2, 2, _BELOW)),
            along=(*_along(2), Digit("element", SUMS, columns // COLUMNS, COLUMNS)),
        ),
        sums_dtype=dt.int32 if dtype.kind in "iu" else dt.float32,
        across=halves,
    )


_F16: Final = MatrixInstruction(
    form=_form(dt.float16, 1), element="f16", operand="<2 x half>",
    intrinsic="nvvm.mma.m16n8k8.row.col.f32.f32",
)  # fmt: skip
_AMPERE: Final = (
    MatrixInstruction(
        form=_form(dt.float16, 2), element="f16", operand="<2 x half>",
        intrinsic="nvvm.mma.m16n8k16.row.col.f32.f32",
    ),
    MatrixInstruction(
        form=_form(dt.bfloat16, 2), element="bf16", intrinsic="nvvm.mma.m16n8k16.row.col.bf16"
    ),
    MatrixInstruction(
        form=_form(dt.int8, 2), element="s8", intrinsic="nvvm.mma.m16n8k32.row.col.s8"
    ),
    MatrixInstruction(
        form=_form(dt.uint8, 2), element="u8", intrinsic="nvvm.mma.m16n8k32.row.col.u8"
    ),
    MatrixInstruction(
        form=_form(dt.float32, 2, "tf32"), element="tf32", narrowed=True,
        intrinsic="nvvm.mma.m16n8k8.row.col.tf32",
    ),
)  # fmt: skip
# src: PTX ISA, "wgmma.mma_async": N is a multiple of 8 up to 256; of 16 for .s8 above 32
_HOPPER: Final = tuple(
    MatrixInstruction(form=_tile_form(dtype, columns), element=element)
    for dtype, element in ((dt.float16, "f16"), (dt.bfloat16, "bf16"), (dt.int8, "s8"),
                           (dt.uint8, "u8"))
    for columns in (256, 128, 64)
)  # fmt: skip
# src: PTX ISA, "mma" target notes: m16n8k8 of f16 from sm_75 on; m16n8k16, bf16, tf32 and m16n8k32
# of s8 from sm_80 on; wgmma: sm_90a alone
_BY_UNIT: Final[dict[str, tuple[MatrixInstruction, ...]]] = {
    "turing": (_F16,),
    "ampere": _AMPERE,
    "hopper": (*_AMPERE, *_HOPPER),
}
INSTRUCTIONS: Final[dict[str, MatrixInstruction]] = {
    made.form.name: made for unit in _BY_UNIT.values() for made in unit
}
"""By the name of the form."""
ROUNDED: Final = "tf32"
"""The feature of a device whose float32 products may be those of tf32, with 10 bits of fraction."""


def forms_of(unit: str) -> tuple[MatrixForm, ...]:
    """Those of warps that an architecture (`compilers.nv.targets`) has and that round nothing."""
    made = (one.form for one in _BY_UNIT[unit] if not one.narrowed)
    return tuple(form for form in made if isinstance(form, MatrixForm))


def rounded_forms() -> tuple[MatrixForm, ...]:
    """Those of warps that round their operands, from sm_80 on."""
    made = (one.form for one in _AMPERE if one.narrowed)
    return tuple(form for form in made if isinstance(form, MatrixForm))


def tile_forms_of(unit: str) -> tuple[TileForm, ...]:
    """Those of warpgroups."""
    made = (one.form for one in _BY_UNIT[unit])
    return tuple(form for form in made if isinstance(form, TileForm))


def instructions_of(unit: str) -> tuple[MatrixInstruction, ...]:
    """All of them, with how they are printed."""
    return _BY_UNIT[unit]

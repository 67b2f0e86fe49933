"""Matrix instructions of AMD GPUs: shapes, and which elements each lane of a wave holds.

D += A B where A is SIZE x K and B is K x SIZE. In all forms a lane's elements of A lie in one row
of A and are neighbours along K, and its elements of B in one column of B: with B transposed in
memory both are one contiguous load.
"""

from __future__ import annotations

from dataclasses import dataclass

from compilers.amd.targets import TARGETS
from compilers.dtype import DType

SMALLEST = 16
"""A product with fewer rows, columns or elements along K than this is left to the vector units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One instruction. A lane is numbered within its wave."""

    intrinsic: str
    element: str
    """LLVM's type of an element of the operands."""
    size: int = 16
    """Rows and columns of the result."""
    each: int
    """Elements of A, and of B, that a lane gives to one instruction."""
    times: int = 1
    """Instructions for one load of the operands: a lane loads `each * times` neighbours along K
    and gives them away in order. Which K a lane holds is the same for A and B, so that the sum is
    over the same elements."""
    depth: int
    """K: how much those instructions sum together."""
    sums: int
    """Elements of the result in a lane."""
    lanes: int
    chunk: int
    """Neighbouring rows of the result that lie in one lane; the parts of `size` lanes take turns
    at them, and all lanes of a part hold the same rows of neighbouring columns."""
    flags: int = 0
    """Further integer operands, all 0."""
    builtin: str
    """clang's name for it."""

    @property
    def per_lane(self) -> int:
        """Elements of A, and of B, that a lane loads at once."""
        return self.each * self.times

    @property
    def groups(self) -> int:
        """How many parts of K the lanes of a wave hold; 1: all parts of a wave hold the same."""
        return self.depth // self.per_lane

    @property
    def parts(self) -> int:
        """How many times `size` lanes a wave has."""
        return self.lanes // self.size


def _wmma11(element: str, name: str, vector: str) -> Form:
    # src: RDNA3 ISA 7.9: lanes 16..31 hold copies of lanes 0..15; row 2 i + lane / 16 of the sum
    return Form(
        intrinsic=f"wmma.f32.16x16x16.{name}.v8f32.v16{vector}",
        element=element,
        each=16,
        depth=16,
        sums=8,
        lanes=32,
        chunk=1,
        builtin=f"wmma_f32_16x16x16_{name}_w32",
    )


def _wmma12(element: str, name: str, vector: str) -> Form:
    # src: RDNA4 ISA 7.12: lane / 16 is which half of K, and which 8 rows of the sum
    return Form(
        intrinsic=f"wmma.f32.16x16x16.{name}.v8f32.v8{vector}",
        element=element,
        each=8,
        depth=16,
        sums=8,
        lanes=32,
        chunk=8,
        builtin=f"wmma_f32_16x16x16_{name}_w32_gfx12",
    )


def _mfma(element: str, name: str, suffix: str) -> Form:
    # src: AMD Instinct MI300 ISA 7.1: lane / 32 is which half of K; sums are in groups of 4 rows.
    # Two at a time, so that a lane's read of shared memory is 16 bytes.
    return Form(
        intrinsic=f"mfma.f32.32x32x8{name}{suffix.replace('_', '.')}",
        element=element,
        size=32,
        each=4,
        times=2,
        depth=16,
        sums=16,
        lanes=64,
        chunk=4,
        flags=3,
        builtin=f"mfma_f32_32x32x8{name}{suffix}",
    )


FORMS: dict[str, Form] = {
    "wmma11.float16": _wmma11("half", "f16", "f16"),
    "wmma11.bfloat16": _wmma11("i16", "bf16", "i16"),
    "wmma12.float16": _wmma12("half", "f16", "f16"),
    "wmma12.bfloat16": _wmma12("i16", "bf16", "i16"),
    "mfma.float16": _mfma("half", "f16", ""),
    "mfma.bfloat16": _mfma("i16", "bf16", "_1k"),
}
"""By generation's matrix unit (compilers/amd/targets.py) and dtype of the operands."""


def form_of(arch: str, dtype: DType) -> str | None:
    """The name of the instruction that `arch` has for operands of `dtype`, if it has one."""
    target = TARGETS.get(arch)
    name = f"{target.generation.matrix}.{dtype.name}" if target else ""
    return name if name in FORMS else None

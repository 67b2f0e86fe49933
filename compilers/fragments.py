"""Matrix instructions of AMD GPUs: shapes, and which elements each lane of a wave holds.

D += A B where A is 16 x K and B is K x 16. In all forms a lane's elements of A lie in one row of A
and are neighbours along K, and its elements of B in one column of B: with B transposed in memory
both are one contiguous load.
"""

from __future__ import annotations

from dataclasses import dataclass

from compilers.amd_targets import TARGETS
from compilers.dtype import DType

SIZE = 16
"""Rows and columns of the result."""


@dataclass(frozen=True, slots=True)
class Form:
    """One instruction. A lane is numbered within its wave."""

    intrinsic: str
    element: str
    """LLVM's type of an element of the operands."""
    depth: int
    """K: how much one instruction sums."""
    per_lane: int
    """Elements of A, and of B, in a lane."""
    sums: int
    """Elements of the result in a lane."""
    lanes: int
    interleaved: bool = False
    """Whether rows of the result alternate between the halves of the wave (RDNA3); otherwise each
    16 lanes hold neighbouring rows."""
    flags: int = 0
    """Further integer operands, all 0."""
    builtin: str = ""
    """clang's name for it."""

    @property
    def groups(self) -> int:
        """How many parts of K the lanes of a wave hold; 1: all 16 lanes hold the same."""
        return self.depth // self.per_lane


FORMS: dict[str, Form] = {
    # src: RDNA3 ISA 7.9: lanes 16..31 hold copies of lanes 0..15; row 2 i + lane / 16 of the sum
    "wmma11.float16": Form(
        "wmma.f32.16x16x16.f16.v8f32.v16f16",
        "half",
        16,
        16,
        8,
        32,
        interleaved=True,
        builtin="wmma_f32_16x16x16_f16_w32",
    ),
    "wmma11.bfloat16": Form(
        "wmma.f32.16x16x16.bf16.v8f32.v16i16",
        "i16",
        16,
        16,
        8,
        32,
        interleaved=True,
        builtin="wmma_f32_16x16x16_bf16_w32",
    ),
    # src: RDNA4 ISA 7.12: lane / 16 is which half of K, and which 8 rows of the sum
    "wmma12.float16": Form(
        "wmma.f32.16x16x16.f16.v8f32.v8f16",
        "half",
        16,
        8,
        8,
        32,
        builtin="wmma_f32_16x16x16_f16_w32_gfx12",
    ),
    "wmma12.bfloat16": Form(
        "wmma.f32.16x16x16.bf16.v8f32.v8i16",
        "i16",
        16,
        8,
        8,
        32,
        builtin="wmma_f32_16x16x16_bf16_w32_gfx12",
    ),
    # src: AMD Instinct MI300 ISA 7.1: lane / 16 is which quarter of K, and which 4 rows of the sum
    "mfma.float16": Form(
        "mfma.f32.16x16x16f16", "half", 16, 4, 4, 64, flags=3, builtin="mfma_f32_16x16x16f16"
    ),
    "mfma.bfloat16": Form(
        "mfma.f32.16x16x16bf16.1k", "i16", 16, 4, 4, 64, flags=3, builtin="mfma_f32_16x16x16bf16_1k"
    ),
}
"""By generation's matrix unit (compilers/amd_targets.py) and dtype of the operands."""


def form_of(arch: str, dtype: DType) -> str | None:
    """The name of the instruction that `arch` has for operands of `dtype`, if it has one."""
    target = TARGETS.get(arch)
    name = f"{target.generation.matrix}.{dtype.name}" if target else ""
    return name if name in FORMS else None

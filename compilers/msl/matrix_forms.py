"""Matrices of a SIMD-group: eight by eight elements, two in each lane.

Which two a lane holds, MSL does not say; Apple's own library relies on it: two neighbours of a row,
in blocks of four rows and four columns.
# src: ml-explore/mlx, mlx/backend/metal/kernels/steel/gemm/mma.h, BaseMMAFrag::get_coord
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from compilers import dtype as dt
from compilers.matrix_form import Digit, Fragment, MatrixForm

SIZE: Final = 8
LANES: Final = 32
HELD: Final = 2
"""Elements of a lane, neighbours along a row."""
_ROW: Final = (Digit("lane", 2, 4, 1), Digit("lane", 16, 2, 4))
_COLUMN: Final = (Digit("lane", 1, 2, 2), Digit("lane", 8, 2, 4), Digit("element", 1, 2, 1))
HALF: Final = MatrixForm(
    name="simdgroup_half8x8",
    dtype=dt.float16,
    rows=SIZE,
    columns=SIZE,
    depth=SIZE,
    lanes=LANES,
    a=Fragment(count=HELD, line=_ROW, along=_COLUMN),
    b=Fragment(count=HELD, line=_COLUMN, along=_ROW),
    sums=Fragment(count=HELD, line=_ROW, along=_COLUMN),
)
"""Sums are float32. B is 8 rows of k, so that its line is a column."""
FLOAT: Final = replace(HALF, name="simdgroup_float8x8", dtype=dt.float32)
BFLOAT: Final = replace(FLOAT, dtype=dt.bfloat16)
"""A bfloat16 is widened, which is exact, where it is put in: MSL has simdgroup_bfloat8x8 from 3.1
on alone, and Metal does not say which version it compiles.
# src: Metal Shading Language Specification 3.1, 2.4 "SIMD-group Matrix Data Types" """
FORMS: Final = (HALF, BFLOAT, FLOAT)
PUT: Final = {
    dt.float16: "as_type<half>((ushort){})",
    dt.bfloat16: "as_type<float>((uint){} << 16)",
    dt.float32: "{}",
}
"""A form's dtype -> an element of its operands, of what is in memory."""

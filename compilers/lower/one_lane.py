"""A CPU's kernel for a CPU behind a GPU's interface (`Limits.schedule`): a workgroup of one lane
for each grid item, its scratch in the workgroup's shared memory, which is ordinary memory there."""

from __future__ import annotations

from dataclasses import replace

from compilers.ir import Kernel, Ref
from compilers.lower.contraction import Blocking
from compilers.lower.rewrite import StatementRewriter

MOST_DEPTH, LEAST_DEPTH = 512, 16
"""Of a block that is packed."""
LINES = 256
"""Rows and columns together that a block has at least, where there is memory for them."""
MOST_ROWS, ROW_UNIT = 96, 12
"""Of a packed block of A: a third of the lines at most, whole register tiles."""
MOST_COLUMNS, COLUMN_UNIT = 2048, 32


def on_one_lane(kernel: Kernel) -> Kernel:
    """The kernel with workgroups of one lane."""
    moved = {ref: _shared(ref) for ref in kernel.locals if ref.space == "scratch"}
    rewriter = StatementRewriter(moved, {})
    body = replace(kernel.body, body=rewriter.body(kernel.body.body))
    refs = tuple(moved.get(ref, ref) for ref in kernel.locals)
    return replace(kernel, locals=refs, body=body, block=1)


def _shared(ref: Ref) -> Ref:
    return replace(ref, space="shared", slot=0)


def blocking_within(shared_bytes: int, itemsize: int) -> Blocking | None:
    """Blocks of a product whose packed operands fit in so much memory; None: there is too little
    for one."""
    elements = (shared_bytes - COLUMN_UNIT * itemsize) // itemsize
    depth = MOST_DEPTH
    for _ in range(MOST_DEPTH.bit_length()):
        if depth * LINES > elements and depth > LEAST_DEPTH:
            depth //= 2
    lines = elements // depth
    rows = min(MOST_ROWS, lines // 3) // ROW_UNIT * ROW_UNIT
    columns = min(MOST_COLUMNS, lines - rows) // COLUMN_UNIT * COLUMN_UNIT
    return Blocking(kc=depth, mc=rows, nc=columns) if rows and columns else None

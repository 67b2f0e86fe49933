"""The kernel IR: a typed loop nest over affine indices. Renderers print exactly this.

    Kernel  -> params (global memory), locals (registers, scratch), a body of statements
    Loop    -> var in 0..extent-1; kind grid | item | lane | serial | unroll | vector
    Store   -> ref[index] = value, where `valid` holds
    If      -> body, where `valid` holds
    Barrier -> every lane of the workgroup, or wave, sees what the others stored to shared memory
    Matrix  -> a product of two small matrices that the lanes of a wave hold together
    Gather  -> fragments of shared memory to the registers of a wave's lanes
    Copy    -> memory to shared memory, while the lane goes on
    TileMatrix -> a product of tiles in shared memory by some waves, while they go on
    Pending -> where groups of copies or products end, and where they are waited for
    Expr    -> a scalar value; inside a vector loop, one value per lane

Vector loops are innermost, their extent is a power of two, and their body holds only stores. In
one, an Expr or Index that depends on the loop's variable has a lane per iteration, everything else
is uniform.
Statements run in order: a load after a store to the same ref sees the new value.
Unrolled loops are printed once per iteration with the variable replaced by its number, so that
register arrays (space "register") are only ever indexed by constants plus the vector variable.

A kernel for a GPU has the number of lanes of a workgroup (`block`) and one of two shapes:

    item    the outermost loop; each lane of the launch is an iteration where there is one left
    grid    each workgroup is an iteration, and in it loops of kind "lane" (extent: `block`) are the
            lanes: statements outside of them are executed by each lane, too
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from compilers.dtype import DType
from compilers.index import Index, Var
from compilers.matrix_form import MatrixForm, TileForm

SHARED_ALIGN_BYTES = 16
"""Of arrays in shared memory, and of a GPU kernel's arguments."""
COPIED_BYTES = 16
"""Of one Copy, and of a row of Gather."""
Valid: TypeAlias = tuple[tuple[Index, int, int], ...]
"""A conjunction of `low <= index < high`; () is always true."""


@dataclass(frozen=True, slots=True, eq=False)
class Ref:
    """Memory a kernel names. `size` counts elements.

    space "global": parameter number `slot`, never aliased by another parameter.
    space "register": a private array of constant-indexed elements.
    space "scratch": per-worker memory at byte `slot` of the scratch block (64-byte aligned).
    space "shared": memory of a GPU's workgroup, uninitialised.
    """

    name: str
    dtype: DType
    size: int
    space: str
    slot: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """A value. Shared objects are shared values; identity is equality.

    const   arg: Python number          index   arg: Index, dtype int64, or int32 if it fits
    load    arg: Load                   valid   arg: Valid, dtype bool
    cast bitcast, the UNARY and BINARY ops and `where` of compilers.graph, and
    fma     src (a, b, c): a * b + c with one rounding
    idiv imod   integers: C's truncating division by a divisor that is known not to be 0 or -1
    dot2    src (a, b, c): a and b are uint32 that hold two bfloat16, the low half first;
            c + a.low * b.low + a.high * b.high in float32 (VDPBF16PS: denormals are zero)
    swap    arg: a power of two below the wave's width; the value of lane `lane ^ arg`. Only
            where all lanes of the wave are
    ballot  src (bool,): bit i is what lane i has; uint32 or uint64, as wide as the wave. Only where
            all lanes of the wave are
    below   src (ballot,): int32, the bits of the lanes before this one that are set
    among   src (ballot,): int32, the bits that are set
    """

    op: str
    dtype: DType
    src: tuple[Expr, ...] = ()
    arg: Any = None


WAVE_OPS = frozenset({"ballot", "below", "among"})
"""Ops on values of all lanes of a wave; see `Expr`."""


@dataclass(frozen=True, slots=True)
class Load:
    """ref[index] where `valid` holds, else 0; nothing is read where it does not hold."""

    ref: Ref
    index: Index
    valid: Valid = ()


@dataclass(frozen=True, slots=True)
class Store:
    """ref[index] = value where `valid` holds. `streaming`: past the caches, aligned as a
    vector, to 64 bytes at most."""

    ref: Ref
    index: Index
    value: Expr
    valid: Valid = ()
    streaming: bool = False


@dataclass(frozen=True, slots=True)
class Loop:
    """`body` for var = 0..extent-1. kind: grid | item | lane | serial | unroll | vector."""

    var: Var
    kind: str
    body: tuple[Stmt, ...]

    @property
    def extent(self) -> int:
        return self.var.extent


@dataclass(frozen=True, slots=True)
class If:
    """`body` where `valid` holds; uniform over the lanes of a vector."""

    valid: Valid
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Barrier:
    """Reached by all lanes of a workgroup; stores to shared memory before it are seen after it.

    Without `meet` lanes do not wait: it only orders a lane's accesses before it and after it. With
    `wave` it applies to the lanes of one wave, which costs no instruction.
    """

    meet: bool = True
    wave: bool = False


@dataclass(frozen=True, slots=True)
class Matrix:
    """acc[slot..] += A B, by all lanes of a wave together; `form` has the shape, and which
    elements of A, B and the sum each lane holds.

    A lane's elements of A are neighbours from a[a_index] on, in the order of the form, those of B
    from b[b_index] on: in shared memory where the form's fragments are whole, else in registers.
    """

    form: MatrixForm
    acc: Ref
    slot: int
    a: Ref
    a_index: Index
    b: Ref
    b_index: Index


@dataclass(frozen=True, slots=True)
class Gather:
    """Four matrices of 8 rows of 16 bytes, from shared memory to a wave of 32 lanes.

    Lane l names row l % 8 of matrix l / 8: `source` from `index` on. It gets four words of 4 bytes,
    to[slot..]: bytes 4 * (l % 4) of row l / 4 of each matrix. `turned`, for elements of 2 bytes:
    elements l / 4 of rows 2 * (l % 4) and the next.
    """

    to: Ref
    slot: int
    source: Ref
    index: Index
    turned: bool


@dataclass(frozen=True, slots=True)
class Copy:
    """16 bytes of memory, source[at..], to `to` in shared memory from `index` on; zeros where
    `valid` does not hold. A lane sees it after Pending("copies", "wait"), others after a barrier
    that follows."""

    to: Ref
    index: Index
    source: Ref
    at: Index
    valid: Valid = ()


@dataclass(frozen=True, slots=True)
class TileOperand:
    """A factor of TileMatrix in shared memory: columns of 16 bytes, `pitch` elements apart.

    ref[index + column * pitch + row * (16 bytes) ...]; a row is a line of the operand and k is
    contiguous, or, `across`, a row is k and 16 bytes are neighbouring lines.
    """

    ref: Ref
    index: Index
    pitch: int
    across: bool


@dataclass(frozen=True, slots=True)
class TileMatrix:
    """acc[slot..] += A B by the lanes of `form`, which go on: see Pending("products", ...)."""

    form: TileForm
    acc: Ref
    slot: int
    a: TileOperand
    b: TileOperand


@dataclass(frozen=True, slots=True)
class Pending:
    """A lane's copies, or its waves' products, under way.

    open    products: the sums in registers are left to those that follow
    close   those since the last "close" are a group
    wait    until all groups but the `newest` are done
    show    copies: what was stored to shared memory so far, products read
    """

    of: str
    """ "copies" or "products"."""
    step: str
    newest: int = 0


Together: TypeAlias = Barrier | Matrix | Gather | Copy | TileMatrix | Pending
"""What lanes do together, or leave to others: statements without a body and a value."""
Stmt: TypeAlias = Loop | Store | If | Together


def staged(body: tuple[Stmt, ...]) -> bool:
    """Whether statements copy ahead: loops around such are long, and best left as they are."""
    inner = (one.body for one in body if isinstance(one, Loop | If))
    return any(isinstance(one, Copy) for one in body) or any(map(staged, inner))


def shared_size(ref: Ref) -> int:
    """Bytes of an array in shared memory until the next one."""
    size = ref.size * ref.dtype.itemsize
    return size + -size % SHARED_ALIGN_BYTES


@dataclass(frozen=True, slots=True)
class Kernel:
    """A whole kernel. `body` is one grid loop, which a launch covers in ranges [begin, end).

    CPU entry: void name(const uint64_t *args, uint64_t begin, uint64_t end, void *scratch), where
    args[i] is the address of params[i].
    GPU entry (`block` > 0): a launch is `grid` workgroups of `block` lanes along x; the arguments
    are only the addresses of params, 16-byte aligned.
    """

    name: str
    params: tuple[Ref, ...]
    locals: tuple[Ref, ...]
    body: Loop
    block: int = 0
    waves: int = 0
    """Waves of a GPU's SIMD that are enough: no registers are reserved for more. 0: as many as
    there can be."""

    @property
    def grid(self) -> int:
        """What a launch covers: grid items on a CPU, workgroups on a GPU."""
        if self.body.kind == "item":
            return -(-self.body.extent // self.block)
        return self.body.extent

    @property
    def scratch_bytes(self) -> int:
        ends = [
            ref.slot + ref.size * ref.dtype.itemsize
            for ref in self.locals
            if ref.space == "scratch"
        ]
        return max(ends, default=0)

    @property
    def shared_bytes(self) -> int:
        """Of a GPU's workgroup, with each array from a multiple of SHARED_ALIGN_BYTES on."""
        return sum(shared_size(ref) for ref in self.locals if ref.space == "shared")

"""Algorithm -> Kernel for elementwise work and reductions.

The shape of the loop nest follows from the axis along which memory is contiguous:

    map      no reductions: blocks of the fastest axis
    rows     one outer point at a time, vectors along the reduced (or inner) axes: sum(axis=-1)
    columns  vectors along an outer axis, the reduction walks down them: sum(axis=0)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import prod

from compilers import dtype as dt
from compilers import expr as ex
from compilers import index as ix
from compilers.families import family_of
from compilers.gpu_target import GpuTarget
from compilers.index import Index, Var
from compilers.ir import Copy, Expr, If, Kernel, Loop, Matrix, Ref, Stmt, Store, Valid
from compilers.lower import gpu_matrix, gpu_pipeline, gpu_product
from compilers.lower.columns import column_axis, lower_columns
from compilers.lower.contraction import DEFAULT_BLOCKING, Blocking, contraction, lower_contraction
from compilers.lower.gpu import lower_map, lower_reduction
from compilers.lower.gpu_transpose import crossed, lower_transpose
from compilers.lower.gpu_vector import lower_vector
from compilers.lower.one_lane import blocking_within, on_one_lane
from compilers.lower.sweep import accumulate, fill, serial, store, sweep, vector
from compilers.lower.vector_product import share, sizes, vector_product
from compilers.plan.algorithm import Algorithm, Reduction
from compilers.plan.coalesce import coalesce, rank_by_stride
from drivers.base.contracts import Limits
from drivers.base.errors import Unsupported
from drivers.base.limits import VECTORS

BLOCK_BYTES = 32 << 10
"""Bytes that one grid item of an elementwise kernel writes: most of the first-level cache."""
MIN_TILED_BYTES = 256 << 10
TILE_BYTES, TILE_ROWS, LINE_BYTES = 256, 64, 64
"""A transposition's tile: rows of so many bytes of the result."""
GPU_VECTOR_BYTES = 16
"""Bytes that a lane of a GPU loads at once."""
MAX_CHAINS = 8
"""Independent accumulators that hide the latency of the combining instruction."""


@dataclass(frozen=True, slots=True)
class Target:
    """A device's parameters for lowering. Widths in bytes."""

    vector_bytes: int
    threads: int = 1
    features: frozenset[str] = frozenset()
    blocking: Blocking = DEFAULT_BLOCKING
    gpu: GpuTarget | None = None
    """A GPU's parameters; None: a CPU."""
    max_params: int | None = None
    """Most buffers of a kernel, as `store_bytes` is of `Limits`."""
    store_bytes: int = 1
    dtypes: frozenset[str] = frozenset(dt.BY_NAME)
    """Names of the dtypes that kernels have."""
    device: str = ""
    """Its name, for errors."""

    @classmethod
    def of(cls, limits: Limits, arch: str, device: str = "") -> Target:
        """The parameters from a device's limits and its family's compiler."""
        family = family_of(arch)
        gpu = family.gpu(arch) if family.gpu else None
        if gpu is not None:
            gpu = replace(
                gpu,
                max_block=limits.max_block,
                shared_bytes=limits.shared_bytes,
                wave_lanes=limits.wave_lanes if limits.wave_lanes > 1 else None,
                max_groups=limits.max_grid[0],
                vectors=limits.schedule == VECTORS,
                wide_integers=dt.int64.name in limits.dtypes,
            )
            gpu = family.offered(gpu, limits)
        return cls(
            limits.vector_bytes,
            limits.threads,
            limits.features,
            gpu=gpu,
            max_params=limits.max_params,
            store_bytes=limits.store_bytes,
            dtypes=limits.dtypes,
            device=device,
        )

    @classmethod
    def gpu_of(cls, arch: str, units: int) -> Target:
        """A GPU with so many compute units, without a device: for estimates and tests.

        Raises: Unsupported for an unknown arch, or one that is no GPU's.
        """
        family = family_of(arch)
        if family.gpu is None:
            raise Unsupported(f"{arch} is no GPU", hint="Name a GPU's architecture")
        return cls(GPU_VECTOR_BYTES, units, gpu=family.gpu(arch))

    def width(self, itemsize: int) -> int:
        """Elements of a vector."""
        most = self.gpu.vector_lanes if self.gpu else None
        return max(min(self.vector_bytes // itemsize, most or self.vector_bytes), 1)

    @property
    def lanes(self) -> GpuTarget | None:
        """The GPU, where lanes of workgroups share work; None where vectors do it, as on a CPU."""
        return None if self.gpu is None or self.gpu.vectors else self.gpu

    @property
    def wave_lanes(self) -> int:
        """Lanes of a GPU that share work; 1 on a CPU."""
        return self.gpu.team_lanes if self.gpu else 1


def lower(name: str, algorithm: Algorithm, target: Target) -> Kernel:
    """The kernel of an algorithm, in the shape that suits its memory accesses."""
    algorithm = coalesce(algorithm)
    gpu = target.gpu
    if gpu is None:
        return next(_on_cpu(name, algorithm, target))
    for kernel in _by_vectors(name, algorithm, target) if gpu.vectors else _ways(algorithm, target):
        if gpu.fits(kernel):
            found = named(name, kernel.body, kernel.locals)
            return replace(found, block=kernel.block, waves=kernel.waves)
    raise Unsupported(
        f"no kernel {name} with at most {gpu.max_block} lanes and {gpu.shared_bytes} bytes of "
        "shared memory in a workgroup",
        hint="Call realize() on some of its operands before",
    )


def _on_cpu(name: str, algorithm: Algorithm, target: Target) -> Iterator[Kernel]:
    """A CPU's kernel, then those that need less scratch."""
    if contraction(algorithm) is not None:
        yield named(name, *lower_contraction(algorithm, target))
    lanes = _lanes(algorithm, target)
    if not algorithm.reductions:
        yield named(name, _map(algorithm, lanes), ())
        return
    column = column_axis(algorithm)
    if column is not None:
        yield named(name, *lower_columns(algorithm, column, lanes, target.threads))
    yield named(name, *_rows(algorithm, lanes))


def _by_vectors(name: str, algorithm: Algorithm, target: Target) -> Iterator[Kernel]:
    """A CPU's kernels for workgroups of one lane; a product that needs more than the shared memory
    for that is shared by lanes after all."""
    found, gpu = contraction(algorithm), target.gpu
    if found is not None and gpu is not None:
        blocking = blocking_within(gpu.shared_bytes, found.a.dtype.itemsize)
        if blocking is not None:
            packed = replace(target, blocking=blocking)
            yield on_one_lane(next(_on_cpu(name, algorithm, packed)))
        yield from _ways(algorithm, target)
    ways = _on_cpu(name, algorithm, target)
    yield from map(on_one_lane, islice(ways, int(found is not None), None))


def _ways(algorithm: Algorithm, target: Target) -> Iterator[Kernel]:
    """A GPU's kernels without a name and parameters, the best first."""
    gpu = target.gpu
    if gpu is None:
        return
    lanes = _lanes(algorithm, target)
    vector = vector_product(algorithm) if gpu.swap_lanes > 1 else None
    lanes_of = share(sizes(vector), target) if vector else None
    if vector is not None and lanes_of is not None:
        yield lower_vector(algorithm, vector, lanes_of, gpu.swap_lanes, gpu.vector_lanes)
    found = contraction(algorithm)
    if found is not None:
        halves = gpu_matrix.narrow(found, gpu)
        if halves is not None:
            for given in gpu_pipeline.factors(halves.a, halves.b, found, gpu, halves.form):
                for staged in gpu_pipeline.shapes(found, given, target):
                    yield gpu_pipeline.lower_pipeline(algorithm, found, given, staged)
            for tile in gpu_matrix.shapes(found, halves.form, target):
                yield gpu_matrix.lower_matrix(algorithm, found, halves, tile)
        for shape in gpu_product.shapes(found, target, deep=gpu.costly_loads):
            yield gpu_product.lower_product(algorithm, found, target, shape)
    if algorithm.reductions:
        for halvings in range(gpu.block.bit_length() if gpu.swap_lanes == 1 else 1):
            smaller = replace(gpu, max_block=gpu.max_block >> halvings)
            yield lower_reduction(algorithm, lanes, smaller)
        return
    turned = crossed(algorithm, target.threads)
    if turned:
        yield lower_transpose(algorithm, *turned)
    yield lower_map(algorithm, lanes, gpu)


def named(name: str, body: Loop, local: Sequence[Ref]) -> Kernel:
    """A kernel with the parameters that its statements name."""
    refs = sorted(_global_refs(body), key=lambda ref: ref.slot)
    return Kernel(name, tuple(refs), tuple(local), body)


def _global_refs(stmt: Stmt) -> set[Ref]:
    """The parameters a statement names."""
    if isinstance(stmt, Matrix):
        return {ref for ref in (stmt.a, stmt.b) if ref.space == "global"}
    if isinstance(stmt, Copy):
        return {stmt.source}
    if isinstance(stmt, Store):
        refs = {stmt.ref, *(read.ref for read in ex.loads(stmt.value))}
        return {ref for ref in refs if ref.space == "global"}
    body = stmt.body if isinstance(stmt, Loop | If) else ()
    return {ref for inner in body for ref in _global_refs(inner)}


def _lanes(algorithm: Algorithm, target: Target) -> int:
    """Lanes of one vector: as many as the widest value computed allows."""
    widest = max(
        (
            expr.dtype.itemsize
            for expr in ex.walk(algorithm.roots())
            if expr.op not in ("const", "valid")
        ),
        default=1,
    )
    return target.width(max(widest, algorithm.out.dtype.itemsize))


# --- map ---------------------------------------------------------------------------------------


def _map(algorithm: Algorithm, lanes: int) -> Loop:
    order = rank_by_stride(algorithm.inner, algorithm.value, [algorithm.index] * 2)
    *lead, last = order or [Var("point", 1)]
    crossed = _crossed(algorithm, lead, last)
    width = TILE_BYTES if crossed else BLOCK_BYTES
    block = max(width // algorithm.out.dtype.itemsize // lanes, 1) * lanes
    full, rest = divmod(last.extent, block) if last.extent > block else (0, last.extent)
    parts = full + (rest > 0)
    extents = [-(-axis.extent // TILE_ROWS) if axis is crossed else axis.extent for axis in lead]
    grid = Var("g", prod(extents) * parts)
    *outer, part = ix.unflatten(ix.var(grid), (*extents, parts))
    env = dict(zip(lead, outer, strict=True))
    row = Var("row", TILE_ROWS)
    if crossed:
        env[crossed] = env[crossed] * TILE_ROWS + ix.var(row)

    def cover(extent: int) -> tuple[Stmt, ...]:
        def emit(at: Index, guard: Valid, chain: int, lane: Var | None) -> Sequence[Stmt]:
            position = part * block + at
            inside = ex.bounded([(position, 0, last.extent)]) if guard else ()
            return [store(algorithm, {**env, last: position}, inside, lane, {})]

        body = tuple(sweep(Var(last.name, extent), lanes, 1, emit))
        if not crossed:
            return body
        exists = ex.bounded([(env[crossed], 0, crossed.extent)])
        return (Loop(row, "serial", (If(exists, body),) if exists else body),)

    if not full or not rest:
        return Loop(grid, "grid", cover(block if full else rest))
    return Loop(
        grid,
        "grid",
        (If(((part, 0, full),), cover(block)), If(((part, full, parts),), cover(rest))),
    )


def _crossed(algorithm: Algorithm, lead: Sequence[Var], last: Var) -> Var | None:
    """The axis along which a large operand is contiguous while the result is along `last`.

    Such a transposition goes tile by tile: a cache line is used completely before it is evicted.
    """
    if algorithm.out.size * algorithm.out.dtype.itemsize < MIN_TILED_BYTES:
        return None
    for read in ex.loads(algorithm.value):
        terms = read.index.terms
        for axis in lead:
            stride = abs(terms.get(last, 0)) * read.ref.dtype.itemsize
            if terms.get(axis) == 1 and axis.extent >= TILE_ROWS and stride >= LINE_BYTES:
                return axis
    return None


# --- rows --------------------------------------------------------------------------------------


def _rows(algorithm: Algorithm, lanes: int) -> tuple[Loop, list[Ref]]:
    grid = Var("g", prod(axis.extent for axis in algorithm.outer))
    point = ix.unflatten(ix.var(grid), tuple(axis.extent for axis in algorithm.outer))
    env = dict(zip(algorithm.outer, point, strict=True))
    body: list[Stmt] = []
    local: list[Ref] = []
    results: dict[Expr, Expr] = {}
    for number, reduction in enumerate(algorithm.reductions):
        acc = Ref(f"acc{number}", reduction.value.dtype, 0, "register")
        acc, stmts = _reduce_row(reduction, acc, env, lanes, results)
        body += stmts
        local.append(acc)
        results[reduction.result] = ex.load(acc, ix.const(0))
    body += _finish_row(algorithm, env, lanes, results)
    return Loop(grid, "grid", tuple(body)), local


def _reduce_row(
    reduction: Reduction, shape: Ref, env: dict[Var, Index], lanes: int, results: dict[Expr, Expr]
) -> tuple[Ref, list[Stmt]]:
    """One accumulator per chain and lane, joined at the end."""
    order = rank_by_stride(reduction.axes, reduction.value) or [Var("point", 1)]
    *lead, last = order
    lanes = min(lanes, 1 << max(last.extent.bit_length() - 1, 0))
    chains = _chains(last.extent // lanes)
    acc = replace(shape, size=lanes * chains)
    inner = dict(env)

    def emit(at: Index, guard: Valid, chain: int, lane: Var | None) -> Sequence[Stmt]:
        slot = ix.const(chain * lanes) + (ix.var(lane) if lane else 0)
        value = ex.Rewriter({**inner, last: at}, results, guard).expr(reduction.value)
        return [accumulate(reduction.kind, acc, slot, [value], guard)]

    loops = serial(lead, inner, lambda: sweep(last, lanes, chains, emit))
    return acc, [
        *fill(acc, reduction.kind, lanes),
        *loops,
        *_join(acc, reduction.kind, lanes, chains),
    ]


def _chains(vectors: int) -> int:
    """Accumulator vectors for a row of so many: at least two rounds for each."""
    return min(MAX_CHAINS, 1 << max(vectors.bit_length() - 2, 0))


def _join(acc: Ref, kind: str, lanes: int, chains: int) -> list[Stmt]:
    """Chains onto the first vector pairwise, then its halves onto each other."""
    result: list[Stmt] = []

    def fold(width: int, distance: int, base: int = 0) -> None:
        def emit(at: Index, *_: object) -> list[Stmt]:
            return [accumulate(kind, acc, at, [ex.load(acc, at + distance)], ())]

        result.extend(vector(width, ix.const(base), emit))

    for level in reversed(range(chains.bit_length() - 1)):
        for chain in range(1 << level):
            fold(lanes, lanes << level, chain * lanes)
    for level in reversed(range(lanes.bit_length() - 1)):
        fold(1 << level, 1 << level)
    return result


def _finish_row(
    algorithm: Algorithm, env: dict[Var, Index], lanes: int, results: dict[Expr, Expr]
) -> tuple[Stmt, ...]:
    order = rank_by_stride(algorithm.inner, algorithm.value, [algorithm.index] * 2)
    if not order:
        return (store(algorithm, env, (), None, results),)
    *lead, last = order
    inner = dict(env)

    def emit(at: Index, guard: Valid, chain: int, lane: Var | None) -> Sequence[Stmt]:
        return [store(algorithm, {**inner, last: at}, guard, lane, results)]

    return serial(lead, inner, lambda: sweep(last, lanes, 1, emit))

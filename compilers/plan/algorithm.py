"""What one kernel computes, before any decision about loops.

An `Algorithm` is: for every point of `outer`, run the reductions in order, then store `value` for
every point of `inner`. An elementwise kernel has no reductions and no outer axes; a plain
reduction has no inner axes; softmax has both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul
from typing import TypeAlias

from compilers import expr as ex
from compilers import index as ix
from compilers.graph import ELEMENTWISE, MOVEMENT, Node, postorder
from compilers.index import Dyn, Index, Var
from compilers.ir import Expr, Ref, Valid
from compilers.plan.recompute import recomputed

MAX_EXPRS = 3000
"""A kernel with more values than this is cut: compile time grows faster than what fusion saves."""

MAX_MOVEMENTS = 64


@dataclass(slots=True, eq=False)
class Reduction:
    """`result` = kind over `axes` of `value`, for one point of the algorithm's outer axes."""

    node: Node
    kind: str
    axes: tuple[Var, ...]
    value: Expr
    result: Expr


@dataclass(slots=True)
class Algorithm:
    """See the module. `index` is the position of a point's value in `out`."""

    out: Ref
    index: Index
    outer: tuple[Var, ...]
    inner: tuple[Var, ...]
    value: Expr
    reductions: list[Reduction] = field(default_factory=list)

    def roots(self) -> list[Expr]:
        return [self.value, *(reduction.value for reduction in self.reductions)]


class Cut(Exception):
    """`node` does not fit into the kernel being built and has to be realised before it."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.node = node


class Expander:
    """Turns one node into expressions over index variables, pushing indices through movement."""

    def __init__(self, root: Node, ref_of: Callable[[Node], Ref | None]) -> None:
        self._root, self._ref_of = root, ref_of
        self._memo: dict[tuple[Node, tuple[Index, ...], Valid], Expr] = {}
        self.outer: frozenset[Var] | None = None
        self._claimant: Node | None = None
        self._reduced_vars: set[Var] = set()
        self._stored: set[Node] = set()
        self.reductions: list[Reduction] = []
        self._reduced: dict[Node, tuple[tuple[Index, ...], Reduction]] = {}

    def value(self, node: Node, idx: tuple[Index, ...], valid: Valid = ()) -> Expr:
        """The element of `node` at `idx`; loads happen only where `valid` holds."""
        found = self._memo.get((node, idx, valid))
        if found is not None:
            return found
        region: Iterable[Node] = [node]
        if node.op in ELEMENTWISE:  # a loop: chains of them are longer than Python's stack
            region = postorder([node], lambda below: self._is_edge(below, idx, valid))
        for below in region:
            key = below, idx, valid
            if key not in self._memo:
                self._memo[key] = self._expand(*key)
                if len(self._memo) > MAX_EXPRS:
                    self._cut_widest()
        return self._memo[node, idx, valid]

    def _is_edge(self, node: Node, idx: tuple[Index, ...], valid: Valid) -> bool:
        """Where a region of elementwise nodes, which all have one index, ends."""
        known = (node, idx, valid) in self._memo
        return known or node.op not in ELEMENTWISE or self._ref_of(node) is not None

    def check_recomputation(self) -> None:
        """Raises: Cut, at a node that is computed at too many places."""
        uses = ((node, idx) for node, idx, _ in self._memo)
        again = recomputed(self._root, uses, self._stored)
        if again is not None:
            raise Cut(again)

    def _cut_widest(self) -> None:
        """Realising the node that was expanded at most indices removes most values; where each is
        expanded at one, that with most below it, up to a share of the kernel."""
        self.check_recomputation()
        seen = Counter(node for node, _, _ in self._memo if node.op in ELEMENTWISE)
        below: dict[Node, int] = {}
        for node in dict.fromkeys(node for node, _, _ in self._memo):  # sources come first
            below[node] = 1 + sum(below.get(source, 0) for source in node.src)
        fit = [node for node in seen if node is not self._root and self._ref_of(node) is None]
        share = MAX_EXPRS // 4
        best = max(fit, default=None, key=lambda n: (seen[n], below[n] * (below[n] <= share)))
        if best is not None:
            raise Cut(best)

    def _expand(self, node: Node, idx: tuple[Index, ...], valid: Valid) -> Expr:
        ref = self._ref_of(node)
        if ref is not None:
            self._stored.add(node)
            return ex.load(ref, ix.flatten(idx, node.shape), valid)
        if node.op in ELEMENTWISE:
            values = tuple(self.value(source, idx, valid) for source in node.src)
            return Expr(node.op, node.dtype, values)
        return _RULES[node.op](self, node, idx, valid)

    def _const(self, node: Node, idx: tuple[Index, ...], valid: Valid) -> Expr:
        return ex.const(node.arg, node.dtype)

    def _through(self, node: Node, idx: tuple[Index, ...], valid: Valid) -> Expr:
        return self.value(node.src[0], idx, valid)

    def _iota(self, node: Node, idx: tuple[Index, ...], valid: Valid) -> Expr:
        return Expr("index", node.dtype, (), idx[0])

    def _reshape(self, node: Node, idx: tuple[Index, ...], valid: Valid) -> Expr:
        source = node.src[0]
        return self.value(source, reindex(idx, node.shape, source.shape), valid)

    def _permute(self, node: Node, idx: tuple[Index, ...], valid: Valid) -> Expr:
        back = [ix.const(0)] * len(idx)
        for position, axis in enumerate(node.arg):
            back[axis] = idx[position]
        return self.value(node.src[0], tuple(back), valid)

    def _expand_axes(self, node: Node, idx: tuple[Index, ...], valid: Valid) -> Expr:
        shape = node.src[0].shape
        return self.value(
            node.src[0],
            tuple(ix.const(0) if n == 1 else i for n, i in zip(shape, idx, strict=True)),
            valid,
        )

    def _slice(self, node: Node, idx: tuple[Index, ...], valid: Valid) -> Expr:
        return self.value(
            node.src[0],
            tuple(i * step + start for i, (start, step) in zip(idx, node.arg, strict=True)),
            valid,
        )

    def _pad(self, node: Node, idx: tuple[Index, ...], valid: Valid) -> Expr:
        source = node.src[0]
        inside = tuple(i - before for i, (before, _) in zip(idx, node.arg, strict=True))
        guard = ex.bounded((i, 0, n) for i, n in zip(inside, source.shape, strict=True))
        if any(i.high < 0 or i.low >= n for i, n in zip(inside, source.shape, strict=True)):
            return ex.const(0, node.dtype)
        value = self.value(source, inside, ex.bounded((*valid, *guard)))
        return ex.guarded(value, guard, ex.const(0, node.dtype))

    def _gather(self, node: Node, idx: tuple[Index, ...], valid: Valid) -> Expr:
        source, *positions = node.src
        where = tuple(
            self._position(self.value(position, idx, valid), extent)
            for position, extent in zip(positions, source.shape, strict=True)
        )
        return self.value(source, where, valid)

    def _position(self, value: Expr, extent: int) -> Index:
        """A computed index as an Index, kept inside its axis."""
        if value.op == "index" and value.arg.low >= 0 and value.arg.high < extent:
            position: Index = value.arg
            return position
        dtype = value.dtype
        zero, last = ex.const(0, dtype), ex.const(extent - 1, dtype)
        inside = Expr("min", dtype, (Expr("max", dtype, (value, zero)), last))
        return Index({Dyn(inside, 0, extent - 1): 1}, 0)

    def _reduce(self, node: Node, idx: tuple[Index, ...], valid: Valid) -> Expr:
        kind, axes = node.arg
        source = node.src[0]
        if any(source.shape[axis] == 0 for axis in axes):
            return ex.const(_empty(kind, node), node.dtype)
        if valid:  # some of its rows do not exist
            raise Cut(node)
        self._claim_outer(node, idx)
        known = self._reduced.get(node)
        if known is not None:
            if known[0] != idx:  # a transposed use of the same rows
                raise Cut(node)
            return known[1].result
        rest = iter(idx)
        names = {axis: Var(f"r{len(self.reductions)}_{axis}", source.shape[axis]) for axis in axes}
        self._reduced_vars.update(names.values())
        full = tuple(
            ix.var(names[axis]) if axis in names else next(rest)
            for axis in range(len(source.shape))
        )
        value = self.value(source, full)
        kept = tuple(v for v in names.values() if v.extent > 1)
        reduction = Reduction(node, kind, kept, value, Expr("acc", node.dtype))
        self._reduced[node] = idx, reduction
        self.reductions.append(reduction)
        return reduction.result

    def _claim_outer(self, node: Node, idx: tuple[Index, ...]) -> None:
        """All reductions of a kernel must run over the same outer axes; else one is cut."""
        found = [i.as_var() for i in idx if i.terms or i.const]
        outer = frozenset(v for v in found if v is not None)
        if len(outer) != len(found) or outer & self._reduced_vars:
            raise Cut(node)
        if self.outer is None or self._claimant is None:
            self.outer, self._claimant = outer, node
        elif outer < self.outer and self._claimant is not self._root:
            raise Cut(self._claimant)
        elif outer != self.outer:
            raise Cut(self._factor(node))

    def _is_stored(self, node: Node) -> bool:
        return node is not self._root and self._ref_of(node) is not None

    def _factor(self, inside: Node) -> Node:
        """Where to cut a product whose factor contains the reduction `inside`: the whole factor,
        so that normalised rows are one kernel, not one for each of their reductions."""
        root = self._root
        product = root.src[0] if root.op == "reduce" else root
        for factor in product.src if product.op == "mul" else ():
            for _ in range(MAX_MOVEMENTS):
                if factor.op not in MOVEMENT:
                    break
                factor = factor.src[0]
            if factor.op in ELEMENTWISE and inside in postorder([factor], self._is_stored):
                return factor
        return inside


_Rule: TypeAlias = Callable[[Expander, Node, tuple[Index, ...], Valid], Expr]
_RULES: dict[str, _Rule] = {
    "const": Expander._const, "iota": Expander._iota, "reshape": Expander._reshape,
    "permute": Expander._permute, "expand": Expander._expand_axes, "slice": Expander._slice,
    "pad": Expander._pad, "gather": Expander._gather, "reduce": Expander._reduce,
    "contiguous": Expander._through,
}  # fmt: skip


def _empty(kind: str, node: Node) -> float:
    value = ex.identity(kind, node.dtype)
    return 0 if kind == "add" else value


def reindex(
    idx: tuple[Index, ...], shape: Sequence[int], target: Sequence[int]
) -> tuple[Index, ...]:
    """The index into `target` of the element that a reshape to `shape` shows at `idx`.

    Axes that match on both sides pass unchanged, so that no division is introduced for them.
    """
    source = [(i, n) for i, n in zip(idx, shape, strict=True) if n != 1]
    wanted = [n for n in target if n != 1]
    ends_a = list(accumulate((n for _, n in source), mul))
    ends_b = list(accumulate(wanted, mul))
    found: list[Index] = []
    a = b = 0
    for end in sorted(set(ends_a) & set(ends_b)):
        next_a, next_b = ends_a.index(end) + 1, ends_b.index(end) + 1
        group = source[a:next_a]
        position = ix.flatten((i for i, _ in group), (n for _, n in group))
        found.extend(ix.unflatten(position, tuple(wanted[b:next_b])))
        a, b = next_a, next_b
    rest = iter(found)
    return tuple(ix.const(0) if n == 1 else next(rest) for n in target)


def algorithm(node: Node, out: Ref, ref_of: Callable[[Node], Ref | None]) -> Algorithm:
    """The algorithm that computes `node` into `out`. Raises: Cut."""
    axes = tuple(Var(f"i{axis}", n) for axis, n in enumerate(node.shape))
    idx = tuple(ix.var(v) for v in axes)
    expander = Expander(node, ref_of)
    value = expander.value(node, idx)
    expander.check_recomputation()
    outer = expander.outer if expander.outer is not None else frozenset()
    split = [v for v in axes if v.extent > 1]
    return Algorithm(
        out,
        ix.flatten(idx, node.shape),
        tuple(v for v in split if v in outer),
        tuple(v for v in split if v not in outer),
        value,
        expander.reductions,
    )

"""Cutting a graph into kernels.

Elementwise and movement nodes are computed inside their consumers; a reduction joins the kernel
of its only consumer when both run over the same rows. What must exist in memory is "realised":

    * results, and scan, argsort, contiguous
    * a reduction, or a costly expression, that several kernels need (computed once)
    * chains and expressions too large for one kernel
    * whatever does not fit the kernel being built (`Cut`)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from compilers.algorithm import Algorithm, Cut, algorithm
from compilers.contraction import contraction
from compilers.graph import ELEMENTWISE, REALISED, Node, toposort
from compilers.ir import Kernel, Ref
from compilers.lower import Target, lower
from compilers.lower_gpu import BLOCK
from compilers.special import lower_argsort, lower_scan, rank_sort
from compilers.split import split_long_reductions

MAX_DEPTH = 48
"""Nodes between realised ones: bounds the recursion of the expander."""
MAX_SHARED_COST = 48
"""An expression of more operations than this is not computed again in a second kernel."""
REDUCTION_COST = 8
MAX_SINGLE_ROW = 1 << 15
"""A reduction to one point with more elements than this is not fused with what spreads it again; on
a GPU, to fewer points than it has compute units."""
MAX_WHOLE_DEPTH = 1 << 15
"""A product along more elements is summed in parts, which are kept in its own dtype: packing the
whole depth would need hundreds of megabytes."""


@dataclass(frozen=True, slots=True)
class Step:
    """One kernel of a plan; `values[i]` is the value that parameter i names."""

    kernel: Kernel
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Kernels in order. Values 0..leaves-1 are the given storages; the others are made here.

    `nbytes[i]` is the size of value leaves + i; `roots` are the values of the results.
    """

    leaves: int
    nbytes: tuple[int, ...]
    steps: tuple[Step, ...]
    roots: tuple[int, ...]

    def last_use(self) -> dict[int, int]:
        """Value -> the last step that names it; results are left out."""
        last = {value: number for number, step in enumerate(self.steps) for value in step.values}
        return {
            value: step
            for value, step in last.items()
            if value >= self.leaves and value not in self.roots
        }


def plan(roots: Sequence[Node], target: Target) -> Plan:
    """Schedule fresh nodes (from `signature.rebuild`), leaves numbered by their `arg`."""
    return _Scheduler(roots, target).plan()


def unshaped(node: Node) -> Node:
    """The node whose elements, in the same order, a chain of reshapes shows."""
    for _ in range(len(toposort([node]))):
        if node.op not in ("reshape", "contiguous"):
            break
        node = node.src[0]
    return node


class _Scheduler:
    def __init__(self, roots: Sequence[Node], target: Target) -> None:
        self.target = target
        self.roots = [unshaped(root) for root in roots]
        split_long_reductions(toposort(self.roots), target)
        self.order = toposort(self.roots)
        self.realised = {root for root in self.roots if root.op != "buffer"}
        self.realised.update(node for node in self.order if node.op in REALISED)
        self._cut_by_size()
        self._cut_by_sharing()

    def _cut_by_size(self) -> None:
        """Realise what would make a chain too deep."""
        depth: dict[Node, int] = {}
        for node in self.order:
            below = max((depth[source] for source in node.src), default=0)
            depth[node] = 0 if node in self.realised or node.op == "buffer" else below + 1
            if depth[node] > MAX_DEPTH:
                self.realised.add(node)
                depth[node] = 0

    def _cut_by_sharing(self) -> None:
        """Realise reductions and costly expressions that more than one kernel would compute."""
        cost: dict[Node, int] = {}
        for node in self.order:
            below = 0 if node in self.realised else sum(cost[source] for source in node.src)
            own = REDUCTION_COST if node.op == "reduce" else int(node.op in ELEMENTWISE)
            cost[node] = min(own + below, 1 << 20)
        users: dict[Node, set[Node]] = {node: set() for node in self.order}
        for node in reversed(self.order):
            heavy = node.op == "reduce" or cost[node] > MAX_SHARED_COST
            if len(users[node]) > 1 and heavy and node.op in ELEMENTWISE | {"reduce"}:
                self.realised.add(node)
            kernels = {node} if node in self.realised else users[node]
            for source in node.src:
                users[source] |= kernels

    def plan(self) -> Plan:
        needed = {root for root in self.roots if root.op != "buffer" and 0 not in root.shape}
        built: list[tuple[Node, Kernel, list[Node]]] = []
        for node in reversed(self.order):
            if node in needed:
                kernel, operands = self._build(node)
                built.append((node, kernel, operands))
                needed.update(operand for operand in operands if operand.op != "buffer")
        return self._number(built[::-1])

    def _number(self, built: Sequence[tuple[Node, Kernel, list[Node]]]) -> Plan:
        """Give every value its number and every kernel its operands."""
        leaf_count = 1 + max((node.arg for node in self.order if node.op == "buffer"), default=-1)
        number = {node: node.arg for node in self.order if node.op == "buffer"}
        sizes: list[int] = []
        for node in [*(node for node, _, _ in built), *self.roots]:
            if node not in number:
                number[node] = leaf_count + len(sizes)
                sizes.append(prod(node.shape) * node.dtype.itemsize)
        steps = tuple(
            Step(kernel, tuple(number[operand] for operand in operands))
            for _, kernel, operands in built
        )
        return Plan(leaf_count, tuple(sizes), steps, tuple(number[root] for root in self.roots))

    def _build(self, node: Node) -> tuple[Kernel, list[Node]]:
        """The kernel of one realised node and the nodes of its parameters, result first."""
        for _ in range(len(self.order) + 1):
            refs: dict[Node, Ref] = {node: _ref("out", node, 0)}
            try:
                kernel = self._lower(node, refs)
            except Cut as cut:
                self.realised.add(cut.node)
                continue
            by_ref = {ref: operand for operand, ref in refs.items()}
            return kernel, [by_ref[ref] for ref in kernel.params]
        raise ValueError(f"{node} does not fit a kernel, whatever is cut off it")

    def _lower(self, node: Node, refs: dict[Node, Ref]) -> Kernel:
        def ref_of(source: Node) -> Ref | None:
            if source is node or (source.op != "buffer" and source not in self.realised):
                return None
            if source not in refs:
                refs[source] = _ref(f"in{len(refs) - 1}", source, len(refs))
            return refs[source]

        name = "_".join([node.op, *map(str, node.shape or ("scalar",))])
        gpu = self.target.wave_lanes > 1
        if node.op == "scan":
            return lower_scan(node, name, refs[node], ref_of, BLOCK if gpu else 0)
        if node.op == "argsort" and gpu:
            return rank_sort(node, name, refs[node], ref_of, BLOCK)
        if node.op == "argsort":
            return lower_argsort(node, name, refs[node], ref_of)
        found = algorithm(node, refs[node], ref_of)
        _check_fusion(node, found, self.target)
        return lower(name, found, self.target)


def _ref(name: str, node: Node, slot: int) -> Ref:
    return Ref(name, node.dtype, prod(node.shape), "global", slot)


def _check_fusion(node: Node, found: Algorithm, target: Target) -> None:
    """Cut reductions that are worth a kernel of their own. Raises: Cut."""
    points = prod(axis.extent for axis in found.outer)
    few = points < (target.threads if target.wave_lanes > 1 else 2)
    for reduction in found.reductions:
        if reduction.node is node:
            continue
        inner = prod(axis.extent for axis in found.inner)
        if few and inner > MAX_SINGLE_ROW:
            raise Cut(reduction.node)
        deep = prod(axis.extent for axis in reduction.axes) > MAX_WHOLE_DEPTH
        deep = deep and reduction.result.dtype is not found.out.dtype
        if len(found.reductions) > 1 or found.inner or deep:
            alone = Algorithm(
                found.out, found.index, found.outer, (), reduction.result, [reduction]
            )
            if contraction(alone) is not None:
                raise Cut(reduction.node)

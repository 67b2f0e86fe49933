"""Cutting a graph into kernels.

Elementwise and movement nodes are computed inside their consumers; a reduction joins the kernel
of its only consumer when both run over the same rows. What must exist in memory is "realised":

    * results, and scan, argsort, contiguous
    * a reduction, or a costly expression, that several kernels need (computed once)
    * the narrow places of what is too large for one kernel (`partition.py`)
    * every node that does not fit the kernel being built (`Cut`)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from compilers import dtype as dt
from compilers.graph import ELEMENTWISE, REALISED, Node, postorder, shown, toposort
from compilers.ir import Kernel, Ref
from compilers.lower.choose import Target, lower, named
from compilers.lower.contraction import contraction
from compilers.lower.gpu_lane_scan import check_rank_sort, lower_lane_scan, split_lane_scans
from compilers.lower.gpu_scan import lower_gpu_scan, split_scans
from compilers.lower.gpu_sort import SORTS, lower_sort, split_sorts
from compilers.lower.one_lane import on_one_lane
from compilers.lower.packed import WORD, pack, packed_map, unpacked
from compilers.lower.special import RefOf, lower_argsort, lower_scan, rank_sort
from compilers.lower.turns import in_turns
from compilers.lower.vector_product import vector_product
from compilers.lower.words import without_int64
from compilers.plan.algorithm import Algorithm, Cut, algorithm
from compilers.plan.dtypes import check_graph
from compilers.plan.gathers import flatten_gathers
from compilers.plan.liveness import last_uses, peak_bytes
from compilers.plan.partition import cut_by_sharing, cut_by_size, most_inputs, nbytes
from compilers.plan.split import split_long_reductions
from drivers.base.errors import Unsupported

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

    def dead(self) -> list[tuple[int, ...]]:
        """For each step, the values made here that are not needed after it."""
        keep = {*range(self.leaves), *self.roots}
        return last_uses([step.values for step in self.steps], keep)

    @property
    def peak_bytes(self) -> int:
        """The most bytes of intermediates and results that are alive at once."""
        sizes = dict(enumerate(self.nbytes, self.leaves))
        return peak_bytes([step.values for step in self.steps], sizes, self.roots)


def plan(roots: Sequence[Node], target: Target) -> Plan:
    """Schedule fresh nodes (from `signature.rebuild`), leaves numbered by their `arg`.

    Raises: Unsupported for a dtype that the device lacks, and for what fits no workgroup.
    """
    return _Scheduler(roots, target).plan()


class _Scheduler:
    def __init__(self, roots: Sequence[Node], target: Target) -> None:
        self.target = target
        self.most = most_inputs(target.max_params)
        """Inputs of a kernel."""
        check_graph(roots, target.dtypes, target.device)
        gpu = target.lanes
        if gpu is not None and gpu.teams:
            split_sorts(toposort(roots))
        self.roots = [shown(root, ("reshape", "contiguous")) for root in roots]
        if gpu is not None and gpu.teams:
            split_scans(toposort(self.roots), target)
        elif gpu is not None:
            split_lane_scans(toposort(self.roots))
        split_long_reductions(toposort(self.roots), target)
        flatten_gathers(toposort(self.roots), self.most)
        self.order = toposort(self.roots)
        self.packed = set[Node]()
        """What is stored in whole words by the kernel that computes it."""
        self.realised = {root for root in self.roots if root.op != "buffer"}
        self.realised.update(node for node in self.order if node.op in REALISED)
        self.users: dict[Node, list[Node]] = {node: [] for node in self.order}
        for node in self.order:
            for source in dict.fromkeys(node.src):
                self.users[source].append(node)
        cut_by_size(self.order, self.realised, self.most)
        cut_by_sharing(self.order, self.realised)

    def plan(self) -> Plan:
        needed = {root for root in self.roots if root.op != "buffer" and 0 not in root.shape}
        built: list[tuple[Node, Kernel, list[Node]]] = []
        for node in reversed(self.order):
            if node in needed:
                kernel, operands = self._build(node)
                built += self._stored(node, kernel, operands)
                needed.update(operand for operand in operands if operand.op != "buffer")
        return self._number(built[::-1])

    def _stored(
        self, node: Node, kernel: Kernel, operands: list[Node]
    ) -> list[tuple[Node, Kernel, list[Node]]]:
        """The kernel; where it stores single elements that a device cannot store, one that stores
        words, after the one that packs them."""
        out, gpu = kernel.params[0], self.target.gpu
        per_word = self._per_word(node)
        if per_word == 1 or gpu is None or node in self.packed:
            return [(node, kernel, operands)]
        wide, ref = unpacked(kernel, out)
        words = Node("words", (), None, WORD, node.shape)
        last = self._fitted(pack(f"pack_{kernel.name}", out, replace(ref, slot=1), gpu, per_word))
        inputs = [words if operand is node else operand for operand in operands]
        return [(node, last, [node, words]), (words, wide, inputs)]

    def _per_word(self, node: Node) -> int:
        """Elements of the smallest store."""
        return max(self.target.store_bytes // node.dtype.itemsize, 1)

    def _number(self, built: Sequence[tuple[Node, Kernel, list[Node]]]) -> Plan:
        """Give every value its number and every kernel its operands."""
        leaf_count = 1 + max((node.arg for node in self.order if node.op == "buffer"), default=-1)
        number = {node: node.arg for node in self.order if node.op == "buffer"}
        sizes: list[int] = []
        for node in [*(node for node, _, _ in built), *self.roots]:
            if node not in number:
                number[node] = leaf_count + len(sizes)
                sizes.append(nbytes(node))
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
                kernel = self._fitted(self._lower(node, refs))
            except Cut as cut:
                self.realised.add(self._with_epilogue(cut.node, node))
                if len(refs) > self.most:
                    self._narrowed(node)
                continue
            if len(kernel.params) > 1 + self.most and self._narrowed(node):
                continue
            limit = self.target.max_params
            if limit is not None and len(kernel.params) > limit:
                raise Unsupported(
                    f"{kernel.name} needs {len(kernel.params)} buffers, and the device takes "
                    f"{limit} in a kernel",
                    hint="compute the operands one after another, each with realize()",
                )
            by_ref = {ref: operand for operand, ref in refs.items()}
            return kernel, [by_ref[ref] for ref in kernel.params]
        raise ValueError(f"{node} does not fit a kernel, whatever is cut off it")

    def _fitted(self, kernel: Kernel) -> Kernel:
        """The kernel within the limits of a launch."""
        gpu = self.target.gpu
        if dt.int64.name not in self.target.dtypes:
            kernel = without_int64(kernel)
        return in_turns(kernel, gpu.max_groups) if gpu and gpu.max_groups else kernel

    def _narrowed(self, node: Node) -> bool:
        """Cut a kernel with too many inputs, some of which were realised after it was measured.
        Returns: whether there was a place."""

        def stored(below: Node) -> bool:
            return below is not node and (below.op == "buffer" or below in self.realised)

        known = len(self.realised)
        inside = [below for below in postorder([node], stored) if not stored(below)]
        cut_by_size(inside, self.realised, self.most)
        return len(self.realised) > known

    def _with_epilogue(self, node: Node, root: Node) -> Node:
        """What to realise instead of a reduction: the end of the elementwise operations after it,
        so that they are computed once, not at each place of a window. Not where they end in the
        `root` of the kernel that is cut."""
        chain = [node] if node.op == "reduce" else []
        for last in chain:
            user, *others = self.users[last]
            if user is root:
                return node
            if not others and (user.op in ELEMENTWISE or user.op == "reshape"):
                chain.append(user)
        fit = [end for end in chain if end.op in ELEMENTWISE]
        return min(reversed([node, *fit]), key=nbytes)

    def _lower(self, node: Node, refs: dict[Node, Ref]) -> Kernel:
        def ref_of(source: Node) -> Ref | None:
            if source is node or (source.op != "buffer" and source not in self.realised):
                return None
            if source not in refs:
                refs[source] = _ref(f"in{len(refs) - 1}", source, len(refs))
            return refs[source]

        name = "_".join([node.op, *map(str, node.shape or ("scalar",))])
        out = refs[node]
        if node.op in SORTS:
            return lower_sort(node, name, out, ref_of, self.target)
        if node.op == "scan":
            return self._scan(node, name, out, ref_of)
        if node.op == "argsort":
            return self._argsort(node, name, out, ref_of)
        found = algorithm(node, refs[node], ref_of)
        _check_fusion(node, found, self.target)
        per_word = self._per_word(node)
        if per_word > 1 and not found.reductions and self.target.gpu is not None:
            self.packed.add(node)
            made = packed_map(found, self.target.gpu, per_word)
            return replace(named(name, made.body, ()), block=made.block)
        return lower(name, found, self.target)

    def _scan(self, node: Node, name: str, out: Ref, ref_of: RefOf) -> Kernel:
        gpu = self.target.lanes
        if gpu is None:
            kernel = lower_scan(node, name, out, ref_of)
            return on_one_lane(kernel) if self.target.gpu is not None else kernel
        if gpu.teams:
            return lower_gpu_scan(node, name, out, ref_of, self.target)
        return lower_lane_scan(node, name, out, ref_of, gpu.block)

    def _argsort(self, node: Node, name: str, out: Ref, ref_of: RefOf) -> Kernel:
        gpu = self.target.gpu
        if self.target.lanes is None:
            kernel = lower_argsort(node, name, out, ref_of)
            if gpu is None:
                return kernel
            kernel = on_one_lane(kernel)
            if gpu.fits(kernel):
                return kernel
        check_rank_sort(node)
        return rank_sort(node, name, out, ref_of, gpu.block if gpu else 1)


def _ref(name: str, node: Node, slot: int) -> Ref:
    return Ref(name, node.dtype, prod(node.shape), "global", slot)


def _check_fusion(node: Node, found: Algorithm, target: Target) -> None:
    """Cut reductions that are worth a kernel of their own. Raises: Cut."""
    points = prod(axis.extent for axis in found.outer)
    gpu = target.lanes is not None
    few = points < (target.threads if gpu else 2)
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
            if contraction(alone) is not None or (gpu and vector_product(alone) is not None):
                raise Cut(reduction.node)

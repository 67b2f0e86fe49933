"""Nodes realised before any kernel is tried, so that no kernel grows without bound.

A kernel is cut where it is too deep (a chain of operations) or has too many inputs (a long concat).
A deep one is cut where the fewest bytes are alive, and these are realised: between two convolutions
the activation, and never an expanded operand, a window or the product inside a contraction.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate, islice
from math import prod

from compilers.graph import ELEMENTWISE, MOVEMENT, Node, postorder, shown

MAX_DEPTH, MAX_CHAIN = 48, 192
"""Nodes between realised ones, and those of a chain that is elementwise throughout: LLVM takes as
long for a kernel of 100 operations as for two of one.

# measured: Xeon, LLVM 22, 2026-11: 384 saves a tenth for sums and costs a fifth for tanh and erf.
"""
LEAST_DEPTH = 12
"""Nodes that a cut takes out of a kernel at least, where there is a choice."""
HUGE = 1 << 60
"""Bytes of a node that is not to be realised."""
MAX_INPUTS = 32
"""Values that a kernel reads, and slices of one: each needs its own select in a concat. A device
with `Limits.max_params` may have fewer."""
MAX_CONE = 4 * MAX_CHAIN
"""Nodes that are searched for one cut."""
MAX_SHARED_COST = 48
"""An expression of more operations than this is not computed again in a second kernel."""
REDUCTION_COST = 8
_OPS = ELEMENTWISE | {"reduce", "gather"}


def most_inputs(max_params: int | None) -> int:
    """Inputs of a kernel on a device with that limit."""
    return MAX_INPUTS if max_params is None else min(MAX_INPUTS, max_params - 1)


def cut_by_size(order: Sequence[Node], realised: set[Node], most: int = MAX_INPUTS) -> None:
    """Realise what would make a kernel too deep or give it more than `most` inputs."""
    sizes = _Sizes(order, realised, most)
    for node in order:
        sizes.add(node)


def cut_by_sharing(order: Sequence[Node], realised: set[Node]) -> None:
    """Realise reductions and costly expressions that more than one kernel would compute."""
    cost: dict[Node, int] = {}
    for node in order:
        below = 0 if node in realised else sum(cost[source] for source in node.src)
        own = REDUCTION_COST if node.op == "reduce" else int(node.op in ELEMENTWISE)
        cost[node] = min(own + below, 1 << 20)
    users: dict[Node, set[Node]] = {node: set() for node in order}
    for node in reversed(order):
        heavy = node.op == "reduce" or cost[node] > MAX_SHARED_COST
        if len(users[node]) > 1 and heavy and node.op in ELEMENTWISE | {"reduce"}:
            realised.add(node)
        kernels = {node} if node in realised else users[node]
        for source in node.src:
            if len(users[source]) < 2:  # whether there are more does not matter
                users[source] |= kernels


def nbytes(node: Node) -> int:
    """What a node takes in memory when it is realised."""
    return prod(node.shape) * node.dtype.itemsize


class _Sizes:
    """Depth and inputs of what a kernel ending at each node would compute."""

    def __init__(self, order: Sequence[Node], realised: set[Node], most: int) -> None:
        self._most = most
        self._number = {node: number for number, node in enumerate(order)}
        self._last_user = {source: n for n, node in enumerate(order) for source in node.src}
        self._realised = realised
        self._depth: dict[Node, int] = {}
        self._inputs: dict[Node, tuple[Node, ...]] = {}
        self._turned: set[Node] = set()
        """What is not elementwise throughout."""

    def add(self, node: Node) -> None:
        """Measure `node`, whose sources are measured, and cut below it as often as it takes."""
        self._measure(node)
        for _ in range(MAX_INPUTS):
            if self._depth[node] > (MAX_DEPTH if node in self._turned else MAX_CHAIN):
                cone = self._cone(node)
                places = self._narrowest(cone)
                self._cut(cone, places)
                if node in places:
                    return
            elif len(self._inputs[node]) > self._most:
                path = self._widest_path(node)
                self._cut([*path, node], [_smallest(path)])
            else:
                return

    def _stored(self, node: Node) -> bool:
        return node.op == "buffer" or node in self._realised

    def _measure(self, node: Node) -> None:
        below = [source for source in node.src if not self._stored(source)]
        parts = [(s,) if self._stored(s) else self._inputs[s] for s in node.src]
        parts = [part for part in parts if part] or [()]
        joined = (found for part in parts for found in part)
        self._inputs[node] = parts[0] if len(parts) == 1 else tuple(dict.fromkeys(joined))
        if node.op == "pad" and len(self._inputs[node]) == 1:
            self._inputs[node] = (node,)  # its own select, also among slices of one value
        depth = max((self._depth[source] for source in below), default=0)
        constant = node.op not in ELEMENTWISE and not depth and not self._inputs[node]
        self._depth[node] = 0 if constant else depth + 1
        turned = node.op not in ELEMENTWISE or any(source in self._turned for source in below)
        (self._turned.add if turned and not constant else self._turned.discard)(node)

    def _cut(self, cone: Sequence[Node], places: Sequence[Node]) -> None:
        """Realise `places`, and measure again what is above them in `cone`, its sources first."""
        self._realised.update(places)
        for node in cone:
            self._measure(node)

    def _narrowest(self, cone: Sequence[Node]) -> list[Node]:
        """What a cut of `cone` realises where that takes the fewest bytes, as late as possible."""
        place = {node: at for at, node in enumerate(cone)}
        end: dict[Node, int] = {}
        for node in cone:
            value = self._value(node)
            if value is not None:
                user = self._last_user.get(node, len(self._number))
                last = bisect_left(cone, user, key=self._number.__getitem__)
                end[value] = max(end.get(value, 0), last)
        products = _products(cone)
        change = [0] * (len(cone) + 1)
        for value, last in end.items():
            size = HUGE if value in products else nbytes(value)
            change[place[value]] += size
            change[last] -= size
        alive = list(accumulate(change))
        deep = [at for node, at in place.items() if alive[at] and self._depth[node] >= LEAST_DEPTH]
        if not deep:
            return [_smallest(cone)]
        best = min(reversed(deep), key=alive.__getitem__)
        return [value for value, last in end.items() if place[value] <= best < last]

    def _value(self, node: Node) -> Node | None:
        """The node to realise for a later use of `node`: not a view of it, and none for a view of
        memory."""
        value = shown(node, MOVEMENT, self._stored)
        return value if value.op in _OPS and not self._stored(value) else None

    def _cone(self, node: Node) -> list[Node]:
        """What a kernel that ends at `node` computes, sources first; only the deepest path when
        it is much."""
        near = islice(postorder([node], self._stored), MAX_CONE)
        found = [other for other in near if not self._stored(other)]
        found = found if found[-1:] == [node] else self._deepest_path(node)
        return sorted(found, key=self._number.__getitem__)

    def _deepest_path(self, node: Node) -> list[Node]:
        path = [node]
        for other in path:
            below = [source for source in other.src if not self._stored(source)]
            path += sorted(below, key=self._depth.__getitem__)[-1:]
        return path[::-1]

    def _widest_path(self, node: Node) -> list[Node]:
        """Down from the source with most inputs, as long as it keeps more than half of them; from
        an operand where that is the product inside a contraction."""
        open_ = [source for source in node.src if not self._stored(source)]
        if open_ and open_[0] in _products([node]):
            open_ = [s for s in open_[0].src if not self._stored(s)] or open_
        if not open_:
            return [node]
        path = [max(open_, key=lambda source: len(self._inputs[source]))]
        least = len(self._inputs[path[0]]) // 2
        for other in path:
            for source in other.src:
                if not self._stored(source) and len(self._inputs[source]) > least:
                    path.append(source)
                    break
        return path[::-1]


def _smallest(path: Sequence[Node]) -> Node:
    """The smallest value of a path (sources first), and of equal ones the last."""
    fit = _places(path) or [node for node in path if node.op != "expand"] or path
    return min(reversed(fit), key=nbytes)


def _places(nodes: Sequence[Node]) -> list[Node]:
    """Those of `nodes` that may be realised: no movement, and none inside a contraction."""
    products = _products(nodes)
    return [node for node in nodes if node.op in _OPS and node not in products]


def _products(nodes: Iterable[Node]) -> set[Node]:
    """What the sums among `nodes` add up, where that is a product: the inside of contractions."""
    return {
        node.src[0]
        for node in nodes
        if node.op == "reduce" and node.arg[0] == "add" and node.src[0].op == "mul"
    }

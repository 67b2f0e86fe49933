"""CUDA graphs of kernels: nodes with their parameters copied, run in any order that edges allow."""

from __future__ import annotations

from dataclasses import dataclass, field

from boards.cuda import header
from boards.cuda.kernels import Kernels, Prepared
from boards.cuda.state import Choices, State, out, word
from boards.cuda.streams import Streams, Work
from boards.machine import host

_SEED = 15
_NODE_BYTES = 72
"""CUDA_KERNEL_NODE_PARAMS_v2: func, grid, block, shared bytes, kernelParams, extra, kern, ctx."""


@dataclass(eq=False)
class Node:
    """A launch, and the nodes before it."""

    graph: Graph
    prepared: Prepared
    before: list[Node]


@dataclass(eq=False)
class Graph:
    """What is instantiated."""

    nodes: list[Node] = field(default_factory=list)
    handles: list[int] = field(default_factory=list)


@dataclass(eq=False)
class Exec:
    """An instantiated graph: launches of its own."""

    graph: Graph
    launches: dict[Node, Prepared]


class Graphs:
    """The functions of graphs."""

    def __init__(self, state: State, streams: Streams, kernels: Kernels) -> None:
        self._state, self._streams, self._kernels = state, streams, kernels
        self._choices = Choices(_SEED)
        self.launched = 0

    def create(self, at: int, flags: int) -> None:
        """cuGraphCreate."""
        context = self._state.current()
        if flags:
            raise self._state.refuse(header.INVALID_VALUE, "flags", f"of a graph: {flags:#x}")
        out(at, self._state.new(Graph(), context), 8)

    def destroy(self, handle: int) -> None:
        """cuGraphDestroy: its nodes end with it."""
        for node in self._state.end(Graph, handle).handles:
            self._state.end(Node, node)
        self._state.current()

    def add(self, at: int, graph: int, before: int, count: int, params: int) -> None:
        """cuGraphAddKernelNode."""
        context, found = self._state.current(), self._state.get(Graph, graph)
        nodes = [self._state.get(Node, word(before + 8 * n)) for n in range(count)]
        if any(node.graph is not found for node in nodes):
            raise self._state.refuse(header.INVALID_VALUE, "node of another graph", f"{graph:#x}")
        node = Node(found, self._prepared(params), nodes)
        found.nodes.append(node)
        found.handles.append(self._state.new(node, context))
        out(at, found.handles[-1], 8)

    def _prepared(self, params: int) -> Prepared:
        raw = bytes(host.view(params, _NODE_BYTES))
        words = memoryview(raw[8:36]).cast("I")
        sizes, shared = list(words[:6]), words[6]
        function, *_ = memoryview(raw[:8]).cast("Q")
        given, extra, kern, context = memoryview(raw[40:]).cast("Q")
        if kern or (context and not function):
            raise self._state.refuse(header.INVALID_VALUE, "CUkernel beside a CUfunction", "node")
        return self._kernels.prepared(function, sizes, shared, given, extra)

    def instantiate(self, at: int, graph: int, flags: int) -> None:
        """cuGraphInstantiateWithFlags."""
        context, found = self._state.current(), self._state.get(Graph, graph)
        if flags:
            raise self._state.refuse(header.INVALID_VALUE, "flags", f"of a graph: {flags:#x}")
        launches = {node: node.prepared for node in found.nodes}
        out(at, self._state.new(Exec(found, launches), context), 8)

    def set_params(self, handle: int, node: int, params: int) -> None:
        """cuGraphExecKernelNodeSetParams: what was launched before keeps what it had."""
        self._state.current()
        made, found = self._state.get(Exec, handle), self._state.get(Node, node)
        if found not in made.launches:
            raise self._state.refuse(header.INVALID_VALUE, "node of another graph", f"{node:#x}")
        made.launches[found] = self._prepared(params)

    def exec_destroy(self, handle: int) -> None:
        """cuGraphExecDestroy."""
        made = self._state.end(Exec, handle)
        if self._streams.holds(made):
            self._state.find("graph destroyed in use", f"{len(made.launches)} nodes")
        self._state.current()

    def launch(self, handle: int, stream: int) -> None:
        """cuGraphLaunch."""
        made = self._state.get(Exec, handle)
        launches = dict(made.launches)
        touches = [part for one in launches.values() for part in self._kernels.touches(one)]
        modules = (one.function.module for one in launches.values())
        self.launched += 1
        self._streams.add(stream, Work(lambda: self._run(launches), touches, (made, *modules)))

    def _run(self, launches: dict[Node, Prepared]) -> None:
        """Nodes in an order that edges allow. Raises: Fault."""
        left = list(launches)
        for _ in range(len(left)):
            ready = [node for node in left if not any(one in left for one in node.before)]
            node = ready[self._choices.below(len(ready))]
            left.remove(node)
            self._kernels.run(launches[node])

"""GPUs that store whole words alone: narrow results are packed, and no word has two writers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from compilers import dtype as dt
from compilers import graph
from compilers.dtype import DType
from compilers.gpu_target import GpuTarget
from compilers.graph import Node
from compilers.ir import Ref
from compilers.lower.choose import Target
from compilers.plan.schedule import plan
from compilers.plan.signature import rebuild, signature
from tests import oracle
from tests.compilers.lowering import leaf, matmul
from tests.compilers.made_up_gpus import GPUS, UNITS, StrictInterpreter
from tests.graph_maker import Maker
from tests.share import part
from tests.support import check

WORD_BYTES = 4
Array = np.ndarray[Any, Any]


class WordInterpreter(StrictInterpreter):
    """Refuses stores of narrow elements that are not a whole, aligned word by one lane, and a
    second store to a word. Elements after the last may be missing."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.written: set[tuple[Ref, int]] = set()

    def _put(self, stmts: list[Any], envs: list[Any]) -> None:
        ref = stmts[0].ref
        if ref.space == "global" and ref.dtype.itemsize < WORD_BYTES:
            self._word(stmts, envs)
        super()._put(stmts, envs)

    def _word(self, stmts: list[Any], envs: list[Any]) -> None:
        ref, per_word = stmts[0].ref, WORD_BYTES // stmts[0].ref.dtype.itemsize
        if len(stmts) != per_word:
            raise ValueError(f"{self.kernel.name}: a store of {len(stmts)} {ref.dtype.name}")
        holds = [self._holds(stmt.valid, env) for stmt, env in zip(stmts, envs, strict=True)]
        places = [
            self._of(stmt.index, env, on) for stmt, env, on in zip(stmts, envs, holds, strict=True)
        ]
        for lane in np.flatnonzero(holds[0]):
            word, rest = divmod(int(places[0][lane]), per_word)
            wanted = range(word * per_word, min((word + 1) * per_word, ref.size))
            found = [int(at[lane]) for at, on in zip(places, holds, strict=True) if on[lane]]
            if rest or found != list(wanted) or (ref, word) in self.written:
                raise ValueError(f"{self.kernel.name}: {found} of word {word}")
            self.written.add((ref, word))


def run(root: Node, gpu: GpuTarget) -> Array:
    key, leaves = signature([root])
    found = plan(rebuild(key).roots, Target(16, UNITS, gpu=gpu, store_bytes=WORD_BYTES))
    values = [array.reshape(-1) for array in leaves]
    values += [np.full(nbytes, 0xAB, np.uint8) for nbytes in found.nbytes]
    for step in found.steps:
        pairs = zip(step.kernel.params, step.values, strict=True)
        arrays = {ref: values[value].view(ref.dtype.storage) for ref, value in pairs}
        WordInterpreter(step.kernel, arrays, gpu).run()
    return values[found.roots[0]].view(root.dtype.storage).reshape(root.shape)


RANDOM = np.random.default_rng(12)


def whole(*shape: int) -> Node:
    return leaf(RANDOM.integers(-3, 4, shape).astype(np.int32))


KINDS: dict[str, Callable[[DType], Node]] = {
    "map": lambda dtype: graph.cast(whole(5, 7), dtype),
    "permuted map": lambda dtype: graph.cast(graph.permute(whole(5, 7), (1, 0)), dtype),
    "one element": lambda dtype: graph.cast(whole(1), dtype),
    "row sums": lambda dtype: graph.reduce("max", graph.cast(whole(9, 33), dtype), (1,)),
    "column sums": lambda dtype: graph.reduce("min", graph.cast(whole(33, 9), dtype), (0,)),
    "running": lambda dtype: graph.scan("max", graph.cast(whole(3, 40), dtype), 1),
    "turned": lambda dtype: graph.contiguous(
        graph.permute(graph.cast(whole(70, 66), dtype), (1, 0))
    ),
}


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "float16"])
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_kernel(name: str, dtype: str) -> None:
    root = KINDS[name](dt.BY_NAME[dtype])
    np.testing.assert_array_equal(run(root, GPUS["webgpu"]), oracle.evaluate(root))


def test_a_product_in_parts() -> None:
    """Its kernel adds to what it has stored."""
    a, b = (graph.cast(whole(*shape), dt.int8) for shape in ((20, 24), (24, 12)))
    root = matmul(a, b)
    np.testing.assert_array_equal(run(root, GPUS["webgpu"]), oracle.evaluate(root))


@pytest.mark.parametrize("seed", range(part(30, 10)))
def test_random_graphs(seed: int) -> None:
    for value in Maker(seed).roots(8):
        if value.exact and value.node.dtype is not dt.bfloat16:
            want = oracle.evaluate(value.node)
            np.testing.assert_array_equal(run(value.node, GPUS["webgpu"]), want)


def test_wide_elements_are_stored_as_before() -> None:
    root = graph.unary("neg", whole(5, 7))
    key, _ = signature([root])
    counts = [
        len(plan(rebuild(key).roots, Target(16, 4, gpu=GPUS["webgpu"], store_bytes=n)).steps)
        for n in (1, WORD_BYTES)
    ]
    check(counts == [1, 1], f"{counts}")

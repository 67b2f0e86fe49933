"""Einstein summation: subscripts to a chain of contractions of two operands."""

from __future__ import annotations

from collections import Counter

from compilers import graph
from compilers.graph import Node
from tensor import ops
from tensor.core import Tensor, common_device
from tensor.products import diagonal
from tensor.promotion import PROMOTE, accumulator

__all__ = ["einsum"]

_FREE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _parse(subscripts: str, ranks: list[int]) -> tuple[list[str], str]:
    """Labels of every operand and of the result, with `...` spelled out.

    Raises: ValueError for subscripts that do not fit the operands.
    """
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ValueError(f"{subscripts!r} names {len(terms)} operands, {len(ranks)} are given")
    unused = [letter for letter in _FREE if letter not in text]
    spans = [
        rank - len(term.replace("...", "")) if "..." in term else 0
        for term, rank in zip(terms, ranks, strict=True)
    ]
    dots = "".join(unused[: max(spans)])
    labels = [
        term.replace("...", dots[len(dots) - span :])
        for term, span in zip(terms, spans, strict=True)
    ]
    counts = Counter("".join(labels))
    if arrow:
        result = right.replace("...", dots)
    else:
        result = dots + "".join(sorted(c for c, n in counts.items() if n == 1 and c not in dots))
    _validate(subscripts, labels, result, ranks)
    return labels, result


def _validate(subscripts: str, labels: list[str], result: str, ranks: list[int]) -> None:
    for term, rank in zip(labels, ranks, strict=True):
        if len(term) != rank or not all(letter in _FREE for letter in term):
            raise ValueError(f"{subscripts!r}: {term!r} does not name the {rank} axes of an array")
    known = set("".join(labels))
    if len(set(result)) != len(result) or not set(result) <= known:
        raise ValueError(f"{subscripts!r}: result {result!r} repeats or invents a label")


def _distinct(x: Node, labels: str) -> tuple[Node, str]:
    """Repeated labels become the diagonal of their axes."""
    for letter in dict.fromkeys(labels):
        for _ in range(labels.count(letter) - 1):
            first = labels.index(letter)
            second = labels.index(letter, first + 1)
            if x.shape[first] != x.shape[second]:
                raise ValueError(f"axes labelled {letter!r} have sizes {x.shape}")
            rest = [a for a in range(len(labels)) if a not in (first, second)]
            x = diagonal(graph.permute(x, (*rest, first, second)))
            labels = "".join(labels[a] for a in rest) + letter
    return x, labels


def _sum_away(x: Node, labels: str, keep: set[str]) -> tuple[Node, str]:
    axes = [axis for axis, letter in enumerate(labels) if letter not in keep]
    return graph.reduce("add", x, axes), "".join(c for c in labels if c in keep)


def _align(x: Node, labels: str, order: str) -> Node:
    """Axes in `order`, with size 1 where x has none."""
    x = graph.permute(x, [labels.index(c) for c in order if c in labels])
    sizes = iter(x.shape)
    return graph.reshape(x, tuple(next(sizes) if c in labels else 1 for c in order))


def _pair(a: tuple[Node, str], b: tuple[Node, str], keep: set[str]) -> tuple[Node, str]:
    """The product of two operands, summed over the labels that no later operand needs."""
    labels = dict.fromkeys(a[1] + b[1])
    kept = "".join(c for c in labels if c in keep)
    order = kept + "".join(c for c in labels if c not in keep)
    x, y = _align(*a, order), _align(*b, order)
    shape = ops.broadcast_shape(x.shape, y.shape)
    product = graph.binary("mul", graph.broadcast(x, shape), graph.broadcast(y, shape))
    return graph.reduce("add", product, range(len(kept), len(order))), kept


def einsum(subscripts: str, /, *operands: Tensor) -> Tensor:
    """Sums of products by `subscripts`: einsum("ij,jk->ik", a, b) is a @ b."""
    if not operands:
        raise ValueError("einsum needs at least one operand")
    device = common_device(operands, "an operand of einsum")
    labels, result = _parse(subscripts, [x.ndim for x in operands])
    dtype = operands[0].dtype
    for x in operands:
        dtype = PROMOTE[dtype, x.dtype]
    if dtype.kind == "b":
        raise TypeError("einsum of bool is not defined; cast with astype first")
    wide = accumulator(dtype)
    terms = [
        _distinct(graph.cast(x._node, wide), names)
        for x, names in zip(operands, labels, strict=True)
    ]
    whole = terms[0]
    for number, term in enumerate(terms[1:], 1):
        later = set(result).union(*(names for _, names in terms[number + 1 :]))
        alone = set(term[1]) | later
        whole = _pair(_sum_away(*whole, alone), _sum_away(*term, set(whole[1]) | later), later)
    node, names = _sum_away(*whole, set(result))
    return Tensor(graph.cast(_align(node, names, result), dtype), device)

"""The expressions of `python -m compilers.report`: Python's syntax over made-up arrays.

    f16[1,4096] @ f16[4096,4096]            an array is a dtype and a shape
    f16[1,4096] @ f16[11008,4096].T         transposed
    f16[1,4096] @ (i8[4096,4096] * f16[4096])
    sum(f32[1024,1024])                     sum, max and min over the last axis; exp, tanh ...

Promotion is the array API's; an integer with a float gives the float's. The same letters in the
same shape are different arrays.
"""

from __future__ import annotations

import ast
from typing import Final

from compilers import dtype as dt
from compilers import graph
from compilers.dtype import DType
from compilers.graph import Node
from drivers.base.errors import MalformedInput

_SHORT: Final = {f"{d.kind}{d.bits}": d for d in dt.ALL if d is not dt.bfloat16 and d.kind != "b"}
DTYPES: Final = _SHORT | dt.BY_NAME | {"bf16": dt.bfloat16}
_BINARY: Final = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
_REDUCE: Final = {"sum": "add", "max": "max", "min": "min"}


def parse_expression(text: str) -> Node:
    """The graph of an expression. Raises: MalformedInput, naming the part in error."""
    try:
        return _node(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise MalformedInput(
            f"{text!r} is not an expression: {error}",
            hint="For example f16[1,4096] @ f16[4096,4096]",
        ) from error


def _node(tree: ast.expr) -> Node:
    if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Name):
        return _array(tree.value.id, ast.literal_eval(tree.slice))
    if isinstance(tree, ast.Attribute) and tree.attr == "T":
        below = _node(tree.value)
        return graph.permute(below, range(len(below.shape))[::-1])
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.MatMult):
        return matmul(_node(tree.left), _node(tree.right))
    if isinstance(tree, ast.BinOp) and type(tree.op) in _BINARY:
        return _pointwise(_BINARY[type(tree.op)], _node(tree.left), _node(tree.right))
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        arguments = [_node(argument) for argument in tree.args]
        return _call(tree.func.id, arguments)
    raise ValueError(f"{ast.unparse(tree)} is not understood")


def _array(name: str, shape: object) -> Node:
    sizes = shape if isinstance(shape, tuple) else (shape,)
    if name not in DTYPES:
        raise ValueError(f"no dtype {name}; there are {', '.join(DTYPES)}")
    whole = tuple(size for size in sizes if isinstance(size, int) and size > 0)
    if whole != sizes:
        raise ValueError(f"a shape is positive whole numbers, not {shape}")
    return graph.buffer(object(), DTYPES[name], whole)


def _promoted(a: DType, b: DType) -> DType:
    if a is b:
        return a
    if a.kind != b.kind and "f" in (a.kind, b.kind):
        return a if a.kind == "f" else b
    if {a, b} == {dt.float16, dt.bfloat16}:
        return dt.float32
    return max(a, b, key=lambda d: (d.itemsize, d.kind == "i"))


def _pointwise(op: str, a: Node, b: Node) -> Node:
    dtype, rank = _promoted(a.dtype, b.dtype), max(len(a.shape), len(b.shape))
    sizes = [(1,) * (rank - len(x.shape)) + x.shape for x in (a, b)]
    shape = tuple(max(pair) for pair in zip(*sizes, strict=True))
    if any(n not in (1, whole) for x in sizes for n, whole in zip(x, shape, strict=True)):
        raise ValueError(f"{a.shape} and {b.shape} do not broadcast")
    left, right = (graph.broadcast(graph.cast(x, dtype), shape) for x in (a, b))
    return graph.binary(op, left, right)


def _call(name: str, arguments: list[Node]) -> Node:
    if len(arguments) != 1:
        raise ValueError(f"{name} takes one argument")
    (x,) = arguments
    if name in _REDUCE and x.shape:
        return graph.reduce(_REDUCE[name], x, (len(x.shape) - 1,))
    if name not in graph.UNARY:
        raise ValueError(f"no function {name}")
    return graph.unary(name, x)


def matmul(a: Node, b: Node) -> Node:
    """The product of two matrices as the tensor layer builds it: 16-bit floats in float32."""
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"no product of {a.shape} and {b.shape}")
    (m, k), n = a.shape, b.shape[1]
    dtype = _promoted(a.dtype, b.dtype)
    wide = dt.float32 if dtype in (dt.float16, dt.bfloat16) else dtype
    left, right = (graph.cast(x, wide) for x in (a, b))
    left = graph.expand(graph.reshape(left, (m, 1, k)), (m, n, k))
    right = graph.reshape(graph.permute(right, (1, 0)), (1, n, k))
    product = graph.binary("mul", left, graph.expand(right, (m, n, k)))
    return graph.cast(graph.reduce("add", product, (2,)), dtype)

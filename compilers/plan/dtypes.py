"""Dtypes that a device lacks are refused by name, before anything is compiled."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from compilers import dtype as dt
from compilers.dtype import DType
from compilers.graph import Node, toposort
from compilers.plan.ranges import narrow_int64
from drivers.base.errors import Unsupported


def check_dtype(dtype: DType, dtypes: Collection[str], device: str) -> None:
    """Raises: Unsupported where no kernel of the device has it."""
    if dtype.name not in dtypes:
        raise Unsupported(
            f"{device or 'this device'} has no {dtype.name}",
            hint=f"It has {', '.join(sorted(dtypes))}; cast to one of these, or use the CPU",
        )


def check_graph(roots: Sequence[Node], dtypes: Collection[str], device: str) -> None:
    """The same for every value of a fresh graph. Where int64 is lacking but neither given nor a
    result, it becomes int32, in place."""
    nodes = toposort(roots)
    wide = dt.int64.name not in dtypes
    stored = {*roots, *(node for node in nodes if node.op == "buffer")}
    for node in nodes:
        if not (wide and node.dtype is dt.int64 and node not in stored):
            check_dtype(node.dtype, dtypes, device)
    if wide:
        narrow_int64(nodes, device)

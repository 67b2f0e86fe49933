"""From lazy nodes to finished storage: schedule once, then launch.

`realize(nodes, device)` looks the graph's signature up; a known one costs a dictionary look-up,
an allocation and a launch. An unknown one is scheduled, compiled (from the disk cache when it has
it) and loaded first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from math import prod
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compilers import dtype as dt
from compilers import graph
from compilers.graph import Node
from compilers.signature import Signature, signature
from drivers.base.contracts import Buffer, Device
from drivers.base.errors import BadArgument, Unsupported
from drivers.choice import choose, split_name
from tensor.executable import Executable, Runtime, Storage

MAX_PLANS = 4096
"""Executables kept per device; the oldest goes first."""

_runtimes: dict[str, Runtime] = {}
_opening = Lock()


@cache
def default_device() -> str:
    """The name of the device that the environment chooses, else the best usable one."""
    choice = choose(os.environ)
    kind = choice.kind or "CPU"
    return f"{kind}:{choice.index}" if choice.index else kind


@cache
def device_name(name: str | None) -> str:
    """The one spelling of a device's name ("cpu:0" is "CPU"); None is the default device.

    Raises: NotFound for a name that no device has, TypeError for what is no name.
    """
    if name is None:
        return default_device()
    if not isinstance(name, str):
        raise TypeError(f"a device is a name such as 'CPU' or 'AMD:1', not {name!r}")
    kind, index = split_name(name)
    return f"{kind}:{index}" if index else kind


def runtime(name: str) -> Runtime:
    """The opened device of that name with its compiled graphs; opened on first use."""
    found = _runtimes.get(name)
    if found is None:
        with _opening:
            found = _runtimes.get(name) or _runtimes.setdefault(name, Runtime.open(name))
    return found


@contextmanager
def adopted(name: str, device: Device, compiler: str = "") -> Iterator[Runtime]:
    """Inside, `name` ("AMD", "AMD:1") stands for an opened device: one of a board, for instance.

    `compiler` "" is the device's first. The device stays its owner's to close, and tensors on it
    must be gone by then. Raises: BadArgument where the name stands for a device already.
    """
    spelt = device_name(name)
    made = Runtime(spelt, device, compiler or device.compilers[0])
    with _opening:
        if _runtimes.setdefault(spelt, made) is not made:
            raise BadArgument(
                f"{spelt} is open already", hint="Adopt a device before its name is first used"
            )
    try:
        yield made
    finally:
        made.executables.clear()
        with _opening:
            _runtimes.pop(spelt, None)


def device(name: str | None = None) -> Device:
    """The opened device behind a name (None: the default device)."""
    return runtime(device_name(name)).device


def realize(nodes: Sequence[Node], name: str) -> None:
    """Compute `nodes` on device `name`; each becomes a buffer."""
    roots = [node for node in nodes if node.op != "buffer"]
    if not roots:
        return
    key, leaves = signature(roots)
    run = runtime(name)
    executable = run.executables.get(key)
    if executable is None:
        executable = _prepare(run, key)
    for root, storage in zip(roots, executable.run(leaves), strict=True):
        root.realise(storage)


def _prepare(run: Runtime, key: Signature) -> Executable:
    if len(run.executables) >= MAX_PLANS:
        run.executables.pop(next(iter(run.executables), ()), None)
    executable = run.executables[key] = run.compile(key)
    return executable


class _Exported:
    """Storage as numpy's array interface: the array keeps the storage alive."""

    __slots__ = ("__array_interface__", "storage")

    def __init__(self, storage: Storage, dtype: dt.DType, shape: tuple[int, ...]) -> None:
        self.storage = storage
        self.__array_interface__ = {
            "version": 3, "shape": shape, "typestr": np.dtype(dtype.storage).str,
            "data": (storage.buffer.gpu_va, True)}  # fmt: skip


def to_numpy(node: Node, name: str) -> NDArray[Any]:
    """The elements of a node, realised first. bfloat16 comes as the uint16 of its bits.

    Read-only; on the CPU a view of the storage, without a copy.
    Raises: Unsupported inside a function that `jit` is recording.
    """
    recording = runtime(name).recording
    if recording is not None and recording.is_mine():
        raise Unsupported(
            "values cannot be read while jit records",
            hint="Return the tensor from the jitted function and read it outside",
        )
    realize([node], name)
    storage: Storage = node.storage
    if not prod(node.shape):
        return np.empty(node.shape, node.dtype.storage)
    source = runtime(storage.device).device
    source.synchronize()
    if source.host_visible:
        return np.asarray(_Exported(storage, node.dtype, node.shape))
    result = np.empty(node.shape, node.dtype.storage)
    source.copy_out(result.reshape(-1).view(np.uint8).data, storage.buffer)
    result.flags.writeable = False
    return result


def from_numpy(array: NDArray[Any], name: str, dtype: dt.DType) -> Node:
    """A buffer node with the array's elements; `dtype` may name bfloat16 for uint16 bits.

    A C-contiguous aligned array is shared, not copied, on devices that see host memory.
    """
    target = runtime(name).device
    array = np.ascontiguousarray(array) if not array.flags.c_contiguous else array
    shape = array.shape
    if not array.size:
        return graph.buffer(Storage(target.alloc(1), name), dtype, shape)
    raw = array.reshape(-1).view(np.uint8).data
    if target.host_visible and array.flags.aligned:
        return graph.buffer(Storage(target.wrap(raw), name), dtype, shape)
    held: Buffer = target.alloc(array.nbytes)
    target.copy_in(held, raw)
    return graph.buffer(Storage(held, name), dtype, shape)


def copy(node: Node, source: str, target: str) -> Node:
    """The same elements on another device (or copied, when the devices are the same)."""
    array = to_numpy(node, source)
    return from_numpy(array.copy() if source == target else array, target, node.dtype)


def synchronize(name: str | None = None) -> None:
    """Wait until everything launched on a device has finished."""
    device(name).synchronize()

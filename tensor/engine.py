"""From lazy nodes to finished storage: schedule once, then launch.

`realize(nodes, device)` looks the graph's signature up; a known one costs a dictionary look-up,
an allocation and a launch. An unknown one is scheduled, compiled (from the disk cache when it has
it) and loaded first.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compilers import dtype as dt
from compilers import graph
from compilers.graph import Node
from compilers.plan.dtypes import check_dtype
from compilers.plan.signature import Signature, signature
from drivers.base import forks
from drivers.base.contracts import Buffer, Device, World
from drivers.base.errors import BadArgument, BadChoice, Busy, Denied, NotFound, Unsupported
from drivers.base.imports import check_imports
from drivers.choice import split_name
from drivers.default import Default, chosen, settle
from drivers.listing import openable
from drivers.registry import this_machine
from tensor.executable import Executable, LentStorage, Runtime, Storage

__all__ = [
    "Exported", "adopted", "copy", "default", "default_device", "device", "device_name", "devices",
    "from_numpy", "make_room", "on_machine", "positions", "realize", "realized", "runtime",
    "synchronize", "to_numpy",
]  # fmt: skip

MAX_PLANS = 1024
"""Executables kept per device; the oldest is evicted first, and comes back from the disk cache.

docs/observing.md has what one keeps in memory.
"""

MAX_MOVES = 1 << 10
"""Movement ops in a row through which a view of lent memory is followed."""

_runtimes: dict[str, Runtime] = {}


@dataclass(slots=True)
class _Machine:
    """Where devices are opened (None: on this machine), and its default device once chosen."""

    world: World | None = None
    default: Default | None = None


_here = _Machine()


def default_device() -> str:
    """The name of the device that the environment chooses, else of the best usable one.

    It is chosen once, at first use; a GPU that the user did not name is opened to check that it
    can be. Raises: BadChoice.
    """
    return (_here.default or default()).name


def default() -> Default:
    """The default device and why it is that one. Warns of a GPU that could not be opened."""
    with forks.postponed():
        found, asked = _here.default, _here.default is not None
        if found is None:
            machine = _here.world or this_machine()
            found = _here.default = chosen(os.environ) or settle(machine, _runtime, os.environ)
    if not asked:
        found.warn()
    return found


def device_name(name: str | None) -> str:
    """The one spelling of a device's name ("cpu:0" is "CPU"); None is the default device.

    Raises: NotFound for a name that no device has, TypeError for an object that is no name.
    """
    return default_device() if name is None else _spelling(name)


@cache
def _spelling(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a device is a name such as 'CPU' or 'CL:1', not {name!r}")
    kind, index = split_name(name)
    return f"{kind}:{index}" if index else kind


def runtime(name: str) -> Runtime:
    """The opened device of that name with its compiled graphs; opened on first use."""
    found = _runtimes.get(name)
    if found is None:
        with forks.postponed():
            found = _runtime(name)
    return found


def _runtime(name: str) -> Runtime:
    """The same, with the lock held."""
    found = _runtimes.get(name)
    if found is None:
        try:
            found = Runtime.open(name, _here.world)
        except (NotFound, Denied, Busy, BadChoice) as error:  # of this machine and its user
            raise error.with_traceback(None) from error.__cause__
        found = _runtimes.setdefault(name, found)
    return found


@contextmanager
def on_machine(world: World) -> Iterator[None]:
    """Inside, devices and the default are those of `world`, a board's machine for instance.

    They are closed at the end; tensors on them must be gone by then. Devices that were open before
    are restored at the end.
    """
    with forks.postponed():
        before, kept = (_here.world, _here.default), dict(_runtimes)
        _runtimes.clear()
        _here.world, _here.default = world, None
    try:
        yield
    finally:
        with forks.postponed():
            opened = list(_runtimes.values())
            _runtimes.clear()
            _runtimes.update(kept)
            _here.world, _here.default = before
        for made in opened:
            atexit.unregister(made.end)
            made.close()


@contextmanager
def adopted(name: str, device: Device, compiler: str = "") -> Iterator[Runtime]:
    """Inside, `name` ("CL", "CL:1") stands for an opened device: one of a board, for instance.

    `compiler` "" is the device's first. The device stays its owner's to close, and tensors on it
    must be gone by then. Raises: BadArgument where the name stands for a device already.
    """
    spelt = device_name(name)
    made = Runtime(spelt, device, compiler or device.compilers[0])
    with forks.postponed():
        if _runtimes.setdefault(spelt, made) is not made:
            raise BadArgument(
                f"{spelt} is open already", hint="Adopt a device before its name is first used"
            )
    try:
        yield made
    finally:
        made.executables.clear()
        with forks.postponed():
            _runtimes.pop(spelt, None)


def devices() -> list[str]:
    """The default device, then what else is open or can be opened: `drivers.listing`."""
    first = default_device()
    can_open = openable(_here.world or this_machine(), os.environ)
    return list(dict.fromkeys([first, *can_open[:-1], *sorted(_runtimes), *can_open[-1:]]))


def device(name: str | None = None) -> Device:
    """The opened device of a name (None: the default device)."""
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
    check_imports()
    make_room(run.executables, MAX_PLANS)
    with forks.postponed():
        executable = run.executables.get(key)
        if executable is None:  # no other thread has compiled it since
            executable = run.executables[key] = run.compile(key)
    return executable


def make_room(kept: dict[Any, Any], most: int) -> None:
    """Drop the oldest entries of a cache, so that one more makes at most `most`.

    Other threads may change it concurrently: the keys are copied in one step.
    """
    if len(kept) >= most:
        keys = list(kept)
        for key in keys[: len(keys) - most + 1]:
            kept.pop(key, None)


class Exported:
    """Memory as numpy's array interface: the array keeps `kept` alive."""

    __slots__ = ("__array_interface__", "kept")

    def __init__(
        self, kept: object, pointer: int, dtype: dt.DType, shape: tuple[int, ...], *, writable: bool
    ) -> None:
        self.kept = kept
        self.__array_interface__ = {
            "version": 3, "shape": shape, "typestr": np.dtype(dtype.storage).str,
            "data": (pointer, not writable)}  # fmt: skip


def realized(node: Node, name: str) -> Node:
    """The node with its storage; of a view of another library's memory, a node of what is there
    now, so that a later reading sees later writes.

    Raises: Unsupported inside a function that `jit` is recording.
    """
    if runtime(name).recording() is not None:
        raise Unsupported(
            "values cannot be read while jit records",
            hint="Return the tensor from the jitted function and read it outside",
        )
    if _is_lent_view(node):
        node = Node(node.op, node.src, node.arg, node.dtype, node.shape)
    realize([node], name)
    return node


def _is_lent_view(node: Node) -> bool:
    """Whether nothing but movement is between the node and another library's memory."""
    if node.op not in graph.MOVEMENT:
        return False
    for _ in range(MAX_MOVES):
        if node.op not in graph.MOVEMENT:
            break
        node = node.src[0]
    return node.op == "buffer" and isinstance(node.storage, LentStorage)


def to_numpy(node: Node, name: str, *, writable: bool = False) -> NDArray[Any]:
    """The elements of a node, realised first. bfloat16 comes as the uint16 of its bits.

    Read-only unless `writable`; on the CPU a view of the storage, without a copy.
    Raises: Unsupported inside a function that `jit` is recording.
    """
    storage: Storage = realized(node, name).storage
    if not prod(node.shape):
        nothing = np.empty(node.shape, node.dtype.storage)
        nothing.flags.writeable = writable
        return nothing
    source = runtime(storage.device).device
    source.synchronize()
    host = storage.buffer.host
    if host is not None:
        data, _ = np.frombuffer(host, np.uint8).__array_interface__["data"]
        kept = storage, host
        return np.asarray(Exported(kept, data, node.dtype, node.shape, writable=writable))
    result = np.empty(node.shape, node.dtype.storage)
    source.copy_out(result.reshape(-1).view(np.uint8).data, storage.buffer)
    result.flags.writeable = writable
    return result


def from_numpy(array: NDArray[Any], name: str, dtype: dt.DType) -> Node:
    """A buffer node with the array's elements; `dtype` may name bfloat16 for uint16 bits.

    A C-contiguous aligned array is shared, not copied, on devices that access host memory.
    Raises: Unsupported for a dtype that the device lacks.
    """
    target = runtime(name).device
    check_dtype(dtype, target.limits.dtypes, name)
    array = np.ascontiguousarray(array) if not array.flags.c_contiguous else array
    shape = array.shape
    if not array.size:
        return graph.buffer(Storage(target.alloc(1), name), dtype, shape)
    raw = array.reshape(-1).view(np.uint8).data
    if target.limits.uses_host_memory and array.flags.aligned:
        return graph.buffer(Storage(target.wrap(raw), name), dtype, shape)
    held: Buffer = target.alloc(array.nbytes)
    target.copy_in(held, raw)
    return graph.buffer(Storage(held, name), dtype, shape)


def positions(array: NDArray[np.int64], name: str) -> Node:
    """Positions along an axis as a buffer node: of int64, or of int32 on a device without it.

    Raises: Unsupported for positions above int32 there.
    """
    wide = dt.int64.name in runtime(name).device.limits.dtypes
    largest = array.max(initial=0)
    if not wide and largest > dt.limits(dt.int32)[1]:
        raise Unsupported(f"{name} has no int64 for position {largest}", hint="Use the CPU")
    dtype = dt.int64 if wide else dt.int32
    return from_numpy(np.asarray(array, dtype.name, order="C"), name, dtype)


def copy(node: Node, source: str, target: str) -> Node:
    """The same elements on another device (or copied, when the devices are the same)."""
    array = to_numpy(node, source)
    return from_numpy(array.copy() if source == target else array, target, node.dtype)


def synchronize(name: str | None = None) -> None:
    """Wait until everything launched on a device has finished."""
    device(name).synchronize()


def _after_fork() -> None:
    """A GPU belongs to the process that opened it: a child opens it again for its own tensors."""
    for name in [name for name, made in _runtimes.items() if not made.device.limits.survives_fork]:
        del _runtimes[name]


os.register_at_fork(after_in_child=_after_fork)

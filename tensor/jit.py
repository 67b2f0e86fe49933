"""`jit`: run a function of tensors once, then replay its launches as one Graph.

The first call with given shapes, dtypes and other arguments runs the function eagerly and records
its launches. Later calls patch the addresses of inputs and results into the recorded commands and
ring the doorbell once, without building or scheduling a graph. Python code of the function does
not run again, so its other effects happen once, and values that are not tensors, and tensors that
are not arguments, are constants. Assigning to an argument inside does not reach the caller.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numpy as np

from compilers import graph
from compilers.dtype import DType
from compilers.plan.liveness import last_uses, peak_bytes
from drivers.base.contracts import Buffer, Graph, Param
from drivers.base.errors import Unsupported
from tensor import engine
from tensor.core import Tensor, common_device
from tensor.executable import Recording, Reuse, Runtime, Storage

__all__ = ["Jit", "jit"]

P = ParamSpec("P")
R = TypeVar("R")

MAX_CAPTURES = 256
"""Recordings kept per function; the oldest is evicted first."""


@dataclass(slots=True)
class _Result:
    """A tensor of the result: its node's form, and the source of its storage."""

    shape: tuple[int, ...]
    dtype: DType
    source: int
    """Index into inputs, then fresh outputs; or -1: `kept`, the same storage every time."""
    kept: Storage | None


@dataclass(slots=True)
class _Capture:
    """A recorded call: replayed with its inputs, and fresh storage for each output."""

    graph: Graph
    params: int
    """The first so many of inputs and outputs have a place in the graph."""
    output_bytes: tuple[int, ...]
    results: list[_Result]
    template: Any
    kernels: int
    peak_bytes: int

    def replay(self, run: Runtime, inputs: Sequence[Storage]) -> Any:
        fresh = [Storage(run.device.alloc(n), run.name) for n in self.output_bytes]
        storages = [*inputs, *fresh]
        self.graph.replay([storage.buffer for storage in storages[: self.params]])
        tensors: list[Tensor] = []
        for result in self.results:
            storage = result.kept if result.kept is not None else storages[result.source]
            node = graph.buffer(storage, result.dtype, result.shape)
            tensors.append(Tensor(node, run.name))
        return _rebuild(self.template, iter(tensors))


class Jit(Generic[P, R]):
    """A captured function; call it as the function itself."""

    def __init__(self, function: Callable[P, R]) -> None:
        self._function = function
        self._captures: dict[Hashable, _Capture] = {}
        update_wrapper(self, function)

    @property
    def peak_bytes(self) -> int:
        """Bytes of intermediates and results alive at once, in the recording that needs most."""
        return max((capture.peak_bytes for capture in self._captures.values()), default=0)

    def __repr__(self) -> str:
        kernels = max((capture.kernels for capture in self._captures.values()), default=0)
        name = getattr(self._function, "__qualname__", repr(self._function))
        return (
            f"jit({name}): {len(self._captures)} recordings, at most {kernels} kernels and "
            f"{self.peak_bytes / 1e6:.1f} MB of intermediates and results at once"
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        inputs: list[Tensor] = []
        template = _flatten((args, kwargs), inputs)
        if not inputs:
            raise Unsupported(
                "a jitted function needs at least one tensor argument",
                hint="Pass the tensors it works on as arguments",
            )
        run = engine.runtime(common_device(inputs))
        if run.recordings and run.recording() is not None:
            return self._function(*args, **kwargs)
        for tensor in inputs:
            tensor.realize()
        key = (template, run.name, *[(t._node.dtype, t._node.shape) for t in inputs])
        try:
            capture = self._captures.get(key)
        except TypeError as error:
            raise TypeError(
                f"an argument of a jitted function cannot be a key ({error}); pass arrays as "
                "tensors (asarray), and everything else as something hashable"
            ) from error
        if capture is not None:
            return cast(R, capture.replay(run, [tensor._node.storage for tensor in inputs]))
        return self._first(run, key, inputs)

    def __reduce__(self) -> str:
        """Pickled by name, as any function; a copy is the function itself."""
        return str(getattr(self, "__qualname__", type(self._function).__qualname__))

    def _first(self, run: Runtime, key: tuple[Any, ...], inputs: list[Tensor]) -> R:
        """Run the function on storages without other references, and keep its launches."""
        copies = [_renamed(tensor) for tensor in inputs]
        args, kwargs = _rebuild(key[0], iter(copies))
        storages: list[Storage] = [copy._node.storage for copy in copies]
        with run.records() as recording:
            outputs: list[Tensor] = []
            template = _flatten(self._function(*args, **kwargs), outputs)
            common_device([inputs[0], *outputs])
            engine.realize([tensor._node for tensor in outputs], run.name)
        engine.make_room(self._captures, MAX_CAPTURES)
        self._captures[key] = _capture(run, recording, storages, outputs, template)
        return cast(R, _rebuild(template, iter(outputs)))


def jit(function: Callable[P, R]) -> Jit[P, R]:
    """Capture `function` into a Graph at its first call with given shapes; see the module.

    Arguments and results are tensors in any nesting of tuples, lists and dicts; other arguments
    must be hashable. Reading values inside the function (`.numpy()`, `if tensor:`) raises.
    """
    return Jit(function)


def _renamed(x: Tensor) -> Tensor:
    """x in a storage of its own name, so that a use of x as a constant is not taken for it."""
    node = x._node
    storage = Storage(node.storage.buffer, x.device)
    return Tensor(graph.buffer(storage, node.dtype, node.shape), x.device)


def _capture(
    run: Runtime, recording: Recording, inputs: list[Storage], outputs: list[Tensor], template: Any
) -> _Capture:
    """Bind the launches; values that are neither input nor output get memory of the graph."""
    slots = {id(storage): number for number, storage in enumerate(inputs)}
    written = {id(storage): nbytes for storage, nbytes in recording.written}
    sizes: list[int] = []
    results: list[_Result] = []
    for tensor in outputs:
        node, storage = tensor._node, tensor._node.storage
        if id(storage) in written and id(storage) not in slots:
            slots[id(storage)] = len(inputs) + len(sizes)
            sizes.append(written[id(storage)])
        source = slots.get(id(storage), -1)
        results.append(_Result(node.shape, node.dtype, source, storage if source < 0 else None))
    steps = [[id(storage) for storage in storages] for _, storages, _ in recording.launches]
    arguments = _arguments(run, steps, written, slots)
    queue = run.device.compute_queue()
    for program, storages, grid in recording.launches:
        queue.exec(program, [arguments.get(id(s), s.buffer) for s in storages], (grid, 1, 1))
    params = max((slots[name] + 1 for names in steps for name in names if name in slots), default=0)
    peak = peak_bytes(steps, written, slots)
    return _Capture(queue.bind(), params, tuple(sizes), results, template, len(steps), peak)


def _arguments(
    run: Runtime, steps: list[list[int]], written: dict[int, int], slots: dict[int, int]
) -> dict[int, Buffer | Param]:
    """The graph's slot of each storage. Internal ones share memory where one is dead before the
    other is made."""
    params: dict[int, Buffer | Param] = {name: Param(slot) for name, slot in slots.items()}
    private: dict[int, Buffer] = {}
    reuse = Reuse(run.device)
    for names, dead in zip(steps, last_uses(steps, slots), strict=True):
        for name in names:
            if name in written and name not in slots and name not in private:
                private[name] = reuse.take(written[name])
        for name in dead:
            if name in private:
                reuse.give(private[name])
    return params | private


_FLOAT = struct.Struct("<d")
_SLOT = object()
"""Place of a tensor in a nesting."""


def _flatten(value: Any, found: list[Tensor]) -> Any:
    """The nesting as a hashable template; its tensors are appended to `found`.

    Other values are kept with their types, so that 1, 1.0 and True differ; floats, numpy's too, by
    their bits, so that 0.0 and -0.0 differ and NaN, which has a sign, is equal to itself.
    """
    if isinstance(value, Tensor):
        found.append(value)
        return _SLOT
    if isinstance(value, tuple):
        return (type(value), *[_flatten(item, found) for item in value])
    if isinstance(value, list):
        return (list, *[_flatten(item, found) for item in value])
    if isinstance(value, dict):
        return (dict, *[(name, _flatten(item, found)) for name, item in value.items()])
    if isinstance(value, float):
        return (None, type(value), _FLOAT.pack(value))
    return (None, type(value), value.tobytes() if isinstance(value, np.floating) else value)


def _rebuild(template: Any, tensors: Iterator[Tensor]) -> Any:
    """The nesting of a template with tensors in their places."""
    if template is _SLOT:
        return next(tensors)
    kind, *items = template
    if kind is None:
        made, item = items
        if issubclass(made, float):
            return made(*_FLOAT.unpack(item))
        return np.frombuffer(item, made)[0] if issubclass(made, np.floating) else item
    if kind is dict:
        return {name: _rebuild(item, tensors) for name, item in items}
    parts = [_rebuild(item, tensors) for item in items]
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)

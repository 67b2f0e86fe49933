"""`jit`: run a function of tensors once, then replay what it launched as one Graph.

The first call with given shapes, dtypes and other arguments runs the function eagerly and records
its launches. Later calls patch the addresses of inputs and results into the recorded commands and
ring the doorbell once: no graph is built, nothing is scheduled. Python code of the function does
not run again, so its other effects happen once, and values that are not tensors, and tensors that
are not arguments, are constants. Assigning to an argument inside does not reach the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from threading import Lock
from typing import Any, Generic, ParamSpec, TypeVar, cast

from compilers import graph
from compilers.dtype import DType
from drivers.base.contracts import Buffer, Graph, Param
from drivers.base.errors import Unsupported
from tensor import engine
from tensor.core import Tensor, common_device
from tensor.executable import Recording, Runtime, Storage

P = ParamSpec("P")
R = TypeVar("R")

MAX_CAPTURES = 256
"""Recordings kept per function; the oldest goes first."""

_one_records = Lock()
"""Only one thread records at a time; another one's first call runs without being recorded."""


@dataclass(slots=True)
class _Result:
    """A tensor of the result: its node's form, and where its storage comes from."""

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

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        inputs: list[Tensor] = []
        template = _flatten((args, kwargs), inputs)
        if not inputs:
            raise Unsupported(
                "a jitted function needs at least one tensor argument",
                hint="Pass the tensors it works on as arguments",
            )
        run = engine.runtime(common_device(inputs))
        if run.recording is not None and run.recording.is_mine():
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

    def _first(self, run: Runtime, key: tuple[Any, ...], inputs: list[Tensor]) -> R:
        """Run the function on storages that nothing else names, and keep what it launched."""
        copies = [_renamed(tensor) for tensor in inputs]
        args, kwargs = _rebuild(key[0], iter(copies))
        storages: list[Storage] = [copy._node.storage for copy in copies]
        if not _one_records.acquire(blocking=False):
            return self._function(*args, **kwargs)
        try:
            recording = run.recording = Recording()
            outputs: list[Tensor] = []
            template = _flatten(self._function(*args, **kwargs), outputs)
            common_device([inputs[0], *outputs])
            engine.realize([tensor._node for tensor in outputs], run.name)
        finally:
            run.recording = None
            _one_records.release()
        if len(self._captures) >= MAX_CAPTURES:
            self._captures.pop(next(iter(self._captures)), None)
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
    """Bind the launches; what is neither input nor output is written to memory of the graph's."""
    slots = {id(storage): number for number, storage in enumerate(inputs)}
    written = {id(storage): storage for storage in recording.written}
    sizes: list[int] = []
    results: list[_Result] = []
    for tensor in outputs:
        node, storage = tensor._node, tensor._node.storage
        if id(storage) in written and id(storage) not in slots:
            slots[id(storage)] = len(inputs) + len(sizes)
            sizes.append(storage.buffer.nbytes)
        source = slots.get(id(storage), -1)
        results.append(_Result(node.shape, node.dtype, source, storage if source < 0 else None))
    arguments: dict[int, Buffer | Param] = {name: Param(slot) for name, slot in slots.items()}
    for name, storage in written.items():
        if name not in slots:
            arguments[name] = run.device.alloc(storage.buffer.nbytes)
    queue, params = run.device.compute_queue(), 0
    for program, storages, grid in recording.launches:
        queue.exec(program, [arguments.get(id(s), s.buffer) for s in storages], (grid, 1, 1))
        params = max(params, *(slots.get(id(s), -1) + 1 for s in storages))
    return _Capture(queue.bind(), params, tuple(sizes), results, template)


_SLOT = object()
"""Where a tensor stood in a nesting."""


def _flatten(value: Any, found: list[Tensor]) -> Any:
    """The nesting as a hashable template; its tensors are appended to `found`.

    Other values stand with their types, so that 1, 1.0 and True differ; floats by their digits,
    so that 0.0 and -0.0 differ and NaN is equal to itself.
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
    return (None, type(value), value.hex() if isinstance(value, float) else value)


def _rebuild(template: Any, tensors: Iterator[Tensor]) -> Any:
    """The nesting of a template with tensors in their places."""
    if template is _SLOT:
        return next(tensors)
    kind, *items = template
    if kind is None:
        made, item = items
        return made.fromhex(item) if issubclass(made, float) else item
    if kind is dict:
        return {name: _rebuild(item, tensors) for name, item in items}
    parts = [_rebuild(item, tensors) for item in items]
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)

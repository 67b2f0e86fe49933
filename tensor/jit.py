"""`jit`: run a function of tensors once, then replay what it launched as one Graph.

The first call with given shapes, dtypes and other arguments runs the function eagerly and records
its launches. Later calls patch the addresses of inputs and results into the recorded commands and
ring the doorbell once: no graph is built, nothing is scheduled. Python code of the function does
not run again, so its other effects happen once, and values that are not tensors are constants.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, cast

from compilers import graph
from drivers.base.contracts import Argument, Buffer, Graph, Param
from drivers.base.errors import Unsupported
from tensor import engine
from tensor.core import Tensor
from tensor.executable import Recording, Runtime, Storage

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(slots=True)
class _Result:
    """A tensor of the result: its node's form, and where its storage comes from."""

    shape: tuple[int, ...]
    dtype: Any
    source: int
    """Index into inputs, then fresh outputs; or -1: `kept`, the same storage every time."""
    kept: Storage | None


@dataclass(slots=True)
class _Capture:
    """A recorded call: replayed with its inputs, and fresh storage for each output."""

    graph: Graph
    recording: Recording
    output_bytes: tuple[int, ...]
    results: list[_Result]
    template: Any

    def replay(self, run: Runtime, inputs: Sequence[Storage]) -> Any:
        fresh = [Storage(run.device.alloc(n), run.name) for n in self.output_bytes]
        storages = [*inputs, *fresh]
        self.graph.replay([storage.buffer for storage in storages])
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
        for tensor in inputs:
            tensor.realize()
        storages: list[Storage] = [tensor._node.storage for tensor in inputs]
        first = {id(storage): number for number, storage in reversed([*enumerate(storages)])}
        key = (
            template,
            tuple(
                (t._node.shape, t._node.dtype, t.device, first[id(s)])
                for t, s in zip(inputs, storages, strict=True)
            ),
        )
        capture = self._captures.get(key)
        if capture is not None:
            return cast(R, capture.replay(engine.runtime(storages[0].device), storages))
        return self._record(key, args, kwargs, storages)

    def _record(self, key: Hashable, args: Any, kwargs: Any, inputs: list[Storage]) -> R:
        if not inputs:
            raise Unsupported(
                "a jitted function needs at least one tensor argument",
                hint="Pass the tensors it works on as arguments",
            )
        run = engine.runtime(inputs[0].device)
        if run.recording is not None:
            return self._function(*args, **kwargs)
        recording = run.recording = Recording()
        try:
            result = self._function(*args, **kwargs)
            outputs: list[Tensor] = []
            template = _flatten(result, outputs)
            engine.realize([tensor._node for tensor in outputs], run.name)
        finally:
            run.recording = None
        self._captures[key] = _capture(run, recording, inputs, outputs, template)
        return result


def jit(function: Callable[P, R]) -> Jit[P, R]:
    """Capture `function` into a Graph at its first call with given shapes; see the module.

    Arguments and results are tensors in any nesting of tuples, lists and dicts; other arguments
    must be hashable. Reading values inside the function (`.numpy()`, `if tensor:`) raises.
    """
    return Jit(function)


def _capture(
    run: Runtime, recording: Recording, inputs: list[Storage], outputs: list[Tensor], template: Any
) -> _Capture:
    written = {id(storage) for storage in recording.written}
    slots: dict[int, int] = {}
    for number, storage in enumerate(inputs):
        slots.setdefault(id(storage.buffer), number)
    sizes: list[int] = []
    results: list[_Result] = []
    for tensor in outputs:
        storage = tensor._node.storage
        if id(storage) in written and id(storage.buffer) not in slots:
            slots[id(storage.buffer)] = len(inputs) + len(sizes)
            sizes.append(storage.buffer.nbytes)
        source = slots.get(id(storage.buffer), -1)
        results.append(
            _Result(tensor._node.shape, tensor._node.dtype, source, storage if source < 0 else None)
        )
    queue = run.device.compute_queue()
    for program, buffers, grid in recording.launches:
        queue.exec(program, [_argument(buffer, slots) for buffer in buffers], (grid, 1, 1))
    return _Capture(queue.bind(), recording, tuple(sizes), results, template)


def _argument(buffer: Buffer, slots: dict[int, int]) -> Argument:
    slot = slots.get(id(buffer))
    return buffer if slot is None else Param(slot)


class _Slot:
    """Where a tensor stood in a nesting."""

    def __repr__(self) -> str:
        return "tensor"


_SLOT = _Slot()


def _flatten(value: Any, found: list[Tensor]) -> Any:
    """The nesting as a hashable template; its tensors are appended to `found`."""
    if isinstance(value, Tensor):
        found.append(value)
        return _SLOT
    if isinstance(value, tuple | list):
        return (type(value), *[_flatten(item, found) for item in value])
    if isinstance(value, dict):
        return (dict, *[(name, _flatten(item, found)) for name, item in value.items()])
    return (None, value)


def _rebuild(template: Any, tensors: Any) -> Any:
    """The nesting of a template with tensors in their places."""
    if template is _SLOT:
        return next(tensors)
    kind, *items = template
    if kind is None:
        return items[0]
    if kind is dict:
        return {name: _rebuild(item, tensors) for name, item in items}
    parts = [_rebuild(item, tensors) for item in items]
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)

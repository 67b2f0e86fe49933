"""Putting a tracer in front of an opened device: `drivers.registry` does, with UNBOUND_TRACE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Final

from drivers.base.contracts import Buffer, Device, Program, World
from drivers.timeline.file import TimelineFile
from drivers.timeline.queues import TimedQueue
from drivers.timeline.tracer import Tracer

_files: Final[dict[str, TimelineFile]] = {}
"""One for each path, for the life of the process: devices are opened one after the other."""
_lock: Final = Lock()


def attach(device: Device, world: World, path: str) -> None:
    """Record what the device is given from now on, in a file of this process.

    Its methods are replaced in this one object: another device is as fast as ever. A launch is then
    a queue of one kernel between two time stamps, so that kernels do not overlap.
    Raises: BadArgument, Denied for the file; what the device does.
    """
    with _lock:
        file = _files.get(path)
        if file is None or not file.open:
            file = _files[path] = TimelineFile(path)
    tracer = Tracer(file, device, world)
    for name, method in _methods(device, tracer).items():
        setattr(device, name, method)


def _methods(device: Device, tracer: Tracer) -> dict[str, Callable[..., Any]]:
    """What takes the place of the device's own methods, which they call."""
    own_launch, own_synchronize, own_close = device.launch, device.synchronize, device.close
    own_in, own_out = device.copy_in, device.copy_out

    def compute_queue() -> TimedQueue:
        return TimedQueue(tracer, tracer.compute)

    def copy_queue() -> TimedQueue:
        return TimedQueue(tracer, tracer.copies)

    def launch(program: Program, args: Sequence[Buffer | int], grid: int) -> None:
        if tracer.on:
            compute_queue().exec(program, args, (grid, 1, 1)).submit()
        else:
            own_launch(program, args, grid)

    def copy_in(dst: Buffer, src: memoryview) -> None:
        with tracer.host_copy("copy_in", src):
            own_in(dst, src)

    def copy_out(dst: memoryview, src: Buffer) -> None:
        with tracer.host_copy("copy_out", dst):
            own_out(dst, src)

    def synchronize(*args: float, **kwargs: float) -> None:
        own_synchronize(*args, **kwargs)
        tracer.synchronized()

    def close() -> None:
        try:
            tracer.close()
        finally:
            own_close()

    made = compute_queue, copy_queue, launch, copy_in, copy_out, synchronize, close
    return {method.__name__: method for method in made}

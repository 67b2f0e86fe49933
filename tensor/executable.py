"""A compiled graph on one device, and the runtime that makes and keeps them."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import local
from typing import Any

import drivers
from compilers import toolchains
from compilers.cpu.firmware import firmware
from compilers.lower.choose import Target
from compilers.plan import schedule as sched
from compilers.plan.signature import Signature, rebuild
from drivers.base import forks
from drivers.base.contracts import Buffer, Device, Program, World
from drivers.base.exits import end_quietly
from drivers.choice import choose

__all__ = ["Executable", "Launch", "LentStorage", "Recording", "Reuse", "Runtime", "Storage"]


class Storage:
    """The elements of one realised node; the buffer is freed with the last node that uses it."""

    __slots__ = ("__weakref__", "buffer", "device")

    def __init__(self, buffer: Buffer, device: str) -> None:
        self.buffer, self.device = buffer, device


class LentStorage(Storage):
    """Memory of another library. `writable`: that library, and whom it shares it with, may write.

    Kernels never write to it: tensors are values.
    """

    __slots__ = ("writable",)

    def __init__(self, buffer: Buffer, device: str, *, writable: bool) -> None:
        super().__init__(buffer, device)
        self.writable = writable


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel of an executable: the values it names, and those that are dead after it."""

    program: Program
    values: tuple[int, ...]
    grid: int
    dead: tuple[int, ...] = ()


@dataclass(slots=True)
class Recording:
    """Launches of one thread while it was active, in order, with their storages."""

    launches: list[tuple[Program, tuple[Storage, ...], int]] = field(default_factory=list)
    written: list[tuple[Storage, int]] = field(default_factory=list)
    """Storage that a launch filled, and its size."""


class _Thread(local):
    """`token` identifies only the calling thread; a thread's number is reused later."""

    def __init__(self) -> None:
        self.token = object()


_thread = _Thread()


class Reuse:
    """Memory for values with disjoint lifetimes: returned buffers are reused."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._free: list[Buffer] = []

    def take(self, nbytes: int) -> Buffer:
        """The smallest free buffer that is large enough, or a new one."""
        fit = [buffer for buffer in self._free if buffer.nbytes >= nbytes]
        if not fit:
            return self._device.alloc(nbytes)
        best = min(fit, key=lambda buffer: buffer.nbytes)
        self._free = [buffer for buffer in self._free if buffer is not best]
        return best

    def give(self, buffer: Buffer) -> None:
        self._free.append(buffer)


class Executable:
    """Launches in order. `run` allocates what they write and returns the results' storages."""

    __slots__ = (
        "_device",
        "_empty",
        "_leaves",
        "_name",
        "_nbytes",
        "_results",
        "_runtime",
        "launches",
    )

    def __init__(self, runtime: Runtime, plan: sched.Plan, launches: Sequence[Launch]) -> None:
        self._runtime, self._device, self._name = runtime, runtime.device, runtime.name
        self._leaves, self._nbytes = plan.leaves, tuple(max(n, 1) for n in plan.nbytes)
        self._empty = tuple(plan.leaves + i for i, n in enumerate(plan.nbytes) if n == 0)
        self._results, self.launches = plan.roots, tuple(launches)

    def run(self, leaves: Sequence[Storage]) -> list[Storage]:
        """Launch everything on `leaves`; the results, in the order of the roots."""
        if self._runtime.recordings:
            recording = self._runtime.recording()
            if recording is not None:
                return self._record(leaves, recording)
        if len(self.launches) == 1 and len(self._nbytes) == 1:
            return self._run_one(leaves)
        storages: list[Any] = [*leaves, *([None] * len(self._nbytes))]
        for value in self._empty:
            storages[value] = Storage(self._device.alloc(1), self._name)
        for launch in self.launches:
            made = launch.values[0]
            storages[made] = Storage(
                self._device.alloc(self._nbytes[made - self._leaves]), self._name
            )
            buffers = [storages[value].buffer for value in launch.values]
            self._device.launch(launch.program, buffers, launch.grid)
            for value in launch.dead:
                storages[value] = None
        return [storages[value] for value in self._results]

    def _run_one(self, leaves: Sequence[Storage]) -> list[Storage]:
        """The eager fast path: one kernel, one new storage."""
        result = Storage(self._device.alloc(self._nbytes[0]), self._name)
        launch = self.launches[0]
        last = self._leaves
        self._device.launch(
            launch.program,
            [result.buffer if value == last else leaves[value].buffer for value in launch.values],
            launch.grid,
        )
        return [result if value == last else leaves[value] for value in self._results]

    def _record(self, leaves: Sequence[Storage], recording: Recording) -> list[Storage]:
        """Every value has a storage of its own; those of dead values share their memory."""
        storages: list[Any] = [*leaves, *([None] * len(self._nbytes))]
        reuse = Reuse(self._device)
        for value in {*self._results, *self._empty}:
            if value >= self._leaves:
                self._fill(storages, value, recording, self._device.alloc)
        for launch in self.launches:
            if storages[launch.values[0]] is None:
                self._fill(storages, launch.values[0], recording, reuse.take)
            named = tuple(storages[value] for value in launch.values)
            self._device.launch(launch.program, [one.buffer for one in named], launch.grid)
            recording.launches.append((launch.program, named, launch.grid))
            for value in launch.dead:
                reuse.give(storages[value].buffer)
        return [storages[value] for value in self._results]

    def _fill(
        self, storages: list[Any], value: int, recording: Recording, alloc: Callable[[int], Buffer]
    ) -> None:
        nbytes = self._nbytes[value - self._leaves]
        storages[value] = Storage(alloc(nbytes), self._name)
        recording.written.append((storages[value], nbytes))


class Runtime:
    """An opened device, the compiler chosen for it, and its executables by signature."""

    def __init__(self, name: str, device: Device, compiler: str) -> None:
        self.name, self.device, self.compiler = name, device, compiler
        self.target = Target.of(device.limits, device.arch, name)
        self.executables: dict[Signature, Executable] = {}
        self.recordings: dict[object, Recording] = {}
        """Active recordings of threads, by their tokens."""
        forks.inherit(self)

    def recording(self) -> Recording | None:
        """Active recording of the calling thread."""
        return self.recordings.get(_thread.token)

    @contextmanager
    def records(self) -> Iterator[Recording]:
        """Inside, launches of the calling thread are recorded."""
        recording = self.recordings[_thread.token] = Recording()
        try:
            yield recording
        finally:
            self.recordings.pop(_thread.token, None)

    def after_fork(self) -> None:
        """In a child: drop other threads' recordings, which would never end."""
        mine = self.recordings.get(_thread.token)
        self.recordings = {} if mine is None else {_thread.token: mine}

    @classmethod
    def open(cls, name: str, world: World | None = None) -> Runtime:
        """Open the device, with the firmware that its driver may request."""
        choice = choose(os.environ, name)
        device = drivers.open(name, world=world, firmware=firmware)
        runtime = cls(name, device, choice.compiler or device.compilers[0])
        atexit.register(runtime.end)
        return runtime

    def compile(self, key: Signature) -> Executable:
        """Schedule, compile and load a graph. Raises: CompileError."""
        plan = sched.plan(rebuild(key).roots, self.target)
        launches: list[Launch] = []
        for step, dead in zip(plan.steps, plan.dead(), strict=True):
            binary = toolchains.build(
                step.kernel, self.compiler, self.device.arch, self.device.limits.features
            )
            program = self.device.load(binary)
            launches.append(Launch(program, step.values, step.kernel.grid, dead))
        return Executable(self, plan, launches)

    def end(self) -> None:
        """At exit, when daemon threads may still compute."""
        end_quietly()
        self.close()

    def close(self) -> None:
        """Close the device, with its buffers and programs."""
        self.executables.clear()
        self.device.close()

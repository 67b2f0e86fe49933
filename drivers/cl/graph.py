"""Recorded steps: kernel objects of their own with their arguments set, so that a replay only
enqueues. Often replayed ones become chains and command buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Protocol, TypeAlias

from drivers.base.contracts import Buffer
from drivers.base.errors import CompileError, MalformedInput, OutOfMemory, Unsupported
from drivers.base.undo import Step as Release
from drivers.base.undo import Undo
from drivers.cl import chain, command_buffer
from drivers.cl.api import Text
from drivers.cl.chain import Chain
from drivers.cl.command_buffer import CommandBuffer
from drivers.cl.commands import Launch, Step, filled
from drivers.cl.owner import ClOwner
from drivers.cl.program import Kernel
from drivers.cl.ring import Command, Ring
from queues.builder import Built
from queues.cl.kernel_code import ENTRY
from queues.graph import NEVER, Recording

CHAINED_AT: Final = 4
"""The replay from which on runs of kernels are one command."""
NOT_CHAINED: Final = (CompileError, MalformedInput, OutOfMemory, Unsupported)
"""What a replay of single commands does not meet."""


class Run(Protocol):
    """A command in place of several launches."""

    def fill(self, launches: Sequence[Launch]) -> None:
        """What it stands for in the next replay."""

    def __call__(self) -> bool:
        """Enqueue itself."""

    def drop(self) -> None:
        """Give back what it holds, later."""


Runs: TypeAlias = list[tuple[range, Run]]


class ClGraph(Recording[Step]):
    """Steps bound once."""

    def __init__(self, device: ClOwner, ring: Ring, built: Built[Step]) -> None:
        """With the device's lock held."""
        super().__init__(built)
        self._device, self._ring = device, ring
        self._open = {patch.step for patch in built.patches}
        self._releases: list[Release] = []
        """Of its kernel objects. A finaliser at the interpreter's exit can make none."""
        self._runs: Runs = []
        self._line: list[tuple[int, Command]] = []
        """What a replay enqueues, with the step where it begins: commands, and runs in place of
        those that they stand for."""
        self._ready: list[Step] = []
        """A command for each step."""
        self._replays = 0
        self._values: tuple[Buffer | int, ...] = NEVER
        self._mark: object = None
        with Undo() as undo:
            undo.add(self._drop)
            built.check()
            self._ready = [self._own(step) for step in built.steps]

    def _own(self, step: Step) -> Step:
        """The step; a launch with a kernel object that no other one uses."""
        if not isinstance(step, Launch):
            return step
        api, program = self._device.api, step.program
        name = Text((ENTRY + program.name).encode())
        handle = api.make("clCreateKernel", program.program, name.at)
        kernel = Kernel(api, handle, program.nargs + self._device.hidden_args)
        self._releases.append(partial(api.do, "clReleaseKernel", handle))
        return replace(step, kernel=kernel)

    def replay(self, values: Sequence[Buffer | int] = ()) -> None:
        """Run them; `values[i]` fills `Param(i)`. Raises: BadArgument, UseAfterFree, and
        Unsupported inside of another call of the device, before."""
        device, ring = self._device, self._ring
        device.enter()
        with device.lock:
            device.check_open()
            given = self._counted(values)
            self._update(given)
            device.begin(ring)
            rest = self._ready if ring.pending else self._started()
            if rest:
                device.push(ring, rest)

    def _started(self) -> Sequence[Command]:
        """Enqueue, and hand over, everything before the first wait that is not met; the rest."""
        try:
            for step, command in self._line:
                if not command():
                    return self._ready[step:]
        finally:
            self._ring.flush()
        return []

    def _update(self, new: tuple[Buffer | int, ...]) -> None:
        """Commands for these values, checked. A buffer's memory is the same while it lives."""
        old, mark = self._values, self._device.freed_mark
        if mark is not self._mark:
            self._device.check_alive([*self._keep, *new])
        moved = old is NEVER
        self._values = NEVER
        for place, value in enumerate(new):
            if old is NEVER or old[place] is not value:
                moved = True
                self._fill(place, value)
        if moved or not self._line:
            self._string()
        self._values, self._mark = new, mark
        self._replays += 1
        if self._replays == CHAINED_AT:
            self._join()

    def _fill(self, place: int, value: Buffer | int) -> None:
        """Put a value wherever its Param is. Raises: BadArgument, UseAfterFree."""
        for patch in self._params[place]:
            word = patch.resolve(value)
            self._ready[patch.step] = filled(self._ready[patch.step], patch.number, word)

    def _join(self) -> None:
        """Make runs, once the graph was replayed often. It works without them as well."""
        made: Runs = []
        device, ring, recorder = self._device, self._ring, self._device.recorder
        try:
            with Undo() as undo:
                undo.add(lambda: _drop_runs(made))
                for places in chain.runs(device, self._ready):
                    made.append((places, Chain(device, ring, self._launches(places))))
        except NOT_CHAINED:
            made = []
        taken = {step for places, _ in made for step in places}
        self._runs = made
        if recorder is not None:
            for places in self._recordable(taken, recorder.mutable):
                changing = [step in self._open for step in places]
                launches = self._launches(places)
                try:
                    one = CommandBuffer(device, recorder, ring, launches, changing)
                except NOT_CHAINED:
                    break
                self._runs.append((places, one))
        self._runs.sort(key=lambda run: run[0].start)
        self._string()

    def _recordable(self, taken: set[int], mutable: bool) -> list[range]:
        """Launches in a row, without those that are `taken` or cannot change."""
        found: list[range] = []
        begin = 0
        for step in range(len(self._ready) + 1):
            if step < len(self._ready) and step not in taken:
                fits = mutable or step not in self._open
                if fits and isinstance(self._ready[step], Launch):
                    continue
            if step - begin >= command_buffer.LEAST:
                found.append(range(begin, step))
            begin = step + 1
        return found

    def _launches(self, places: range) -> list[Launch]:
        steps = self._ready[places.start : places.stop]
        return [step for step in steps if isinstance(step, Launch)]

    def _string(self) -> None:
        """The line of commands and runs; commands alone where the runs cannot be had."""
        self._line = list(enumerate(self._ready))
        try:
            self._line = self._strung()
        except NOT_CHAINED:
            _drop_runs(self._runs)
            self._runs = []

    def _strung(self) -> list[tuple[int, Command]]:
        each: list[tuple[int, Command]] = list(enumerate(self._ready))
        line: list[tuple[int, Command]] = []
        at = 0
        for places, run in self._runs:
            run.fill(self._launches(places))
            line += [*each[at : places.start], (places.start, run)]
            at = places.stop
        return [*line, *each[at:]]

    def _drop(self) -> None:
        self._device.drop(self._releases)
        for _, run in self._runs:
            run.drop()
        self._releases, self._runs, self._line, self._ready = [], [], [], []

    def close(self) -> None:
        """Give back its kernel objects. A second close does nothing."""
        with self._device.lock:
            super().close()
            self._drop()

    def __del__(self) -> None:
        self._drop()


def _drop_runs(runs: Runs) -> None:
    for _, run in runs:
        run.drop()

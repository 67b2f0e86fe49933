"""What a graph is on every device: a recording of steps, replayed with values for its Params.

`StepGraph` is a whole graph for any `Commands` that can fill an argument into a step (`Fills`):
each replay runs a list of its own, so that threads and signal handlers may replay one graph at
once. It suits a library that is called for each step, or whose command buffers run once (WebGPU).

A device whose recordings are in memory that its hardware reads, or in command buffers that can be
updated (OpenCL's cl_khr_command_buffer), brings a graph of its own on `Recording`. It changes only
what differs from the last replay, recognises values by identity, and checks what was freed only
where the owner's `freed_mark` is another object than then. It decides how a signal handler replays
what it has interrupted: by a copy made then (`queues/cpu/graph.py`), or with several copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Generic, Protocol

from drivers.base.contracts import Buffer
from drivers.base.errors import BadArgument, UseAfterFree
from queues.builder import Built, Commands, Kept, Patch, Step, Word

NEVER: Final[tuple[Any, ...]] = (object(),)
"""The values of a graph that was not replayed yet: an object that no caller can pass."""


def closed() -> UseAfterFree:
    """The error for a replay of a closed graph."""
    return UseAfterFree("a closed graph was replayed", hint="record it again")


def wrong_count(values: object, params: int) -> BadArgument:
    """The error for values that are not one for each Param."""
    return BadArgument(f"{values!r:.200} for {params} Params", hint="pass one value for each")


class Recording(Generic[Step]):
    """What every graph keeps of what was built.

    All of that must stay alive: a replay that names what was freed since raises UseAfterFree.
    """

    def __init__(self, built: Built[Step]) -> None:
        self._keep: list[Kept] = [*{id(thing): thing for thing in built.keep}.values()]
        count = max((patch.param + 1 for patch in built.patches), default=0)
        self._params: list[list[Patch]] = [[] for _ in range(count)]
        """The places of each Param."""
        for patch in built.patches:
            self._params[patch.param].append(patch)
        self._closed = False

    def _counted(self, values: Sequence[Buffer | int]) -> tuple[Buffer | int, ...]:
        """Raises: UseAfterFree when it is closed; BadArgument for another number of values."""
        if self._closed:
            raise closed()
        if values is None or len(values) != len(self._params):
            raise wrong_count(values, len(self._params))
        return tuple(values)

    def close(self) -> None:
        """Drop what it names. A second close does nothing."""
        self._closed, self._keep = True, []


class Fills(Commands[Step], Protocol[Step]):
    """What `StepGraph` needs in addition."""

    def fill(self, step: Step, number: int, word: Word) -> Step:
        """A step like this one, with argument `number` filled in."""


class StepGraph(Recording[Step]):
    """Steps kept on the host. A replay runs them, with its values filled in."""

    def __init__(self, commands: Fills[Step], built: Built[Step]) -> None:
        super().__init__(built)
        self._commands, self._steps = commands, built.steps

    def replay(self, values: Sequence[Buffer | int] = ()) -> None:
        """Run it; `values[i]` fills `Param(i)`. Raises: BadArgument, UseAfterFree."""
        commands = self._commands
        run = Built(commands.owner, self._steps.copy(), self._keep.copy())
        run.mark = NEVER
        given = self._counted(values)  # after the copies: another thread may be closing it
        run.keep += [value for value in given if not isinstance(value, int)]
        for patches, value in zip(self._params, given, strict=True):
            for patch in patches:
                word = patch.resolve(value)
                run.steps[patch.step] = commands.fill(run.steps[patch.step], patch.number, word)
        commands.run(run)

    def close(self) -> None:
        """Drop its steps. A second close does nothing."""
        super().close()
        self._steps = []

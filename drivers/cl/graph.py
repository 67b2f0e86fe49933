"""Recorded steps: kernel objects of their own with their arguments set, so that a replay only
enqueues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from drivers.base.contracts import Buffer, Param
from drivers.base.errors import CompileError, MalformedInput, OutOfMemory
from drivers.base.undo import Undo
from drivers.cl import commands
from drivers.cl.api import Text
from drivers.cl.chain import Chain, runs
from drivers.cl.program import Kernel
from drivers.cl.ring import Command, Ring
from queues.cl.kernel_code import ENTRY
from queues.cl.steps import Copy, Exec, Step

if TYPE_CHECKING:
    from drivers.cl.device import ClDevice

CHAINED_AT: Final = 4
"""The replay from which on small kernels in a row are one."""
NOT_CHAINED: Final = (CompileError, MalformedInput, OutOfMemory)
"""What a replay without chains does not meet."""


def _places(step: Step) -> tuple[object, ...]:
    """What a step names: buffers, programs, Params."""
    if isinstance(step, Exec):
        return (step.program, *step.args)
    return (step.dst, step.src) if isinstance(step, Copy) else ()


class Prepared:
    """One recording."""

    def __init__(self, device: ClDevice, ring: Ring, steps: Sequence[Step], params: int) -> None:
        self._device, self._ring, self._steps = device, ring, steps
        self._kernels: list[Kernel | None] = []
        self._chains: list[tuple[range, Chain]] = []
        self._line: list[tuple[int, Command]] = []
        """What a replay enqueues, with the step where it begins: commands, and chains in place of
        those that they stand for."""
        self._ready: list[Any] = []
        """A command for each step."""
        self._replays = 0
        self._values: tuple[Any, ...] | None = None
        self._mark: object = None
        named = [(number, _places(step)) for number, step in enumerate(steps)]
        self._open = [n for n, places in named if any(isinstance(p, Param) for p in places)]
        flat = [place for _, places in named for place in places if not isinstance(place, Param)]
        self._fixed: list[Any] = list({id(place): place for place in flat}.values())
        with Undo() as undo:
            undo.add(self._drop)
            for step in steps:
                self._kernels.append(self._kernel(step))

    def _kernel(self, step: Step) -> Kernel | None:
        if not isinstance(step, Exec):
            return None
        api = self._device.api
        program = commands.checked_program(self._device, step.program, len(step.args))
        name = Text((ENTRY + program.name).encode())
        handle = api.make("clCreateKernel", program.program, name.at)
        return Kernel(api, handle, program.nargs + self._device.hidden_args)

    def replay(self, values: Sequence[Buffer | int]) -> None:
        """Run them with these values of the Params. Raises: BadArgument, UseAfterFree, before."""
        device, ring = self._device, self._ring
        with device.lock:
            device.check_open()
            self._update(tuple(values))
            device.begin(ring)
            rest = self._ready if ring.pending else self._started()
            if rest:
                device.push(ring, rest)

    def _started(self) -> list[Any]:
        """Enqueue, and hand over, everything before the first wait that is not met; the rest."""
        try:
            for step, command in self._line:
                if not command():
                    return self._ready[step:]
        finally:
            self._ring.flush()
        return []

    def _update(self, values: tuple[Any, ...]) -> None:
        """Commands for these values, checked. A buffer's memory is the same while it lives."""
        last, mark = self._values, self._device.freed_mark
        self._values = None
        if not self._ready:
            self._ready = [self._command(number, values) for number in range(len(self._steps))]
            self._string()
        elif last is None or mark is not self._mark or any(map(_differ, values, last)):
            for thing in self._fixed:
                _ = thing.gpu_va
            made = [(number, self._command(number, values)) for number in self._open]
            moved = [pair for pair in made if pair[1].blocks != self._ready[pair[0]].blocks]
            for number, command in moved:
                self._ready[number] = command
            if moved or last is None:  # None: the update before failed, maybe halfway
                self._string()
        self._values, self._mark = values, mark
        self._replays += 1
        if self._replays == CHAINED_AT:
            self._chain()

    def _command(self, number: int, values: tuple[Any, ...]) -> Any:
        step, kernel = self._steps[number], self._kernels[number]
        return commands.command(self._device, self._ring, step, values, kernel)

    def _chain(self) -> None:
        """Build chains, once the graph was replayed often. It runs without them as well."""
        made: list[tuple[range, Chain]] = []
        try:
            with Undo() as undo:
                undo.add(lambda: self._drop_chains(made))
                for places in runs(self._device, self._ready):
                    launches = self._ready[places.start : places.stop]
                    made.append((places, Chain(self._device, self._ring, launches)))
        except NOT_CHAINED:
            return
        self._chains = made
        self._string()

    def _string(self) -> None:
        """The line of commands and chains; commands alone where the chains cannot be had."""
        self._line = list(enumerate(self._ready))
        try:
            self._line = self._strung()
        except NOT_CHAINED:
            self._drop_chains(self._chains)
            self._chains = []

    def _strung(self) -> list[tuple[int, Command]]:
        each: list[tuple[int, Command]] = list(enumerate(self._ready))
        line: list[tuple[int, Command]] = []
        at = 0
        for places, chain in self._chains:
            chain.fill(self._ready[places.start : places.stop])
            line += [*each[at : places.start], (places.start, chain)]
            at = places.stop
        return [*line, *each[at:]]

    def _drop_chains(self, chains: Sequence[tuple[range, Chain]]) -> None:
        for _, chain in chains:
            self._device.drop_program(chain.program, chain.kernel.handle)

    def _drop(self) -> None:
        device = self._device
        device.drop_kernels([one.handle for one in self._kernels if one is not None])
        self._drop_chains(self._chains)
        self._kernels, self._chains, self._line, self._ready = [], [], [], []

    def close(self) -> None:
        """Give back its kernel objects."""
        self._drop()

    def __del__(self) -> None:
        self._drop()


def _differ(one: object, other: object) -> bool:
    return one is not other

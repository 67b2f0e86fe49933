"""Recorded steps: kernel objects of their own with their arguments set, so that a replay only
enqueues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from drivers.base.contracts import Buffer
from drivers.base.undo import Undo
from drivers.cl import commands
from drivers.cl.api import Text
from drivers.cl.program import Kernel
from drivers.cl.ring import Ring
from queues.cl.kernel_code import ENTRY
from queues.cl.steps import Exec, Step

if TYPE_CHECKING:
    from drivers.cl.device import ClDevice


class Prepared:
    """One recording."""

    def __init__(self, device: ClDevice, ring: Ring, steps: Sequence[Step], params: int) -> None:
        self._device, self._ring, self._steps, self._params = device, ring, steps, params
        self._kernels: list[Kernel | None] = []
        with Undo() as undo:
            undo.add(self._drop)
            for step in steps:
                self._kernels.append(self._kernel(step))
        self._ready: list[Any] | None = None
        """Commands with every argument set; None before the first replay, and with Params."""
        self._mark: object = None

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
            ready = self._ready
            if ready is None or self._mark is not device.freed_mark:
                ready = self._commands(values)
            if ring.pending:
                device.push(ring, ready)
                return
            for command in ready:
                if not command():
                    break
            else:
                ring.flush()
                return
            device.push(ring, ready[ready.index(command) :])

    def _commands(self, values: Sequence[Any]) -> list[Any]:
        mark = self._device.freed_mark
        ready: list[Any] = [
            commands.command(self._device, self._ring, step, values, kernel)
            for step, kernel in zip(self._steps, self._kernels, strict=True)
        ]
        if not self._params:
            self._ready, self._mark = ready, mark
        return ready

    def _drop(self) -> None:
        self._device.drop_kernels([one.handle for one in self._kernels if one is not None])
        self._kernels = []

    def close(self) -> None:
        """Give back its kernel objects."""
        self._drop()
        self._ready = None

    def __del__(self) -> None:
        self._drop()

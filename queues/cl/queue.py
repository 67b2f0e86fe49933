"""The command queue of an OpenCL device: a builder of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from drivers.base.contracts import Argument, Buffer, Grid, Limits, Param, Program, Signal
from drivers.base.errors import BadArgument, Unsupported, UseAfterFree
from drivers.base.launches import check_param, check_signal_value
from queues.cl.steps import Barrier, Copy, Exec, Mark, Owner, Recorded, Step, Wait


class ClQueue:
    """Every step is checked when it is added; nothing runs before `submit` or `bind`."""

    can_copy = True

    def __init__(self, owner: Owner, ring: Any, limits: Limits, *, can_exec: bool) -> None:
        self._owner, self._ring, self._limits, self.can_exec = owner, ring, limits, can_exec
        self._steps: list[Step] = []
        self._params = 0

    def _add(self, step: Step, places: Sequence[object] = ()) -> Self:
        params = [place for place in places if isinstance(place, Param)]
        for param in params:
            check_param(param)
        self._owner.check(step)
        self._params = max([self._params, *(param.index + 1 for param in params)])
        self._steps.append(step)
        return self

    def wait(self, signal: Signal, value: int) -> Self:
        """Wait until `signal` has reached `value`."""
        check_signal_value(value, self._limits)
        return self._add(Wait(signal, value))

    def signal(self, signal: Signal, value: int) -> Self:
        """Set `signal` to `value`, and its time stamp, when everything before is done."""
        check_signal_value(value, self._limits)
        return self._add(Mark(signal, value))

    def timestamp(self, signal: Signal) -> Self:
        """Write the time into `signal` when everything before is done."""
        return self._add(Mark(signal, None))

    def barrier(self) -> Self:
        """Finish all steps before this one before any later step begins."""
        return self._add(Barrier())

    def exec(
        self,
        program: Program,
        args: Sequence[Argument],
        grid: Grid = (1, 1, 1),
        block: Grid | None = None,
    ) -> Self:
        """Run `program` in `grid` workgroups."""
        if not self.can_exec:
            raise Unsupported("this queue only copies", hint="use compute_queue()")
        return self._add(Exec(program, tuple(args), grid, block), args)

    def copy(self, dst: Buffer | Param, src: Buffer | Param, nbytes: int) -> Self:
        """Copy the first `nbytes` of `src` to the first of `dst`."""
        if type(nbytes) is not int or nbytes < 0:
            raise BadArgument(f"cannot copy {nbytes!r} bytes", hint="pass an int, 0 or more")
        return self._add(Copy(dst, src, nbytes), (dst, src))

    def submit(self) -> None:
        """Run now; from the first unsatisfied wait on, once its signal is there, in order."""
        if self._params:
            raise BadArgument("a queue with open Params", hint="bind() it, then replay(values)")
        steps, self._steps = self._steps, []
        self._owner.run(self._ring, steps)

    def bind(self) -> ClGraph:
        """Freeze what was built into a Graph; the builder is empty afterwards."""
        steps, params = self._steps, self._params
        self._steps, self._params = [], 0
        return ClGraph(self._owner.record(self._ring, steps, params), params)


class ClGraph:
    """Steps recorded once."""

    def __init__(self, recorded: Recorded, params: int) -> None:
        self._recorded: Recorded | None = recorded
        self._params = params

    def replay(self, values: Sequence[Buffer | int] = ()) -> None:
        """Run them; `values[i]` fills `Param(i)`. Raises: BadArgument, UseAfterFree, before."""
        if self._recorded is None:
            raise UseAfterFree("a closed graph was replayed", hint="record it again")
        if values is None or len(values) != self._params:
            raise BadArgument(
                f"{values!r:.200} for {self._params} Params", hint="pass one value for each"
            )
        self._recorded.replay(values)

    def close(self) -> None:
        """Give back what it holds. A second close does nothing."""
        recorded, self._recorded = self._recorded, None
        if recorded is not None:
            recorded.close()

"""The made-up vendor's queues and graphs: packets are checked when they are added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from drivers.base.contracts import Argument, Buffer, Grid, Param, Program, Signal
from drivers.base.errors import BadArgument, Unsupported, UseAfterFree
from drivers.base.launches import check_param, check_signal_value
from drivers.gpu import arguments
from tests.contract.null_vendor.machine import Packet

if TYPE_CHECKING:
    from tests.contract.null_vendor.device import NullDevice

OPEN = object()
Maker = Callable[[Sequence[Any]], Packet]
"""A packet, given the values of the Params; it checks what it names."""


class NullQueue:
    """A builder for one ring."""

    def __init__(self, device: NullDevice, ring: int, can_exec: bool, can_copy: bool) -> None:
        self.device, self.ring = device, ring
        self.can_exec, self.can_copy = can_exec, can_copy
        self._makers: list[Maker] = []
        self._params = 0

    def _add(self, maker: Maker, values: Sequence[object] = ()) -> Self:
        """Check it once now, as far as it is known."""
        params = [value for value in values if isinstance(value, Param)]
        for param in params:
            check_param(param)
        maker(())
        self._params = max([self._params, *(param.index + 1 for param in params)])
        self._makers.append(maker)
        return self

    def wait(self, signal: Signal, value: int) -> Self:
        check_signal_value(value, self.device.limits)
        return self._add(lambda _: ("wait", arguments.signal_va(self.device, signal), value))

    def signal(self, signal: Signal, value: int) -> Self:
        check_signal_value(value, self.device.limits)
        return self._add(lambda _: ("signal", arguments.signal_va(self.device, signal), value))

    def timestamp(self, signal: Signal) -> Self:
        return self._add(lambda _: ("time", arguments.signal_va(self.device, signal)))

    def barrier(self) -> Self:
        return self._add(lambda _: ("barrier",))

    def exec(
        self,
        program: Program,
        args: Sequence[Argument],
        grid: Grid = (1, 1, 1),
        block: Grid | None = None,
    ) -> Self:
        if not self.can_exec:
            raise Unsupported("this queue only copies", hint="use compute_queue()")
        lanes = self.device.check_launch(program, len(args), grid, block)

        def maker(values: Sequence[Any]) -> Packet:
            given = [_given(arg, values) for arg in args]
            words = [0 if arg is OPEN else arguments.word(self.device, arg) for arg in given]
            return ("exec", program.gpu_va, grid, lanes, words)

        return self._add(maker, args)

    def copy(self, dst: Buffer | Param, src: Buffer | Param, nbytes: int) -> Self:
        if not self.can_copy:
            raise Unsupported("this queue only runs kernels", hint="use copy_queue()")
        if type(nbytes) is not int or nbytes < 0:
            raise BadArgument(f"cannot copy {nbytes!r} bytes", hint="pass an int, 0 or more")

        def maker(values: Sequence[Any]) -> Packet:
            given = [_given(side, values) for side in (dst, src)]
            return ("copy", *map(self._end, given, (nbytes, nbytes), (True, False)), nbytes)

        return self._add(maker, (dst, src))

    def _end(self, side: Any, nbytes: int, write: bool) -> int:
        """The address that a copy reads or writes."""
        return 0 if side is OPEN else arguments.copy_va(self.device, side, nbytes, write=write)

    def submit(self) -> None:
        if self._params:
            raise BadArgument("a queue with open Params", hint="bind() it, then replay(values)")
        makers, self._makers = self._makers, []
        self.device.push(self.ring, [maker(()) for maker in makers])

    def bind(self) -> NullGraph:
        makers, params = self._makers, self._params
        self._makers, self._params = [], 0
        return NullGraph(self.device, self.ring, makers, params)


def _given(value: Any, values: Sequence[Any]) -> Any:
    """What a Param stands for; OPEN while there are no values."""
    if not isinstance(value, Param):
        return value
    return values[value.index] if values else OPEN


class NullGraph:
    """Packets that are made again at each replay."""

    def __init__(self, device: NullDevice, ring: int, makers: Sequence[Maker], params: int) -> None:
        self._device, self._ring, self._makers, self._params = device, ring, makers, params
        self._closed = False

    def replay(self, values: Sequence[Buffer | int] = ()) -> None:
        if self._closed:
            raise UseAfterFree("a closed graph was replayed", hint="record it again")
        if len(values) != self._params:
            raise BadArgument(f"{len(values)} values", hint=f"pass {self._params}")
        self._device.push(self._ring, [maker(values) for maker in self._makers])

    def close(self) -> None:
        self._closed, self._makers = True, ()

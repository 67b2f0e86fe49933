"""The CPU's command queue: a builder of packets, which submits or records them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self, TypeAlias

from drivers.base.contracts import Argument, Buffer, Grid, Param, Program, Signal
from drivers.base.errors import BadArgument, Unsupported
from drivers.base.launches import check_param
from queues.cpu import packets
from queues.cpu.graph import CpuGraph, Patch
from queues.cpu_contracts import Owner, Ring

Resolve: TypeAlias = Callable[[Buffer | int], int]


class CpuQueue:
    """Collects packets; nothing runs before `submit` or `bind`.

    Every argument is checked when it is added, so that a submitted list is valid.
    """

    can_copy = True

    def __init__(self, owner: Owner, ring: Ring) -> None:
        self._owner, self._ring, self.can_exec = owner, ring, ring.can_exec
        self._reset()

    def _reset(self) -> None:
        self._words: list[int] = []
        self._keep: list[Buffer | Program | Signal] = []
        self._patches: list[Patch] = []
        self._mark = self._owner.freed_mark

    def wait(self, signal: Signal, value: int) -> Self:
        """Wait until `signal` has reached `value`."""
        va = self._owner.signal_word(signal)
        self._words += packets.wait_packet(signal=va, value=_uint64(value))
        self._keep.append(signal)
        return self

    def signal(self, signal: Signal, value: int) -> Self:
        """Set `signal` to `value`, and its time stamp, when everything before is done."""
        va = self._owner.signal_word(signal)
        self._words += packets.signal_packet(signal=va, value=_uint64(value))
        self._keep.append(signal)
        return self

    def timestamp(self, signal: Signal) -> Self:
        """Write the time into `signal` when everything before is done."""
        self._words += packets.timestamp_packet(signal=self._owner.signal_word(signal))
        self._keep.append(signal)
        return self

    def barrier(self) -> Self:
        """Finish all packets before this one before any later packet begins."""
        self._words += packets.barrier_packet()
        return self

    def exec(
        self,
        program: Program,
        args: Sequence[Argument],
        grid: Grid = (1, 1, 1),
        block: Grid | None = None,
    ) -> Self:
        """Run `program` over grid[0] work items; the CPU has no second dimension and no lanes."""
        if not self.can_exec:
            raise Unsupported(f"{self._ring.name} only copies", hint="use compute_queue()")
        entry, chunk = self._owner.program_words(program, len(args), grid, block)
        resolve = self._owner.argument_word
        words = self._arguments(packets.EXEC_ARGS_WORD, [(arg, resolve) for arg in args])
        self._words += packets.exec_packet(entry=entry, grid=grid[0], chunk=chunk, args=words)
        self._keep.append(program)
        return self

    def copy(self, dst: Buffer | Param, src: Buffer | Param, nbytes: int) -> Self:
        """Copy the first `nbytes` of `src` to the first of `dst`."""
        if type(nbytes) is not int or nbytes < 0:
            raise BadArgument(f"cannot copy {nbytes!r} bytes", hint="pass an int, 0 or more")
        sides = [(dst, self._side(nbytes, True)), (src, self._side(nbytes, False))]
        dst_va, src_va = self._arguments(packets.COPY_DST_WORD, sides)
        self._words += packets.copy_packet(dst=dst_va, src=src_va, nbytes=nbytes)
        return self

    def _side(self, nbytes: int, write: bool) -> Resolve:
        """The check of one side of a copy, now or when a graph is replayed."""
        copy_word = self._owner.copy_word

        def resolve(value: Buffer | int) -> int:
            if isinstance(value, int):
                raise BadArgument(f"{value} is no buffer to copy", hint="pass a Buffer")
            return copy_word(value, nbytes, write=write)

        return resolve

    def _arguments(self, first: int, values: Sequence[tuple[Argument, Resolve]]) -> list[int]:
        """The words from word `first` of the next packet on; 0 and a patch for each Param.

        A refused packet leaves no patches.
        """
        words: list[int] = []
        keep: list[Buffer | Program | Signal] = []
        patches: list[Patch] = []
        for at, (value, resolve) in enumerate(values, len(self._words) + first):
            if isinstance(value, Param):
                check_param(value)
                patches.append(Patch(value.index, at, resolve))
                words.append(0)
                continue
            words.append(resolve(value))
            if not isinstance(value, int):
                keep.append(value)
        self._keep += keep
        self._patches += patches
        return words

    def submit(self) -> None:
        """Run now; from the first unsatisfied WAIT on, in the background, in order.

        Raises: BadArgument; UseAfterFree when something it names was freed since.
        """
        if self._patches:
            raise BadArgument(
                "a queue with open Params cannot be submitted",
                hint="bind() it and give the values to replay()",
            )
        words, keep, mark, ring = self._words, self._keep, self._mark, self._ring
        self._reset()
        if words:
            with ring.lock:
                outer, ring.depth = ring.depth, ring.depth + 1
                try:
                    ring.turn += not outer
                    if self._owner.freed_mark is not mark:
                        self._owner.check_alive(keep)
                    follow = ring.submit(words, keep)
                finally:
                    ring.depth = outer
            if follow is not None:
                follow()

    def bind(self) -> CpuGraph:
        """Freeze what was built into a Graph; the builder is empty afterwards."""
        words, keep, patches = self._words, self._keep, self._patches
        self._reset()
        return CpuGraph(self._owner, self._ring, words, keep, patches)


def _uint64(value: object) -> int:
    if type(value) is not int or not 0 <= value <= packets.MAX_WORD:
        raise BadArgument(f"{value!r} is no 64-bit signal value", hint="pass 0 ... 2**64 - 1")
    return value

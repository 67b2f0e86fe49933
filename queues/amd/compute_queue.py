"""AMD's compute queue: a builder of launches and PM4 words for a ring of either format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from drivers.base.contracts import Argument, Buffer, Grid, Param, Program, Signal
from drivers.base.errors import BadArgument, Unsupported
from drivers.base.launches import check_param
from queues.amd import words as amd_words
from queues.amd.contracts import ComputeOwner, Item
from queues.amd.graph import AmdGraph, Patch


class AmdComputeQueue:
    """Collects steps; nothing runs before `submit` or `bind`.

    Every argument is checked when it is added, so that a submitted list is valid.
    """

    can_exec, can_copy = True, False

    def __init__(self, owner: ComputeOwner) -> None:
        self._owner = owner
        self._reset()

    def _reset(self) -> None:
        self._items: list[Item] = []
        self._keep: list[Buffer | Program | Signal] = []
        self._patches: list[Patch] = []
        self._mark = self._owner.freed_mark

    def _words(self, words: list[int]) -> Self:
        self._items.append(Item(words))
        return self

    def wait(self, signal: Signal, value: int) -> Self:
        """Wait until `signal` has reached `value`; later steps see what was written before that."""
        va, owner = self._owner.signal_word(signal), self._owner
        self._keep.append(signal)
        return self._words(amd_words.wait(owner.target, va=va, value=owner.signal_value(value)))

    def signal(self, signal: Signal, value: int) -> Self:
        """Set `signal` to `value`, and its time, when everything before is done and visible."""
        va, owner = self._owner.signal_word(signal), self._owner
        self._keep.append(signal)
        return self._words(
            amd_words.signal(
                owner.target,
                va=va,
                value=owner.signal_value(value),
                mailbox_va=owner.mailbox_va,
                event_id=owner.event_id,
            )
        )

    def timestamp(self, signal: Signal) -> Self:
        """Write the time into `signal` when everything before is done."""
        va = self._owner.signal_word(signal)
        self._keep.append(signal)
        return self._words(amd_words.timestamp(self._owner.target, va=va))

    def barrier(self) -> Self:
        """Finish all steps before this one before any later step begins."""
        return self._words(amd_words.barrier(self._owner.target))

    def exec(
        self,
        program: Program,
        args: Sequence[Argument],
        grid: Grid = (1, 1, 1),
        block: Grid | None = None,
    ) -> Self:
        """Run `program` over `grid` workgroups of `block` work-items; None: its own block."""
        values: list[int] = []
        keep: list[Buffer | Program | Signal] = [program]
        patches: list[Patch] = []
        for number, arg in enumerate(args):
            if isinstance(arg, Param):
                patches.append(self._open(arg, number))
                values.append(0)
                continue
            values.append(self._owner.argument_word(arg))
            if not isinstance(arg, int):
                keep.append(arg)
        item = self._owner.launch_item(program, values, grid, block)
        self._items.append(item)
        self._keep += keep
        self._patches += patches
        return self

    def _open(self, param: Param, number: int) -> Patch:
        check_param(param)
        return Patch(param.index, len(self._items), number)

    def copy(self, dst: Buffer | Param, src: Buffer | Param, nbytes: int) -> Self:
        """Raises Unsupported: copies have engines of their own."""
        raise Unsupported(
            "a compute queue runs kernels and does not copy",
            hint="use copy_queue(), and a signal that the other queue waits for",
        )

    def submit(self) -> None:
        """Run now, in order. Raises: BadArgument; UseAfterFree when something was freed since."""
        if self._patches:
            raise BadArgument(
                "a queue with open Params cannot be submitted",
                hint="bind() it and give the values to replay()",
            )
        items, keep, mark = self._items, self._keep, self._mark
        self._reset()
        if items:
            self._owner.run(items, lambda: self._check(keep, mark))

    def _check(self, keep: Sequence[object], mark: object) -> None:
        if self._owner.freed_mark is not mark:
            self._owner.check_alive(keep)

    def bind(self) -> AmdGraph:
        """Freeze what was built into a Graph; the builder is empty afterwards."""
        items, keep, patches = self._items, self._keep, self._patches
        self._reset()
        return AmdGraph(self._owner, items, keep, patches)

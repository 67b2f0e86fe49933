"""What a command queue is on every device: a builder of steps that are checked when added.

A device brings one object with its `Commands`: how it encodes a wait, a signal, a time stamp and a
barrier as a step, what runs a list of steps, and what binds one. Where the queue takes kernels it
brings `Kernels`, where it copies `Copies`; the same object may be all three. What a step is, is its
own: words, a packet, a launch with its arguments, a call of a library. It may check more when the
steps are run, and does so before the first one begins.

    class ListQueue(Builder[Call]):
        def __init__(self, device: ListDevice) -> None:
            commands = ListCommands(device)
            super().__init__(commands, kernels=commands, copies=commands)

`queues/graph.py` has the graphs. Examples: `queues/cpu/queue.py` (one ring for all),
`tests/contract/null_vendor/queue.py` (the smallest).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import (
    Any,
    Generic,
    NamedTuple,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    runtime_checkable,
)

from drivers.base.contracts import Argument, Buffer, Graph, Grid, Param, Program, Signal
from drivers.base.errors import BadArgument, Unsupported
from drivers.base.launches import check_param

Step = TypeVar("Step")
Step_co = TypeVar("Step_co", covariant=True)
Kept: TypeAlias = Buffer | Program | Signal
Word: TypeAlias = Any
"""What a step has of a value: the 64-bit word where kernels are given addresses, a handle where a
library wants handles; 0 while the argument is open."""
Resolve: TypeAlias = Callable[[Buffer | int], Word]
"""From a value to its word. Raises: BadArgument, UseAfterFree."""


class Owner(Protocol):
    """The device, as far as every queue and graph needs it."""

    freed_mark: object
    """Replaced by another object whenever anything of this device is freed or closed."""

    def check_alive(self, things: Sequence[object]) -> None:
        """Raises: UseAfterFree when one of the buffers, programs or signals is gone."""


class Patch(NamedTuple):
    """Argument `number` of step `step` is `resolve(values[param])`.

    Of a copy, the destination is argument 0 and the source argument 1.
    """

    param: int
    step: int
    number: int
    resolve: Resolve


class Built(Generic[Step]):
    """A list of steps, what it names, and the arguments that are still open in it."""

    __slots__ = ("keep", "mark", "owner", "patches", "steps")

    def __init__(self, owner: Owner, steps: list[Step], keep: list[Kept]) -> None:
        self.owner, self.steps, self.keep = owner, steps, keep
        self.patches: list[Patch] = []
        self.mark = owner.freed_mark
        """The owner's when it was begun, before anything was named; another object: look always."""

    def check(self) -> None:
        """With the lock of what runs it held: that nothing it names was freed since it was begun.

        Raises: UseAfterFree.
        """
        if self.owner.freed_mark is not self.mark:
            self.owner.check_alive(self.keep)


class Commands(Protocol[Step]):
    """What a device brings for any queue. Steps are made here, checked; nothing is run yet."""

    @property
    def name(self) -> str:
        """Of the queue in errors: "`name` only copies"."""

    @property
    def owner(self) -> Owner:
        """The device."""

    def wait(self, signal: Signal, value: int) -> Step:
        """Raises: BadArgument for a signal or value that is not its own; UseAfterFree."""

    def signal(self, signal: Signal, value: int) -> Step:
        """The same."""

    def timestamp(self, signal: Signal) -> Step:
        """The same."""

    def barrier(self) -> Step:
        """Finishes the steps before it first."""

    def run(self, built: Built[Step]) -> None:
        """Run the steps in order, after `built.check()` with the lock held that runs hold."""

    def bind(self, built: Built[Step]) -> Graph:
        """A graph: `queues.graph.StepGraph`, or one with memory of its own."""


class Kernels(Protocol[Step_co]):
    """What a queue needs in addition to run kernels."""

    def argument_word(self, value: Buffer | int) -> Word:
        """Of a kernel argument. Raises: BadArgument, UseAfterFree."""

    def launch(
        self, program: Program, words: Sequence[Word], grid: Grid, block: Grid | None
    ) -> Step_co:
        """A launch, its program, sizes and number of arguments checked.

        Raises: BadArgument, UseAfterFree.
        """


@runtime_checkable
class SharedKernels(Protocol[Step_co]):
    """What a queue needs in addition where shared memory may be added at launch."""

    def launch_shared(
        self,
        program: Program,
        words: Sequence[Word],
        grid: Grid,
        block: Grid | None,
        shared_bytes: int,
    ) -> Step_co:
        """A launch with so much shared memory, above 0, beside what the kernel declares.

        Raises: BadArgument, UseAfterFree.
        """


class Copies(Protocol[Step_co]):
    """What a queue needs in addition to copy."""

    def copy_word(self, value: Buffer, nbytes: int, *, write: bool) -> Word:
        """Of a buffer that `nbytes` are copied to (`write`) or from.

        Raises: BadArgument, UseAfterFree.
        """

    def copy(self, dst: Word, src: Word, nbytes: int) -> Step_co:
        """A copy between two of these."""


class Builder(Generic[Step]):
    """A command queue. Collects steps; nothing runs before `submit` or `bind`.

    Every argument is checked when it is added, so that a submitted list is valid. A step that is
    refused leaves nothing behind.
    """

    def __init__(
        self,
        commands: Commands[Step],
        *,
        kernels: Kernels[Step] | None = None,
        copies: Copies[Step] | None = None,
    ) -> None:
        self._commands, self._kernels, self._copies = commands, kernels, copies
        self.can_exec, self.can_copy = kernels is not None, copies is not None
        self._built: Built[Step] = Built(commands.owner, [], [])

    def wait(self, signal: Signal, value: int) -> Self:
        """Wait until `signal` has reached `value`; later steps see what was written before that."""
        return self._add(self._commands.wait(signal, value), [signal])

    def signal(self, signal: Signal, value: int) -> Self:
        """Set `signal` to `value`, and its time, when everything before is done and visible."""
        return self._add(self._commands.signal(signal, value), [signal])

    def timestamp(self, signal: Signal) -> Self:
        """Write the time into `signal` when everything before is done."""
        return self._add(self._commands.timestamp(signal), [signal])

    def barrier(self) -> Self:
        """Finish all steps before this one before any later step begins."""
        return self._add(self._commands.barrier())

    def exec(
        self,
        program: Program,
        args: Sequence[Argument],
        grid: Grid = (1, 1, 1),
        block: Grid | None = None,
        *,
        shared_bytes: int = 0,
    ) -> Self:
        """Run `program` over `grid` workgroups of `block` lanes; None: its own block.

        `shared_bytes`: of shared memory beside what the kernel declares.
        """
        kernels = self._kernels
        if kernels is None:
            raise Unsupported(f"{self._commands.name} only copies", hint="use compute_queue()")
        if type(shared_bytes) is not int or shared_bytes < 0:
            raise BadArgument(
                f"{shared_bytes!r:.40} bytes of shared memory", hint="pass an int, 0 or more"
            )
        words, keep, patches = self._arguments(args, repeat(kernels.argument_word))
        if not shared_bytes:
            step = kernels.launch(program, words, grid, block)
        elif isinstance(kernels, SharedKernels):
            step = kernels.launch_shared(program, words, grid, block, shared_bytes)
        else:
            raise Unsupported(
                f"kernels of {program!r:.80} declare all their shared memory: no launch adds to it",
                hint="declare the size in the kernel's source",
            )
        return self._add(step, [program, *keep], patches)

    def copy(self, dst: Buffer | Param, src: Buffer | Param, nbytes: int) -> Self:
        """Copy the first `nbytes` of `src` to the first of `dst`."""
        copies = self._copies
        if copies is None:
            raise Unsupported(
                f"{self._commands.name} runs kernels and does not copy",
                hint="use copy_queue(), and a signal that the other queue waits for",
            )
        if type(nbytes) is not int or nbytes < 0:
            raise BadArgument(f"cannot copy {nbytes!r} bytes", hint="pass an int, 0 or more")
        checks = partial(_side, copies, nbytes, True), partial(_side, copies, nbytes, False)
        (dst_va, src_va), keep, patches = self._arguments((dst, src), checks)
        return self._add(copies.copy(dst_va, src_va, nbytes), keep, patches)

    def _arguments(
        self, values: Iterable[Argument], resolves: Iterable[Resolve]
    ) -> tuple[list[Word], list[Kept], list[Patch]]:
        """Their words, what they name, and the open ones: 0 and a patch for each Param."""
        words: list[Word] = []
        keep: list[Kept] = []
        patches: list[Patch] = []
        step = len(self._built.steps)
        for number, (value, resolve) in enumerate(zip(values, resolves, strict=False)):
            if isinstance(value, Param):
                check_param(value)
                patches.append(Patch(value.index, step, number, resolve))
                words.append(0)
                continue
            words.append(resolve(value))
            if not isinstance(value, int):
                keep.append(value)
        return words, keep, patches

    def _add(self, step: Step, keep: Iterable[Kept] = (), patches: Iterable[Patch] = ()) -> Self:
        built = self._built
        built.steps.append(step)
        built.keep += keep
        built.patches += patches
        return self

    def _taken(self) -> Built[Step]:
        """What was built; the builder is empty afterwards."""
        built, self._built = self._built, Built(self._commands.owner, [], [])
        return built

    def submit(self) -> None:
        """Run now, in order. Raises: BadArgument; UseAfterFree when something was freed since."""
        if self._built.patches:
            raise BadArgument(
                "a queue with open Params cannot be submitted",
                hint="bind() it and give the values to replay()",
            )
        built = self._taken()
        if built.steps:
            self._commands.run(built)

    def bind(self) -> Graph:
        """Freeze what was built into a Graph; the builder is empty afterwards."""
        return self._commands.bind(self._taken())


def _side(copies: Copies[object], nbytes: int, write: bool, value: Buffer | int) -> Word:
    """The word of one side of a copy, now or when a graph is replayed."""
    if isinstance(value, int):
        raise BadArgument(f"{value} is not a buffer to copy", hint="pass a Buffer")
    return copies.copy_word(value, nbytes, write=write)

"""AMD's copy queue: a builder of SDMA packets, and its recordings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from drivers.base.contracts import Argument, Buffer, Grid, Param, Program, Signal
from drivers.base.errors import BadArgument, Unsupported, UseAfterFree
from drivers.base.launches import check_param
from queues.amd import sdma
from queues.amd.contracts import CopyOwner
from queues.amd.pm4_launch import WORD_BYTES, Packer, Words
from queues.amd.sdma import Engine

TIME_OFF = 8
"""Offset of a signal's time from its value."""


def copy_packets(engine: Engine, *, dst: int, src: int, nbytes: int) -> Iterator[list[int]]:
    """As many packets as the engine needs for `nbytes`."""
    for at in range(0, nbytes, engine.copy_max_bytes):
        count = min(nbytes - at, engine.copy_max_bytes)
        yield sdma.copy_linear(engine, dst_addr=dst + at, src_addr=src + at, count=count)


def zero_packets(engine: Engine, *, dst: int, nbytes: int) -> Iterator[list[int]]:
    """The same for zeroing whole words."""
    most = engine.fill_max_bytes & -WORD_BYTES
    for at in range(0, nbytes, most):
        count = min(nbytes - at, most)
        yield sdma.const_fill(engine, dst_addr=dst + at, src_data=0, count=count)


class ReadyCopy:
    """One copy, then the progress and an interrupt, built once: only numbers are patched.

    `packer.pack_into(memory, at, *values(...))` writes it.
    """

    __slots__ = ("_slots", "_template", "nbytes", "packer")

    def __init__(self, engine: Engine, progress_va: int, interrupt: Sequence[int]) -> None:
        made = Words()
        form = engine.layout("COPY_LINEAR")
        places = [("count", 1), ("src_addr", 2), ("dst_addr", 2)]
        copy = sdma.copy_linear(engine, dst_addr=0, src_addr=0, count=1)
        made.add(copy, [(name, form.word(name), words) for name, words in places])
        fence = sdma.fence(engine, addr=progress_va, data=0)
        made.add(fence, [("progress", engine.layout("FENCE").word("data"), 1)])
        made.add(interrupt)
        self.packer = Packer(made)
        self.nbytes, self._template = self.packer.nbytes, self.packer.template
        self._slots = [self.packer.slots[name] for name, _ in (*places, ("progress", 1))]

    def values(self, *, dst: int, src: int, nbytes: int, progress: int) -> list[bytes | int]:
        """What is packed for a copy of at most the engine's `copy_max_bytes`."""
        values = self._template.copy()
        count_at, src_at, dst_at, progress_at = self._slots
        values[count_at] = nbytes - 1  # as the field stores it
        values[src_at], values[dst_at], values[progress_at] = src, dst, progress
        return values


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy with a Param as its source or destination."""

    dst: Buffer | Param
    src: Buffer | Param
    nbytes: int


class AmdCopyQueue:
    """Collects packets; nothing runs before `submit` or `bind`."""

    can_exec, can_copy = False, True

    def __init__(self, owner: CopyOwner) -> None:
        self._owner = owner
        self._reset()

    def _reset(self) -> None:
        self._packets: list[list[int] | Copy] = []
        self._keep: list[Buffer | Signal] = []
        self._mark = self._owner.freed_mark

    def wait(self, signal: Signal, value: int) -> Self:
        """Wait until `signal` has reached `value`."""
        va, owner = self._owner.signal_word(signal), self._owner
        self._packets.append(sdma.poll_mem(owner.engine, addr=va, value=owner.signal_value(value)))
        self._keep.append(signal)
        return self

    def signal(self, signal: Signal, value: int) -> Self:
        """Set `signal` to `value`, and its time, when everything before is done."""
        va, owner = self._owner.signal_word(signal), self._owner
        data = owner.signal_value(value)
        self.timestamp(signal)
        self._packets += [
            sdma.fence(owner.engine, addr=va, data=data),
            sdma.fence(owner.engine, addr=owner.mailbox_va, data=owner.event_id),
            sdma.trap(int_context=owner.event_id),
        ]
        return self

    def timestamp(self, signal: Signal) -> Self:
        """Write the time into `signal` when everything before is done."""
        va = self._owner.signal_word(signal)
        self._packets.append(sdma.timestamp(self._owner.engine, addr=va + TIME_OFF))
        self._keep.append(signal)
        return self

    def barrier(self) -> Self:
        """A NOP: an SDMA ring runs its packets in order."""
        self._packets.append(sdma.nop())
        return self

    def exec(
        self,
        program: Program,
        args: Sequence[Argument],
        grid: Grid = (1, 1, 1),
        block: Grid | None = None,
    ) -> Self:
        """Raises Unsupported: copy engines run no kernels."""
        raise Unsupported(
            f"{self._owner.name}'s copy queue only copies", hint="use compute_queue()"
        )

    def copy(self, dst: Buffer | Param, src: Buffer | Param, nbytes: int) -> Self:
        """Copy the first `nbytes` of `src` to the first of `dst`."""
        if type(nbytes) is not int or nbytes < 0:
            raise BadArgument(f"cannot copy {nbytes!r} bytes", hint="pass an int, 0 or more")
        for side in (dst, src):
            if isinstance(side, Param):
                check_param(side)
        made = Copy(dst, src, nbytes)
        if isinstance(dst, Param) or isinstance(src, Param):
            self._packets.append(made)
        else:
            self._packets += _packets(self._owner, made, ())
        self._keep += [side for side in (dst, src) if not isinstance(side, Param)]
        return self

    def submit(self) -> None:
        """Run now, in order. Raises: BadArgument; UseAfterFree when something was freed since."""
        packets, keep, mark, owner = self._packets, self._keep, self._mark, self._owner
        ready = [packet for packet in packets if not isinstance(packet, Copy)]
        if len(ready) != len(packets):
            raise BadArgument(
                "a queue with open Params cannot be submitted",
                hint="bind() it and give the values to replay()",
            )
        self._reset()

        def check() -> None:
            if owner.freed_mark is not mark:
                owner.check_alive(keep)

        if ready:
            owner.run_copies(ready, check)

    def bind(self) -> AmdCopyGraph:
        """Freeze what was built into a Graph; the builder is empty afterwards."""
        packets, keep = self._packets, self._keep
        self._reset()
        return AmdCopyGraph(self._owner, packets, keep)


def _packets(owner: CopyOwner, copy: Copy, values: Sequence[Buffer | int]) -> list[list[int]]:
    """The packets of a copy, its sides checked. Raises: BadArgument, UseAfterFree."""
    sides = []
    for side, write in ((copy.dst, True), (copy.src, False)):
        buffer = values[side.index] if isinstance(side, Param) else side
        if isinstance(buffer, int):
            raise BadArgument(f"{buffer} is no buffer to copy", hint="pass a Buffer")
        sides.append(owner.copy_word(buffer, copy.nbytes, write=write))
    return [*copy_packets(owner.engine, dst=sides[0], src=sides[1], nbytes=copy.nbytes)]


class AmdCopyGraph:
    """Packets kept ready. A replay writes them to the ring, with its copies that take a Param.

    KFD's SDMA queues take indirect buffers, but a copy is a few words, so there is nothing to gain.
    """

    def __init__(
        self, owner: CopyOwner, packets: Sequence[list[int] | Copy], keep: Sequence[Buffer | Signal]
    ) -> None:
        self._owner, self._packets, self._keep = owner, packets, keep
        sides = [side for p in packets if isinstance(p, Copy) for side in (p.dst, p.src)]
        self._params = max((s.index + 1 for s in sides if isinstance(s, Param)), default=0)
        self._closed = False

    def replay(self, values: Sequence[Buffer | int] = ()) -> None:
        """Run it; `values[i]` fills `Param(i)`. Raises: BadArgument, UseAfterFree."""
        if self._closed:
            raise UseAfterFree("a closed graph was replayed", hint="record it again")
        if len(values) != self._params:
            raise BadArgument(
                f"{values!r:.200} for {self._params} Params", hint="pass one value for each"
            )
        ready: list[list[int]] = []
        for packet in self._packets:
            if isinstance(packet, Copy):
                ready += _packets(self._owner, packet, values)
            else:
                ready.append(packet)
        self._owner.run_copies(ready, lambda: self._owner.check_alive([*self._keep, *values]))

    def close(self) -> None:
        """Drop its packets. A second close does nothing."""
        self._closed, self._packets, self._keep = True, (), ()

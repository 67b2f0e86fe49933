"""Record what a world does, and play it back strictly: the same operations, in the same order.

The clock is recorded, so that waits poll equally often. Memory that a replayed driver writes
differently is a difference, and the replay continues; a different operation ends it. Machine code
cannot be played back: `function` is refused. One thread at a time: the order of several threads
is not the driver's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from threading import RLock
from typing import Any, Final

from drivers.base.contracts import World
from drivers.base.errors import DeviceError, MalformedInput
from drivers.world.identifiers import Identifiers, NoIdentifiers
from drivers.world.own_addresses import Own
from drivers.world.recording import USB_MEMORY, Change, Entry, describe
from drivers.world.recording_text import read
from drivers.world.scrub import Scrubber
from drivers.world.taped import Tape, TapedWorld

_GIVES_WORK: Final = frozenset({"ioctl", "write32", "write64", "write_bytes"})
"""Operations before which the machine gets all memory that the driver wrote."""
_CLOCK_DIGITS: Final = 7
MOST_PARAMS: Final = 16 << 10
"""Bytes of an ioctl's parameters in which addresses are looked for."""
MOST_DIFFERENCES: Final = 1000
"""Most differences kept as text; the others are counted."""
_SHOWN_CHARS: Final = 64


class ReplayMismatch(DeviceError):
    """The program asked for another operation than the recording holds at `position`."""

    def __init__(self, position: int, expected: str, actual: str) -> None:
        self.position, self.expected, self.actual = position, expected, actual
        super().__init__(
            f"operation {position} is {actual[:200]}, the recording has {expected[:200]}",
            hint="the driver changed: record again on the hardware, or find out why",
        )


def _nothing() -> None:
    """The default for recordings, which play nothing back."""


class _Recorder(Tape):
    def __init__(self, write_line: Callable[[str], object]) -> None:
        super().__init__()
        self.write_line = write_line
        self.count = 0
        self._lock = RLock()

    @property
    def where(self) -> str:
        return f"operation {self.count}"

    def run(
        self, op: str, args: list[Any], call: Callable[[], Any],
        play: Callable[[], object] = _nothing, *, sent: tuple[Change, ...] = (),
    ) -> Any:  # fmt: skip
        with self._lock:
            wrote = self.memories.driver_wrote(wide=op in _GIVES_WORK) + sent
            result, error = None, None
            try:
                result = call()
            except DeviceError as caught:
                what = " ".join([op, *map(str, args)])
                error = describe(caught, what[:200])
                raise
            finally:
                became = self.memories.machine_wrote(wide=op == "ioctl")
                self.write_line(Entry(op, args, result, error, wrote, became).line())
                self.count += 1
        return result


class _Player(Tape):
    def __init__(self, entries: Iterator[Entry]) -> None:
        super().__init__()
        self._entries, self.position = entries, 0
        self.differences: list[str] = []
        self.differ = 0
        self.stopped: ReplayMismatch | MalformedInput | None = None
        """Why the replay cannot go on."""

    @property
    def where(self) -> str:
        return f"recording, operation {self.position - 1}"

    def run(
        self, op: str, args: list[Any], call: Callable[[], Any],
        play: Callable[[], object] = _nothing, *, sent: tuple[Change, ...] = (),
    ) -> Any:  # fmt: skip
        if self.stopped is not None:
            raise _again(self.stopped)
        at = self.position
        entry = self.next_entry()
        if entry is None or entry.op != op or entry.args != args:
            expected = f"{entry.op} {entry.args}" if entry is not None else "nothing more"
            self.stopped = ReplayMismatch(at, expected, f"{op} {args}")
            raise _again(self.stopped)
        self.position += 1
        wrote = self.memories.driver_wrote(wide=op in _GIVES_WORK) + sent
        if wrote != entry.wrote:
            self._note(at, op, dict(_by_place(entry.wrote)), dict(_by_place(wrote)))
        failure = entry.failure()
        if failure is None:
            play()
        try:
            self.memories.become(entry.became, self.where)
        except MalformedInput as error:
            self.stopped = error
            raise _again(error) from error
        if failure is not None:
            raise failure
        return entry.result

    def next_entry(self) -> Entry | None:
        """The next line, read now; None behind the last. Raises: MalformedInput."""
        try:
            return next(self._entries, None)
        except MalformedInput as error:
            self.stopped = error
            raise _again(error) from error

    def _note(self, at: int, op: str, then: dict[tuple[int, int], str],
              now: dict[tuple[int, int], str]) -> None:  # fmt: skip
        """What the driver wrote differently before an operation."""
        for place in sorted({*then, *now}):
            before, after = then.get(place, "nothing"), now.get(place, "nothing")
            if before == after:
                continue
            self.differ += 1
            if self.differ <= MOST_DIFFERENCES:
                self.differences.append(
                    f"before operation {at} ({op}): {_named(*place)} is written "
                    f"{_around(after, before)}, the recording has {_around(before, after)}"
                )


def _again(stopped: ReplayMismatch | MalformedInput) -> DeviceError:
    """What stopped a replay, to be raised once more: callers add to an error's text."""
    if isinstance(stopped, ReplayMismatch):
        return ReplayMismatch(stopped.position, stopped.expected, stopped.actual)
    return MalformedInput(stopped.message, hint=stopped.hint)


def _named(memory: int, off: int) -> str:
    """Where the driver wrote."""
    if memory >= USB_MEMORY:
        return f"transfer {off} of USB device {memory - USB_MEMORY}"
    return f"memory {memory} at {off:#x}"


def _by_place(changes: tuple[Change, ...]) -> list[tuple[tuple[int, int], str]]:
    return [((memory, off), text) for memory, off, text in changes]


def _around(text: str, other: str) -> str:
    """The part of a text where it differs from the other one."""
    pairs = zip(text, other, strict=False)
    first = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(text), len(other)))
    start = max(0, first - first % 8 - 8)
    shown = text[start : start + _SHOWN_CHARS]
    return f"{'...' if start else ''}{shown}{'...' if len(text) > start + len(shown) else ''}"


class RecordingWorld(TapedWorld):
    """Runs everything on `inner` and writes one line for each operation.

    The driver sees what is on the tape: `scrubber` removes serial numbers from files that it reads,
    `identifiers` from its ioctls.
    """

    def __init__(
        self, inner: World, write_line: Callable[[str], object],
        scrubber: Scrubber | None = None, identifiers: Identifiers | None = None,
    ) -> None:  # fmt: skip
        self._recorder = _Recorder(write_line)
        super().__init__(self._recorder, inner)
        self.name = f"recorded {inner.name}"
        self._scrubber = scrubber or Scrubber()
        self._identifiers = identifiers or NoIdentifiers()
        self._own = Own(self._recorder.memories)
        self._begun_s = inner.monotonic_s()

    @property
    def count(self) -> int:
        """Operations so far."""
        return self._recorder.count

    def _read(self, path: str, limit_bytes: int) -> bytes:
        return self._scrubber.file(path, super()._read(path, limit_bytes))

    def _ioctl(self, fd: int, request: int, argument: bytearray | int) -> int:
        if isinstance(argument, int):
            return super()._ioctl(fd, request, argument)
        known = self._identifiers
        params = self._own.params(known.params(request, argument))
        known.reveal(request, argument, params)
        try:
            with self._own.in_place(argument, params[:MOST_PARAMS]):
                return super()._ioctl(fd, request, argument)
        finally:
            known.hide(request, argument, params)

    def _now_s(self) -> float:
        """Since the recording began."""
        return round(super()._now_s() - self._begun_s, _CLOCK_DIGITS)


class ReplayWorld(TapedWorld):
    """A recording, whole or line by line, as a world.

    A line is read by the operation that it stands for. Raises: MalformedInput, from each operation
    too, when it is not one.
    """

    def __init__(self, recording: bytes | Iterable[bytes]) -> None:
        lines = BytesIO(recording) if isinstance(recording, bytes) else recording
        self.header, entries = read(lines)
        self._player = _Player(entries)
        super().__init__(self._player, None)
        self.name = "replay"

    @property
    def count(self) -> int:
        """Operations played so far."""
        return self._player.position

    @property
    def differences(self) -> list[str]:
        """What the driver did differently from the recording; the first MOST_DIFFERENCES."""
        return [*self._player.differences, *(stop.message for stop in self._stops())]

    def _stops(self) -> list[ReplayMismatch]:
        stopped = self._player.stopped
        return [stopped] if isinstance(stopped, ReplayMismatch) else []

    @property
    def differ(self) -> int:
        """How many differences there are."""
        return self._player.differ + len(self._stops())

    def finish(self) -> None:
        """Raises: ReplayMismatch when operations of the recording were not used; the error that
        stopped the replay before.
        """
        player = self._player
        entry = player.next_entry() if player.stopped is None else None
        if entry is not None:
            expected = f"{entry.op} {entry.args}"
            player.stopped = ReplayMismatch(player.position, expected, "the end")
        if player.stopped is not None:
            raise _again(player.stopped)

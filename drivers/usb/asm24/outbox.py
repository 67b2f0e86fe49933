"""What is sent to the bridge: queued, sent together, and waited for as late as can be."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import RLock
from typing import Final, TypeAlias

from drivers.base.errors import Busy, DeviceError, MalformedInput
from drivers.base.turns import interrupted
from drivers.base.undo import run_all
from drivers.base.usb import CONTROL, Batch, Transfer, Usb, parts

REQUEST_S: Final = 5.0
"""The firmware itself gives up sooner: it polls a completion half a million times."""
MOST: Final = 64
"""Transfers that are queued before they are sent."""
MOST_BYTES: Final = 1 << 20
"""Bytes of them."""
Taker: TypeAlias = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class _Item:
    transfer: Transfer
    take: Taker | None = None
    """What takes its answer."""


class Outbox:
    """Calls of several threads take turns; `lock` keeps others out for longer."""

    def __init__(self, usb: Usb) -> None:
        self.usb = usb
        self.trips = self.transfers = 0
        """How often the host waited, and for how many transfers altogether."""
        self.lock = RLock()
        self.spoiled = False
        """Whether a transfer of SRAM failed: its data may be in front of that of a stream."""
        self.held = False
        """Whether transfers overlap: everything else waits in the queue."""
        self.busy = False
        """Whether a call sends or waits now."""
        self._queued: deque[_Item] = deque()
        self._left: list[tuple[Batch, list[_Item]]] = []
        """Requests that were sent and not waited for, the oldest first."""

    def put(self, transfers: Sequence[Transfer], take: Taker | None = None) -> None:
        """Queue them; they are sent when there are `MOST`. `take`: of the last one's answer."""
        group = [_Item(one) for one in transfers[:-1]] + [_Item(transfers[-1], take)]
        with self.lock:
            queued = self._queued
            queued += group  # as a whole: a signal handler may put others before or behind it
            waiting = sum(len(item.transfer.data) for item in list(queued))
            full = len(queued) >= MOST or waiting >= MOST_BYTES
            if full and not self.held and not self.busy:
                self.run([])

    def run(self, transfers: Sequence[Transfer]) -> bytes:
        """What is queued, then these, together. The answer of the last one."""
        with self.lock:
            if self.held:
                raise Busy("a copy over the cable is under way", hint="read after it")
            own = [_Item(one) for one in transfers]
            with self._alone():
                answer = b""
                for part in _cut(self._taken_out() + own):
                    answer = self._wait(self._start(part), part)
                return answer

    def flush(self) -> None:
        """Send what is queued, and wait for everything that was sent. Raises: what it meets."""
        with self.lock:
            self.run([])
            with self._alone():
                self._collect()

    def send(self) -> None:
        """Send what is queued, and do not wait for the requests at its end.

        What they meet is raised by the next call.
        """
        with self.lock:
            if self.held or self.busy:
                return
            with self._alone():
                cut = _cut(self._taken_out())
                for part in cut[:-1]:
                    self._wait(self._start(part), part)
                for part in cut[-1:]:
                    batch = self._start(part)
                    if part[-1].transfer.endpoint != CONTROL:
                        self._wait(batch, part)
                    else:
                        self._left.append((batch, part))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Transfers are under way: what a signal handler puts goes out behind them.

        Raises: Busy for a handler that would wait for an answer in the middle of it.
        """
        if self.busy:
            raise interrupted("an answer over the cable")
        self.busy = True  # no handler can run from the line before to here
        try:
            yield
        finally:
            self.busy = False

    def _taken_out(self) -> list[_Item]:
        """What is queued; whole groups."""
        queued = self._queued
        return [queued.popleft() for _ in range(len(queued))]

    @contextmanager
    def spoiling(self) -> Iterator[None]:
        """Transfers of SRAM: after a failure no bulk transfer is made any more."""
        try:
            yield
        except BaseException:
            self.spoiled = True
            raise

    def begin(self, transfers: Sequence[Transfer]) -> Batch:
        """Start these, whatever is queued; for who has `held` it."""
        return self._start([_Item(one) for one in transfers])

    def finish(self, batch: Batch, transfers: Sequence[Transfer]) -> list[bytes]:
        """Wait for what `begin` gave. Raises: what it meets."""
        self.trips += 1
        return self._results(batch, transfers)

    def close(self) -> None:
        """Send what is queued, then give the interface back."""
        run_all([self.flush, self.usb.close])

    def _start(self, part: list[_Item]) -> Batch:
        self.transfers += len(part)
        try:
            return self.usb.start([item.transfer for item in part])
        except DeviceError as error:
            raise error.named(self.usb.name) from error.__cause__

    def _collect(self) -> None:
        """Take the answers of what was sent and not waited for. Raises: what it met."""
        left, self._left = self._left, []
        run_all([partial(self._taken, batch, part) for batch, part in left])

    def _wait(self, batch: Batch, part: list[_Item]) -> bytes:
        """Requests are made in order: those that were sent before these have ended, too."""
        self.trips += 1
        try:
            answer = self._taken(batch, part)
        except DeviceError:
            self._collect()  # an earlier error says more
            raise
        self._collect()
        return answer

    def _taken(self, batch: Batch, part: list[_Item]) -> bytes:
        results = self._results(batch, [item.transfer for item in part])
        for item, data in zip(part, results, strict=True):
            if item.take is not None:
                item.take(data)
        return results[-1]

    def _results(self, batch: Batch, transfers: Sequence[Transfer]) -> list[bytes]:
        """Wait for a batch. Raises: MalformedInput for a short answer; what it meets."""
        try:
            results = batch.wait(REQUEST_S)
        except DeviceError as error:
            raise error.named(self.usb.name) from error.__cause__
        for transfer, data in zip(transfers, results, strict=True):
            if len(data) != transfer.nbytes:
                raise MalformedInput(
                    f"{self.usb.name}: {transfer.what}: {len(data)} of {transfer.nbytes} bytes "
                    "came",
                    hint="unplug the enclosure, plug it in again and open the GPU again",
                )
        return results


def _cut(items: list[_Item]) -> list[list[_Item]]:
    """See `parts`."""
    found, at = [], 0
    for part in parts([item.transfer for item in items]) if items else []:
        found.append(items[at : at + len(part)])
        at += len(part)
    return found

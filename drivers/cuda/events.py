"""Events of a device, used again and again, and the times that they give.

CUDA gives the time between two events, in float32 milliseconds: of a few seconds that is exact to
a microsecond, so that the event which times are counted from is replaced now and then.
# src: cuda.h, cuEventElapsedTime: "a resolution of around 0.5 microseconds"
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Final

from drivers.base.deadline import polls
from drivers.base.moments import nanoseconds
from drivers.base.undo import Undo, run_all
from drivers.cuda import abi
from drivers.cuda.api import Api, Words
from drivers.cuda.ring import PATIENCE_S, Ring
from drivers.hosted.signal import NS

_MS_OF_S: Final = 1e3
_FRESH_MS: Final = 1000.0
"""Times that are further from the event they are counted from replace it."""


class Events:
    """The events of one device. Everything but `give` is called with its lock held."""

    def __init__(self, api: Api, ring: Ring) -> None:
        self._api, self._free, self._plain = api, deque[int](), deque[int]()
        self.live = 0
        """Events that were made and not destroyed."""
        with Undo() as undo:
            self._origin = self.take()
            undo.add(self.close)
            api.do("cuEventRecord", self._origin, ring.stream)
            for _ in polls(PATIENCE_S, api.world):
                if self.done(self._origin):
                    break
            else:
                raise ring.hang(PATIENCE_S)
        self._origin_ns = int(api.world.monotonic_s() * NS)

    def take(self) -> int:
        """An event that nobody uses."""
        try:
            return self._free.popleft()
        except IndexError:
            made = self._api.make("cuEventCreate", abi.EVENT_DEFAULT)
        self.live += 1
        return made

    def take_plain(self) -> int:
        """An event that gives order and no time, which costs a stream less.

        # src: cuda.h, cuStreamWaitEvent and CU_EVENT_DISABLE_TIMING
        """
        if self._plain:
            return self._plain.popleft()
        self.live += 1
        return self._api.make("cuEventCreate", abi.EVENT_DISABLE_TIMING)

    def give_plain(self, event: int) -> None:
        """Back to those of `take_plain`."""
        self._plain.append(event)

    def give(self, event: int) -> None:
        """Finalisers call this at any moment: it only appends."""
        self._free.append(event)

    def record(self, ring: Ring) -> int:
        """An event after everything of a ring."""
        event = self.take()
        with Undo() as undo:
            undo.add(partial(self.give, event))
            self._api.do("cuEventRecord", event, ring.stream)
        ring.count()
        return event

    def done(self, event: int) -> bool:
        """Whether it was reached. Raises: DeviceFault."""
        return self._api.ready("cuEventQuery", event)

    def spent(self, event: int) -> int:
        """The time of an event that was reached, in ns of the host's clock; it is given back."""
        cell = Words()
        with Undo() as undo:
            undo.add(partial(self.give, event))
            self._api.do("cuEventElapsedTime", cell.at, self._origin, event)
        since_ms = cell.float32
        time_ns = self._origin_ns + nanoseconds(since_ms / _MS_OF_S)
        if since_ms > _FRESH_MS:
            event, self._origin, self._origin_ns = self._origin, event, time_ns
        self.give(event)
        return time_ns

    def close(self) -> None:
        """Destroy them. None may be in use."""
        events = [*self._free, *self._plain, self._origin]
        self._free.clear()
        self._plain.clear()
        self.live -= len(events)
        run_all([partial(self._api.do, "cuEventDestroy_v2", event) for event in events])

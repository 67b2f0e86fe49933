"""Things that happen later, by the board's clock; at once when the delay is zero."""

from __future__ import annotations

from collections.abc import Callable

from boards.machine.clock import Clock


class Delays:
    """What is still to happen, in order of time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: list[tuple[float, Callable[[], None]]] = []

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something in a while."""
        if seconds <= 0:
            action()
            return
        self._waiting.append((self._clock.now_s() + seconds, action))
        self._waiting.sort(key=lambda entry: entry[0])

    def run(self) -> bool:
        """Do what is due; whether anything was."""
        if not self._waiting:
            return False
        now, moved = self._clock.now_s(), False
        for _ in range(len(self._waiting)):
            if not self._waiting or self._waiting[0][0] > now:
                break
            _, action = self._waiting.pop(0)
            action()
            moved = True
        return moved

    def forget(self) -> None:
        """A reset: nothing of it happens."""
        self._waiting.clear()

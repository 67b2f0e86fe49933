"""Work that takes several calls, also where a signal handler asks for some in the middle of it.

A store to a doorbell needs no turn: no handler runs inside it. An ioctl, a transfer over a cable
and what belongs to them are calls, and CPython may run a handler behind each (# src: CPython
ceval.c, CHECK_EVAL_BREAKER). There the handler's work waits in a list: the call that it interrupted
does it, too, right after its own. So work reaches the device whole, and in order.

What the handler itself waits for then cannot come before it has returned: `interrupted` says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import RLock, get_ident
from typing import Final

from drivers.base import forks
from drivers.base.errors import Busy, DeviceError

_MOST: Final = 1 << 16
"""Rounds of one call: each further one is work that a handler has asked for meanwhile."""


class Turns:
    """Calls `work`, in one call at a time; threads wait for each other.

    `lock`: one that the work takes, and callers may hold. Two locks, taken in either order by two
    threads, would never be given back.
    """

    def __init__(
        self, work: Callable[[], object], lock: AbstractContextManager[bool] | None = None
    ) -> None:
        self._work, self._given = work, lock
        self.after_fork()
        forks.inherit(self)

    def after_fork(self) -> None:
        """In a child: a thread of the parent may hold the lock, in the middle of work."""
        self.lock = RLock() if self._given is None else self._given
        self._owner = 0
        self._again = False

    @property
    def interrupted(self) -> bool:
        """Whether this is a handler in the middle of this thread's own work."""
        return self._owner == get_ident()

    def run(self) -> None:
        """Do the work; in the middle of it, do it again behind that."""
        me = get_ident()
        with self.lock:
            self._again = True
            if self._owner:
                return
            try:
                for _ in range(_MOST):
                    if not self._again:  # no handler can run from here to the next line
                        break
                    self._owner = me
                    self._again = False
                    self._work()
                    self._owner = 0
            finally:
                self._owner = 0

    def refuse(self, what: str) -> None:
        """Raises: Busy where a handler in the middle of the work asks for `what`."""
        if self.interrupted:
            raise interrupted(what)


def interrupted(what: str) -> Busy:
    """The error where a signal handler asks for `what` in the middle of work."""
    return Busy(
        f"{what}: a signal handler asks for it inside a call that has first to end",
        hint="launches of a handler go out behind that call: wait for them after it",
    )


class Jobs:
    """Jobs in order, each of which may be done twice: one that a handler ends is done again."""

    def __init__(self, lock: AbstractContextManager[bool] | None = None) -> None:
        """`lock`: see `Turns`."""
        self._jobs: deque[Callable[[], object]] = deque()
        self.turns = Turns(self._do, lock)

    def give(self, job: Callable[[], object]) -> None:
        """Do it now, or behind what this call interrupts. Raises: what jobs meet."""
        jobs = self._jobs
        jobs += (job,)
        self.turns.run()

    def _do(self) -> None:
        jobs = self._jobs
        for _ in range(len(jobs)):
            try:
                jobs[0]()
            except DeviceError:
                jobs.popleft()
                raise
            jobs.popleft()

    def settle(self) -> None:
        """Do what an interrupted call has left. Raises: Busy in the middle of it."""
        if self._jobs:
            self.turns.run()
            self.turns.refuse("a wait")

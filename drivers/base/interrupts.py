"""Ctrl-C held back while a device is taken or given back.

Python raises KeyboardInterrupt between any two instructions of the main thread: also between an
acquisition and the note of its undo, or halfway through giving a device back. `deferred` holds
SIGINT for a block and delivers it after the block; `check` delivers it inside, at a safe place.
Other threads are never interrupted: there nothing is held. Launches do not use this.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any


class _Holder:
    """The handler of SIGINT while a block holds it: it remembers, and raises nothing."""

    def __init__(self) -> None:
        self.depth = 0
        self.before: Any = None
        self.owner = 0
        self.arrived = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.arrived = True
        if self.depth == 0:  # just before a block, just after it, or another handler raised there
            self.end()

    def hold(self) -> bool:
        """Install it, once for all nested blocks. False where nothing can be held."""
        me = threading.get_ident()
        if me != threading.main_thread().ident:
            return False
        if self.depth == 0:
            before = signal.getsignal(signal.SIGINT)
            if before is None:  # a handler of a C library, which raises nothing
                return False
            if before is not self:
                self.before = before
            self.arrived, self.owner = False, me
            signal.signal(signal.SIGINT, self)
        self.depth += 1
        return True

    def release(self) -> None:
        """At the end of the outermost block: restore the former handler and deliver SIGINT."""
        self.depth -= 1
        if self.depth == 0:
            self.end()

    def end(self) -> None:
        """Put the former handler back, unless the block installed another one, and deliver."""
        now: object = signal.getsignal(signal.SIGINT)
        if now is self:
            signal.signal(signal.SIGINT, self.before)
        self.deliver()

    def deliver(self) -> None:
        """Call the former handler if SIGINT arrived; Python's own raises KeyboardInterrupt.

        It gets no frame: a kept frame keeps its variables alive, such as views of BARs.
        """
        arrived, self.arrived = self.arrived, False
        if arrived and callable(self.before):
            self.before(signal.SIGINT, None)
        elif arrived and self.before == signal.SIG_DFL:
            signal.raise_signal(signal.SIGINT)

    def after_fork(self) -> None:
        """A child that another thread forked never reaches the end of the block."""
        if self.depth and self.owner != threading.get_ident():
            self.depth = 0
            signal.signal(signal.SIGINT, self.before)


_holder = _Holder()
os.register_at_fork(after_in_child=_holder.after_fork)


class Deferred:
    """A block that SIGINT does not interrupt; nested ones are one block."""

    __slots__ = ("_held",)

    def __enter__(self) -> None:
        self._held = _holder.hold()

    def __exit__(self, *exc: object) -> None:
        if self._held:
            _holder.release()


def deferred() -> Deferred:
    """`with deferred():` SIGINT waits for the end of the block."""
    return Deferred()


def check() -> None:
    """Deliver a held SIGINT. For places where everything done so far has its undo."""
    if _holder.depth and _holder.owner == threading.get_ident() and callable(_holder.before):
        _holder.deliver()

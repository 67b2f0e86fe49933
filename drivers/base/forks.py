"""fork() with other threads: it waits for an opening or a compilation; the child starts clean.

A child has only the thread that forked. A lock that another thread held stays locked in it for
ever, and state that thread was changing stays half changed. So there are two means:

* `with postponed():` around work that a fork must not interrupt: opening a device, late imports,
  calls into a compiler's library that has locks of its own. One recursive lock for the process;
  a fork of another thread waits for it.
* `inherit(owner)` for objects with locks: the child calls `owner.after_fork()`, which creates
  new locks and drops work of threads that the child does not have.
"""

from __future__ import annotations

import os
import weakref
from contextlib import AbstractContextManager
from threading import RLock, get_ident
from typing import Protocol


class Heir(Protocol):
    """State that a child has to reset."""

    def after_fork(self) -> None:
        """In a child, before anything else runs: it has no other thread of the parent."""


_lock = RLock()
_forking = 0
"""The thread for whose fork `_lock` is taken."""
_heirs: weakref.WeakSet[Heir] = weakref.WeakSet()


def postponed() -> AbstractContextManager[object]:
    """Inside, no other thread of the process forks. Held for up to one compilation."""
    return _lock


def inherit(owner: Heir) -> None:
    """Call `owner.after_fork()` in every child, for as long as `owner` lives."""
    _heirs.add(owner)


def _before() -> None:
    global _forking
    _lock.acquire()
    _forking = get_ident()


def _released() -> bool:
    """Whether the lock was taken for this fork, and is free again."""
    global _forking
    if _forking != get_ident():
        return False
    _forking = 0
    _lock.release()
    return True


def _in_child() -> None:
    global _lock
    if not _released():  # a signal handler raised while the fork waited: another thread owns it
        _lock = RLock()
    for owner in list(_heirs):
        owner.after_fork()


os.register_at_fork(before=_before)
for _ in range(2):  # a signal during the fork may raise in a hook, and end it
    os.register_at_fork(after_in_parent=_released, after_in_child=_in_child)

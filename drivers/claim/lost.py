"""GPUs that this process took and lost: nothing refers to what used them, and it was not closed.

Ctrl-C between the return of an opening and the caller's name for its result does that. The end of
the process gives them back in any case; a claim that finds the lock taken does so before.
"""

from __future__ import annotations

import gc
import os
import weakref
from typing import Protocol

from drivers.base.undo import Step


class Held(Protocol):
    """A claim."""

    address: str
    is_open: bool
    """Whether it is not given back yet."""


_watched: weakref.WeakSet[object] = weakref.WeakSet()
_lost: list[tuple[Held, Step]] = []


def watch(user: object, held: Held, give_back: Step) -> None:
    """`give_back` is due when `user` is gone while `held` is open. It must not refer to `user`."""
    _watched.add(user)
    weakref.finalize(user, _gone, held, give_back).atexit = False


def _gone(held: Held, give_back: Step) -> None:
    if held.is_open:
        _lost.append((held, give_back))


def give_back(address: str) -> bool:
    """Give a function back that is lost. False when it is not. Raises: the first error."""
    if _watched:
        gc.collect()  # what used it may be a cycle
    found = [one for one in _lost if one[0].address == address]
    for one in found:
        one[1]()
        _lost.remove(one)
    return bool(found)


def forget() -> None:
    """What a parent lost is not its child's."""
    _lost.clear()


os.register_at_fork(after_in_child=forget)

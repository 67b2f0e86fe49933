"""Where this user's locks and records are: one place whatever the environment says, and others.

A program in a session and one from cron have different environments, and must not both own a GPU.
So the place is chosen without the environment, where that can be; where the environment names
others, what an owner left there counts too.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from errno import EACCES, EPERM, EROFS
from functools import partial

from drivers.base.errors import Denied, NotFound
from drivers.base.oserrors import errno_of
from drivers.base.pci import Lock, StateStore
from drivers.base.undo import Undo, run_all
from drivers.choice import state_bases
from drivers.world.state import ROOT_FOLDER, LinuxState

RUNTIME = "/run/user"
"""Parent of each user's directory while the user is logged in; src: pam_systemd(8)."""
_READ_ONLY = frozenset({EACCES, EPERM, EROFS})
_LEVELS = 2
"""Directories that are made: ".local" and "state"."""


@contextmanager
def state_for(environ: Mapping[str, str], given: StateStore | None = None) -> Iterator[StateStore]:
    """`given`, which its owner closes; without one this user's own, open for the block.

    Locks that were taken in the block stay. Raises: NotFound, Denied.
    """
    if given is not None:
        yield given
        return
    own = open_state(environ)
    try:
        yield own
    finally:
        own.close()


def open_state(environ: Mapping[str, str]) -> LinuxState | Places:
    """Root's directory is fixed; a user's is in /run/user, else below the home directory.

    Whoever opens it closes it.

    Raises: NotFound, Denied.
    """
    if os.geteuid() == 0:
        return LinuxState.open(ROOT_FOLDER)
    return open_places(bases(environ, os.geteuid(), _home()))


def _home() -> str:
    """By the system's table of users, "" where that has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return ""


def bases(environ: Mapping[str, str], user: int, home: str) -> list[str]:
    """Where a user's directory may be, in the order of choice."""
    fixed = [f"{RUNTIME}/{user}"]
    if home.startswith("/"):
        fixed.append(os.path.join(home, ".local", "state"))
    return list(dict.fromkeys([*fixed, *state_bases(environ)]))


def open_places(candidates: Sequence[str]) -> LinuxState | Places:
    """The first place that this user can have, with those of the others that are in use.

    Raises: NotFound without any, Denied where other users could interfere.
    """
    with Undo() as undo:
        found: list[LinuxState] = []
        for base in candidates:
            place = _place(base, make=not found)
            if place is not None:
                undo.add(place.close)
                found.append(place)
    if not found:
        raise NotFound(
            f"this user has no place for locks: tried {', '.join(candidates) or 'none'}",
            hint="log in on this machine, or set XDG_RUNTIME_DIR to a directory of mode 0700",
        )
    return Places(found) if len(found) > 1 else found[0]


def _place(base: str, *, make: bool) -> LinuxState | None:
    """None where it is not there, and cannot be made."""
    try:
        if make:
            _make(base)
        return LinuxState.open(base, make=make)
    except NotFound:
        return None
    except Denied as error:
        if errno_of(error) not in _READ_ONLY:
            raise
        return None


def _make(base: str) -> None:
    """Its missing ancestors below a directory that is there, as the XDG specification says."""
    missing: list[str] = []
    for _ in range(_LEVELS):
        if not os.path.lexists(base):
            missing.append(base)
            base = os.path.dirname(base)
    if os.path.isdir(base):
        for path in reversed(missing):
            with suppress(OSError):  # opening it says what is wrong
                os.mkdir(path, 0o700)


class Places:
    """Several places as one: a lock is held in all, a record is kept in the first."""

    def __init__(self, places: Sequence[LinuxState]) -> None:
        self._places = tuple(places)
        self.path = places[0].path

    def lock(self, name: str) -> Lock:
        """Raises: Busy with the pid of an owner in any of the places."""
        locks = Locks()
        with Undo() as undo:
            undo.add(locks.release)
            for place in self._places:
                locks.held.append(place.lock(name))
        return locks

    def names(self) -> list[str]:
        """What is in any of them, sorted."""
        return sorted({name for place in self._places for name in place.names()})

    def read(self, name: str) -> bytes | None:
        """From the first place that has it."""
        found = (place.read(name) for place in self._places)
        return next((data for data in found if data is not None), None)

    def write(self, name: str, data: bytes) -> None:
        """Into the first place; what others have of that name is older."""
        first, *others = self._places
        first.write(name, data)
        run_all([partial(place.remove, name) for place in others])

    def remove(self, name: str) -> None:
        """From all of them."""
        run_all([partial(place.remove, name) for place in self._places])

    def close(self) -> None:
        """Close the directories; locks stay until they are released."""
        run_all([place.close for place in self._places])


class Locks:
    """One lock in several places."""

    def __init__(self) -> None:
        self.held: list[Lock] = []

    def release(self) -> None:
        """Let go everywhere. A second release does nothing."""
        run_all([lock.release for lock in reversed(self.held)])

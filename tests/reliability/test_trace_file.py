"""AMD_TRACE writes to a plain file of this user, and to nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from drivers.bare.trace import TraceFile
from drivers.base.errors import BadArgument, Denied
from drivers.world.linux import LinuxWorld
from tests.other_user import OTHER, as_user, needs_root, public
from tests.support import check

__all__ = ["public"]
PRECIOUS = "precious"


def traced(path: Path) -> None:
    with TraceFile(str(path), LinuxWorld()) as trace:
        trace.written(0, b"abc")


def test_a_trace_is_private_and_replaces_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    traced(path)
    check(path.stat().st_mode & 0o7777 == 0o600)
    path.write_text(PRECIOUS * 1000)
    traced(path)
    check(path.read_text().count("\n") == 1 and PRECIOUS not in path.read_text())


ODD: dict[str, Callable[[Path, Path], None]] = {
    "link": lambda path, victim: path.symlink_to(victim),
    "link to nothing": lambda path, victim: path.symlink_to(victim.with_name("new")),
    "second name": lambda path, victim: path.hardlink_to(victim),
    "FIFO": lambda path, victim: os.mkfifo(path, 0o600),
}


@pytest.mark.parametrize("kind", ODD)
def test_links_and_pipes_are_refused(kind: str, tmp_path: Path) -> None:
    path, victim = tmp_path / "trace", tmp_path / "victim"
    victim.write_text(PRECIOUS)
    ODD[kind](path, victim)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(Denied, match=r"trace is not a plain file of this user\. Name a new file"):
        traced(path)
    check(victim.read_text() == PRECIOUS and not victim.with_name("new").exists(), kind)
    check(os.listdir("/proc/self/fd") == before, "no descriptor is lost")


def test_devices_and_directories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Denied, match="/dev/null is not a plain file"):
        traced(Path("/dev/null"))
    with pytest.raises(BadArgument, match="Is a directory"):
        traced(tmp_path)


@needs_root
def test_a_file_that_another_user_left_there(public: Path) -> None:
    (public / "all").mkdir()
    (public / "all").chmod(0o1777)
    path = public / "all" / "trace"
    as_user(OTHER, lambda: path.write_text(PRECIOUS))
    with pytest.raises((Denied, BadArgument), match=r"plain file|Permission denied"):
        traced(path)  # the second from Linux itself: fs.protected_regular
    check(path.read_text() == PRECIOUS)

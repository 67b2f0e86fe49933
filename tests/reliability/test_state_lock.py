"""Locks between processes, and the directory they lie in: owners, races, deaths, links."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from drivers.base.errors import BadArgument, Busy, Denied, MalformedInput, NotFound
from drivers.choice import state_bases
from drivers.world.state import LIMIT_BYTES, LinuxState
from tests.share import part
from tests.support import check

NAME = "pci-0000:03:00.0.lock"
PROCESSES, ROUNDS = 8, part(1000, 100)
SLOW_S = 0.1


def racer(base: Path, control: socket.socket) -> None:
    """One process: a byte starts a round, the answer is who owns the lock and how long it took."""
    state = LinuxState.open(str(base))
    held = None
    while control.recv(1) == b"g":
        started = time.monotonic()
        try:
            held, owner = state.lock(NAME), os.getpid()
        except Busy as error:
            owner = error.pid or 0
        control.send(f"{int(held is not None)} {owner} {time.monotonic() - started}".encode())
        control.recv(1)
        if held is not None:
            held.release()
            held = None
        control.send(b"done")
    os._exit(0)


def test_a_thousand_rounds_of_eight_processes(tmp_path: Path) -> None:
    LinuxState.open(str(tmp_path)).close()
    pairs = []
    for _ in range(PROCESSES):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            for mine in [ours, *(other for _, other in pairs)]:
                mine.close()
            try:
                racer(tmp_path, theirs)
            finally:
                os._exit(1)
        theirs.close()
        ours.settimeout(20)
        pairs.append((pid, ours))
    winners, times = set(), []
    for number in range(ROUNDS):
        for turn in range(PROCESSES):  # another process is woken first in each round
            pairs[(number + turn) % PROCESSES][1].send(b"g")
        answers = [(pid, ours.recv(100).split()) for pid, ours in pairs]
        owners = [pid for pid, answer in answers if answer[0] == b"1"]
        check(len(owners) == 1, f"round {number}: {len(owners)} owners")
        named = {int(answer[1]) for _, answer in answers}
        check(named == set(owners), f"round {number}: losers were told {named}, not {owners}")
        winners |= set(owners)
        times += [float(answer[2]) for _, answer in answers]
        for _, ours in pairs:
            ours.send(b"r")
        for _, ours in pairs:
            ours.recv(100)
    for pid, ours in pairs:
        ours.close()
        check(os.waitpid(pid, 0)[1] == 0, "a racer failed")
    check(len(winners) > 1, "it was a race")
    late = sum(taken > SLOW_S for taken in times)
    check(late <= len(times) // 100, f"{late} of {len(times)} answers took over {SLOW_S} s")


def holder(base: Path) -> int:
    """A process that has the lock; its pid."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            held = LinuxState.open(str(base)).lock(NAME)
            os.write(write_end, b"1")
            time.sleep(60)
            held.release()
        finally:
            os._exit(1)
    os.close(write_end)
    check(os.read(read_end, 1) == b"1", "the holder has it")
    os.close(read_end)
    return child


def test_a_lock_dies_with_its_holder(tmp_path: Path) -> None:
    state = LinuxState.open(str(tmp_path))
    for _ in range(5):
        pid = holder(tmp_path)
        with pytest.raises(Busy) as caught:
            state.lock(NAME)
        check(caught.value.pid == pid and str(pid) in str(caught.value), str(caught.value))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        state.lock(NAME).release()


def test_one_process_has_a_lock_once(tmp_path: Path) -> None:
    state, other = LinuxState.open(str(tmp_path)), LinuxState.open(str(tmp_path))
    held = state.lock(NAME)
    for one in (state, other):
        with pytest.raises(Busy) as caught:
            one.lock(NAME)
        check(caught.value.pid == os.getpid())
    state.lock("another").release()
    held.release()
    held.release()
    other.lock(NAME).release()


def test_a_stale_number_is_not_told(tmp_path: Path) -> None:
    """A winner that has not written its number yet, in a file that a killed owner left."""
    state = LinuxState.open(str(tmp_path))
    held = state.lock(NAME)
    (tmp_path / "unbound" / NAME).write_text("4194303000\n")
    with pytest.raises(Busy) as caught:
        LinuxState.open(str(tmp_path)).lock(NAME)
    check(caught.value.pid is None and "another process" in str(caught.value))
    held.release()


def test_a_long_number_of_a_killed_owner_is_overwritten(tmp_path: Path) -> None:
    LinuxState.open(str(tmp_path))
    (tmp_path / "unbound" / NAME).write_text("4194303000\n")
    (tmp_path / "unbound" / NAME).chmod(0o600)
    held = LinuxState.open(str(tmp_path)).lock(NAME)
    with pytest.raises(Busy) as caught:
        LinuxState.open(str(tmp_path)).lock(NAME)
    check(caught.value.pid == os.getpid(), str(caught.value))
    held.release()


def test_the_directory_is_private(tmp_path: Path) -> None:
    state = LinuxState.open(str(tmp_path))
    check((tmp_path / "unbound").stat().st_mode & 0o7777 == 0o700)
    state.write("a", b"x")
    check((tmp_path / "unbound" / "a").stat().st_mode & 0o7777 == 0o600)


def test_an_inherited_umask_changes_nothing(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        LinuxState.open(str(tmp_path)).lock(NAME).release()
    finally:
        os.umask(before)
    check((tmp_path / "unbound").stat().st_mode & 0o7777 == 0o700)
    check((tmp_path / "unbound" / NAME).stat().st_mode & 0o7777 == 0o600)


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o750, 0o701])
def test_a_directory_that_others_reach_is_refused(mode: int, tmp_path: Path) -> None:
    (tmp_path / "unbound").mkdir()
    (tmp_path / "unbound").chmod(mode)
    with pytest.raises(Denied, match=f"mode {mode:04o}"):
        LinuxState.open(str(tmp_path))


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
def test_a_base_that_others_write_is_refused(mode: int, tmp_path: Path) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(Denied):
        LinuxState.open(str(tmp_path))
    check(not (tmp_path / "unbound").exists(), "nothing is made in there")


def test_links_are_not_followed(tmp_path: Path) -> None:
    """What an attacker could have put there, had it been a place for everybody."""
    victim, base = tmp_path / "victim", tmp_path / "base"
    victim.mkdir(mode=0o700)
    base.mkdir(mode=0o700)
    (victim / "file").write_text("precious")
    (base / "unbound").symlink_to(victim)
    with pytest.raises(NotFound, match="Not a directory"):
        LinuxState.open(str(base))
    (tmp_path / "linked").symlink_to(victim)
    with pytest.raises(Denied, match="is a link"):
        LinuxState.open(str(tmp_path / "linked"))
    (base / "unbound").unlink()
    state = LinuxState.open(str(base))
    for kind in ("symlink_to", "hardlink_to"):
        for name in (NAME, "record", "record.new"):
            (base / "unbound" / name).unlink(missing_ok=True)
            getattr(base / "unbound" / name, kind)(victim / "file")
        with pytest.raises(Denied, match="plain file"):
            state.lock(NAME)
        with pytest.raises(Denied, match="plain file"):
            state.read("record")
        state.write("record", b"new")
        check(state.read("record") == b"new", "the link was replaced, not followed")
        check((victim / "file").read_text() == "precious", kind)
    (base / "unbound" / NAME).unlink()
    os.mkfifo(base / "unbound" / NAME, 0o600)
    with pytest.raises(Denied, match="plain file"):
        state.lock(NAME)


def test_exchanging_the_directory_is_not_noticed_by_us(tmp_path: Path) -> None:
    """The directory that was checked is the one that is used."""
    state = LinuxState.open(str(tmp_path))
    (tmp_path / "unbound").rename(tmp_path / "moved")
    (tmp_path / "unbound").symlink_to("/")
    state.write("record", b"x")
    check((tmp_path / "moved" / "record").read_bytes() == b"x")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
def test_directories_of_other_users(tmp_path: Path) -> None:
    (tmp_path / "unbound").mkdir(mode=0o700)
    os.chown(tmp_path / "unbound", 1234, -1)
    with pytest.raises(Denied, match="user 1234"):
        LinuxState.open(str(tmp_path))
    os.chown(tmp_path / "unbound", 0, -1)
    state = LinuxState.open(str(tmp_path))
    (tmp_path / "unbound" / NAME).touch(mode=0o600)
    os.chown(tmp_path / "unbound" / NAME, 1234, -1)
    with pytest.raises(Denied, match="plain file"):
        state.lock(NAME)


def test_files(tmp_path: Path) -> None:
    state = LinuxState.open(str(tmp_path))
    check(state.read("a") is None and state.names() == [])
    state.write("a", b"1")
    state.write("a", b"22")
    state.write("b", b"")
    (tmp_path / "unbound" / "c.new").write_bytes(b"half")
    check(state.names() == ["a", "b"] and state.read("a") == b"22" and state.read("b") == b"")
    state.remove("a")
    state.remove("a")
    check(state.read("a") is None)
    state.write("b", bytes(LIMIT_BYTES + 1))
    with pytest.raises(MalformedInput):
        state.read("b")


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "a\0", "x" * 101, "ä"])
def test_names(name: str, tmp_path: Path) -> None:
    state = LinuxState.open(str(tmp_path))
    with pytest.raises(BadArgument):
        state.write(name, b"")
    with pytest.raises(BadArgument):
        state.lock(name)


def test_no_descriptor_is_lost(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    for _ in range(20):
        state = LinuxState.open(str(tmp_path))
        held = state.lock(NAME)
        with pytest.raises(Busy):
            state.lock(NAME)
        state.write("a", b"x")
        check(state.read("a") == b"x")
        held.release()
        state.close()
    (tmp_path / "unbound").chmod(0o777)
    with pytest.raises(Denied):
        LinuxState.open(str(tmp_path))
    check(os.listdir("/proc/self/fd") == before)


def test_where_a_user_has_it() -> None:
    session = {"XDG_RUNTIME_DIR": "/run/user/1000/", "HOME": "/h"}
    check(state_bases(session) == ["/run/user/1000", "/h/.local/state"])
    moved = {"XDG_STATE_HOME": "/h/state", "HOME": "/h/"}
    check(state_bases(moved) == ["/h/state", "/h/.local/state"])
    check(state_bases({"XDG_RUNTIME_DIR": "relative", "HOME": "/h\0"}) == [])

"""One user, several places for locks and records: one owner, and every record is found."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drivers.base.errors import Busy, Denied, NotFound
from drivers.claim import place
from drivers.claim.claim import claim
from drivers.claim.place import Places, bases, open_places, open_state
from drivers.claim.restoring import restore_all
from drivers.world.state import LinuxState
from tests.pci_tree import GPU, TreeWorld, desktop
from tests.reliability.test_claim_life import killed_owner, known, untouched
from tests.support import check

RECORD = f"pci-{GPU}.claim"
NOBODY = 65534
ENVIRONMENTS: dict[str, dict[str, str]] = {
    "a session": {"XDG_RUNTIME_DIR": "/run/user/1000", "HOME": "/home/me"},
    "cron": {"HOME": "/home/me"},
    "a service": {},
    "another home": {"HOME": "/tmp/elsewhere", "XDG_STATE_HOME": "/srv/state"},
    "a directory of its own": {"XDG_RUNTIME_DIR": "/tmp/mine", "HOME": "/home/me"},
}


@pytest.fixture
def room() -> Iterator[Path]:
    """A directory that every user may search."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def two(room: Path) -> tuple[str, str]:
    """Where a user has a directory while logged in, and at home."""
    for name in ("runtime", "home"):
        (room / name).mkdir(mode=0o700)
    return str(room / "runtime"), str(room / "home")


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_environment_does_not_choose(name: str) -> None:
    """Programs of all environments agree on the first two places."""
    found = bases(ENVIRONMENTS[name], 1000, "/home/me")
    check(found[:2] == ["/run/user/1000", "/home/me/.local/state"], f"{found}")
    check(len(set(found)) == len(found), f"{found}")


def test_what_the_environment_names_is_searched() -> None:
    named = ENVIRONMENTS["another home"]
    check(bases(named, 1, "/h")[2:] == ["/srv/state", "/tmp/elsewhere/.local/state"])
    check(bases(ENVIRONMENTS["cron"], 1, "")[1:] == ["/home/me/.local/state"], "no such user")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_one_owner_whatever_was_there_first(
    order: tuple[int, int], two: tuple[str, str], room: Path
) -> None:
    """An owner of before the login, or of another environment; no IOMMU: VFIO would refuse."""
    tree = desktop(room / "machine", group="")
    first = open_places([two[order[0]]])
    with claim(TreeWorld(tree.root), first, GPU, known):
        other = open_places([two[order[1]], two[order[0]]])
        with pytest.raises(Busy) as caught:
            claim(TreeWorld(tree.root), other, GPU, known)
        check(caught.value.pid == os.getpid() and tree.bound() == "", "the first one has it")
        (found,) = restore_all(TreeWorld(tree.root), other)
        check(not found.ok and str(os.getpid()) in found.text, f"{found}")
    untouched(tree)
    claim(TreeWorld(tree.root), other, GPU, known).close()
    claim(TreeWorld(tree.root), first, GPU, known).close()


@pytest.mark.parametrize("how", ["the doctor", "the next opening"])
def test_a_record_in_the_other_place_is_found(how: str, two: tuple[str, str], room: Path) -> None:
    tree = desktop(room / "machine")
    killed_owner(tree, Path(two[1]))
    world, places = TreeWorld(tree.root), open_places(two)
    check(places.names() == [RECORD, RECORD.replace("claim", "lock")], f"{places.names()}")
    if how == "the doctor":
        check([one.ok for one in restore_all(world, places)] == [True])
    else:
        with claim(world, places, GPU, known) as claimed:
            check(claimed.record.driver == "amdgpu", "it is known whose it was")
            check(LinuxState.open(two[0]).read(RECORD) is not None, "the first place has it now")
            check(LinuxState.open(two[1]).read(RECORD) is None, "and no other")
    untouched(tree)
    check(all(name.endswith(".lock") for name in places.names()), f"{places.names()}")


def test_a_place_that_is_not_used_is_not_made(two: tuple[str, str]) -> None:
    check(not isinstance(open_places(two), Places))
    check(os.listdir(two[0]) == ["unbound"] and os.listdir(two[1]) == [])
    check(isinstance(open_places(two[::-1]), Places), "now both are in use")


def test_the_next_place_where_the_first_cannot_be_had(two: tuple[str, str], room: Path) -> None:
    state = open_places([str(room / "no" / "such" / "place"), two[1]])
    check(state.path == f"{two[1]}/unbound")
    with pytest.raises(NotFound, match="XDG_RUNTIME_DIR"):
        open_places([str(room / "no" / "such" / "place")])
    with pytest.raises(NotFound, match="tried none"):
        open_places([])


def test_a_place_that_others_reach_ends_it(two: tuple[str, str]) -> None:
    """Also one that is only searched: an owner may have its lock there."""
    open_places([two[1]])
    os.chmod(two[1], 0o777)
    before = os.listdir("/proc/self/fd")
    for candidates in (two, two[::-1]):
        with pytest.raises(Denied, match="0777"):
            open_places(candidates)
    check(os.listdir("/proc/self/fd") == before, "descriptors")


def test_missing_directories_of_the_home_are_made(room: Path) -> None:
    """~/.local/state on a fresh account; src: XDG Base Directory Specification: mode 0700."""
    home = room / "home"
    home.mkdir(mode=0o755)
    state = open_places([str(home / ".local" / "state")])
    state.lock("a").release()
    for part in (".local", ".local/state", ".local/state/unbound"):
        check(stat.S_IMODE((home / part).stat().st_mode) == 0o700, part)


def as_nobody(run: Callable[[], object]) -> None:
    """In a process of another user."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            run()
            status = 0
        except BaseException:
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(status)
    check(os.waitpid(child, 0)[1] == 0, "see the other process's error")


root_alone = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@root_alone
def test_a_fresh_account(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No login session, no ~/.local, an environment with HOME alone: the whole way."""
    home = room / "home"
    home.mkdir(mode=0o700)
    os.chown(home, NOBODY, NOBODY)
    monkeypatch.setattr(place, "RUNTIME", str(room / "run"))

    def run() -> None:
        state = open_state({"HOME": str(home)})
        check(state.path == f"{home}/.local/state/unbound", state.path)
        state.lock("a").release()

    as_nobody(run)
    made = (home / ".local" / "state" / "unbound").stat()
    check(made.st_uid == NOBODY and stat.S_IMODE(made.st_mode) == 0o700)


@root_alone
def test_a_home_that_cannot_be_written(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then what the environment names, as long as it is this user's alone."""
    home, mine, foreign = room / "home", room / "mine", room / "foreign"
    for path, owner in ((home, 0), (mine, NOBODY), (foreign, 1234)):
        path.mkdir(mode=0o755 if path is home else 0o700)
        os.chown(path, owner, owner)
    monkeypatch.setattr(place, "RUNTIME", str(room / "run"))

    def run() -> None:
        state = open_state({"HOME": str(home), "XDG_RUNTIME_DIR": str(mine)})
        check(state.path == f"{mine}/unbound", state.path)
        with pytest.raises((Denied, NotFound)):
            open_state({"HOME": str(home), "XDG_RUNTIME_DIR": str(foreign)})

    as_nobody(run)


@root_alone
def test_a_session_and_cron(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two programs of one plain user, with and without XDG_RUNTIME_DIR: one owner."""
    run_user = room / "run"
    run_user.mkdir()
    for path in (run_user / str(NOBODY), room / "home", room / "own", room / "machine"):
        path.mkdir(mode=0o700)
        os.chown(path, NOBODY, NOBODY)
    monkeypatch.setattr(place, "RUNTIME", str(run_user))
    home = {"HOME": str(room / "home")}

    def run() -> None:
        tree = desktop(room / "machine", group="")
        session = open_state({**home, "XDG_RUNTIME_DIR": str(room / "own")})
        cron = open_state(home)
        with claim(TreeWorld(tree.root), session, GPU, known):
            with pytest.raises(Busy):
                claim(TreeWorld(tree.root), cron, GPU, known)
            check([one.ok for one in restore_all(TreeWorld(tree.root), cron)] == [False])
        untouched(tree)

    as_nobody(run)

"""Which directories count as this user's own: every part of a path, by mode, owner and links."""

from __future__ import annotations

import os
import pwd
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from drivers.base.errors import Denied, DeviceError
from drivers.world import owned
from drivers.world.state import LinuxState
from tests.other_user import OTHER, as_user, needs_root, public
from tests.support import check

__all__ = ["public"]


def opened(path: Path | str, *, make: bool = False) -> tuple[int, int]:
    """What the descriptor of `path` stands for."""
    fd = owned.open_directory(str(path), make=make)
    facts = os.fstat(fd)
    os.close(fd)
    return facts.st_dev, facts.st_ino


def identity(path: Path) -> tuple[int, int]:
    return path.stat().st_dev, path.stat().st_ino


def test_a_path_of_ours_is_made(tmp_path: Path) -> None:
    made = tmp_path / "a" / "b"
    before = os.listdir("/proc/self/fd")
    found = opened(f"{tmp_path}//a/./b/", make=True)
    check(found == identity(made) == opened(made))
    check({path.stat().st_mode & 0o7777 for path in (made, made.parent)} == {0o700})
    with pytest.raises(FileNotFoundError):
        opened(tmp_path / "none")
    check(os.listdir("/proc/self/fd") == before, "no descriptor is lost")


def test_a_relative_path_begins_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check(opened("x", make=True) == identity(tmp_path / "x"))


@pytest.mark.parametrize(
    ("mode", "good"),
    [(0o777, False), (0o770, False), (0o757, False), (0o2775, False),
     (0o1777, True), (0o1770, True), (0o755, True), (0o711, True)],
)  # fmt: skip
def test_modes_of_an_ancestor(mode: int, good: bool, tmp_path: Path) -> None:
    (tmp_path / "above" / "x").mkdir(parents=True, mode=0o700)
    (tmp_path / "above").chmod(mode)
    if os.geteuid() and mode in (0o770, 0o2775):
        pytest.skip("for users other than root their own group may count as themselves")
    for path in (tmp_path / "above", tmp_path / "above" / "x", tmp_path / "above" / "new"):
        if good:
            opened(path, make=True)
            continue
        with pytest.raises(Denied, match=f"above has mode {mode:04o}"):
            opened(path, make=True)
    check((tmp_path / "above" / "new").exists() == good, "nothing is made below what is refused")


def test_links_of_ours_are_followed_but_the_last(tmp_path: Path) -> None:
    real = tmp_path / "real" / "deep"
    real.mkdir(parents=True, mode=0o700)
    (tmp_path / "absolute").symlink_to(tmp_path / "real")
    (tmp_path / "relative").symlink_to("real/../relative2/.")
    (tmp_path / "relative2").symlink_to("./real")
    (tmp_path / "up").symlink_to("real/deep")
    for name in ("absolute", "relative", "relative2"):
        check(opened(tmp_path / name / "deep") == identity(real), name)
        with pytest.raises(Denied, match=f"{name} is a link"):
            opened(tmp_path / name)
    check(opened(tmp_path / "up" / "..") == identity(tmp_path / "real"), ".. is the real parent")


def test_links_and_parts_without_end(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop/x")
    (tmp_path / "file").touch()
    for path in ("loop/x", "file/x", "file", "./" * 9 + "y" * 300, "../" * owned.MOST_PARTS):
        with pytest.raises(OSError, match=r"symbolic links|Not a directory|name too long"):
            opened(tmp_path / path if "../" not in path else f"{tmp_path}/{path}", make=True)


def test_a_link_leads_to_what_others_may_write(tmp_path: Path) -> None:
    (tmp_path / "bad" / "x").mkdir(parents=True)
    (tmp_path / "bad").chmod(0o777)
    (tmp_path / "link").symlink_to("bad")
    with pytest.raises(Denied, match="bad has mode 0777"):
        opened(tmp_path / "link" / "x")


def _mkdir(path: Path) -> Callable[[], None]:
    return lambda: path.mkdir(mode=0o755)


@needs_root
def test_directories_of_another_user(public: Path) -> None:
    (public / "all").mkdir()
    (public / "all").chmod(0o1777)
    theirs, ours = public / "all" / "theirs", public / "all" / "theirs" / "ours"
    as_user(OTHER, _mkdir(theirs))
    ours.mkdir(mode=0o700)
    for path in (theirs, ours, theirs / "new"):
        with pytest.raises(Denied, match=rf"theirs belongs to user {OTHER}\. "):
            opened(path, make=True)
        with pytest.raises(DeviceError, match=f"belongs to user {OTHER}"):
            LinuxState.open(str(path))
    check(not (theirs / "new").exists(), "nothing is made there")
    theirs.chmod(0o1777)
    with pytest.raises(Denied, match=f"theirs belongs to user {OTHER}"):
        opened(ours)
    opened(public / "all" / "mine", make=True)


@needs_root
def test_links_of_another_user(public: Path) -> None:
    (public / "all").mkdir()
    (public / "all").chmod(0o1777)
    (public / "ours").mkdir(mode=0o700)
    as_user(OTHER, lambda: (public / "all" / "link").symlink_to(public / "ours"))
    for path in ("all/link", "all/link/x", "ours/../all/link/x"):
        with pytest.raises(Denied, match=f"all/link belongs to user {OTHER}"):
            opened(public / path, make=True)
    check(not list((public / "ours").iterdir()), "nothing is made where it leads")


ACL_HEAD, ACL_ENTRY = struct.Struct("<I"), struct.Struct("<HHI")
# src: linux/include/uapi/linux/posix_acl_xattr.h: version 2; tag, permissions, id
ACL = [(1, 7, 2**32 - 1), (2, 7, OTHER), (4, 7, 2**32 - 1), (16, 7, 2**32 - 1), (32, 5, 2**32 - 1)]


def private_user() -> int:
    """A user with a group of the same number and name, and nobody else in it."""
    import grp

    groups = {group.gr_gid: group for group in grp.getgrall()}
    for user in pwd.getpwall():
        group = groups.get(user.pw_uid)
        if user.pw_uid and group and group.gr_name == user.pw_name and not group.gr_mem:
            return user.pw_uid
    pytest.skip("a user with a private group in /etc/passwd")


@needs_root
def test_a_users_private_group_counts_as_the_user(public: Path) -> None:
    user, path = private_user(), public / "x"
    (path / "y").mkdir(parents=True)
    for one in (path, path / "y"):
        os.chown(one, user, user)
        one.chmod(0o775 if one == path else 0o700)
    as_user(user, lambda: opened(path / "y"))

    def refused(what: str) -> None:
        with pytest.raises(Denied, match="mode 0"):
            opened(path / "y")
        check(what)

    os.chown(path, user, OTHER)
    as_user(user, lambda: refused("another group"))
    os.chown(path, user, user)
    path.chmod(0o777)
    as_user(user, lambda: refused("everybody"))
    path.chmod(0o775)
    acl = ACL_HEAD.pack(2) + b"".join(ACL_ENTRY.pack(*entry) for entry in ACL)
    try:
        os.setxattr(path, "system.posix_acl_access", acl)
    except OSError:
        pytest.skip("a file system with access control lists")
    as_user(OTHER, lambda: (path / "planted").mkdir())
    as_user(user, lambda: refused("one more user, by the list"))

"""Processes that hold a GPU, and whose files this user cannot see."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from drivers.base.errors import NotFound
from drivers.claim.claim import claim, plan
from drivers.claim.holders import Nodes, holders
from drivers.claim.refusal import Reason, Refused
from drivers.world.linux import LinuxWorld
from drivers.world.state import LinuxState
from tests.pci_tree import GPU, TreeWorld, desktop
from tests.reliability.test_claim_rules import holding, known, vfio
from tests.support import check

FULL = os.makedev(1, 7)
"""src: full(4): a device that nobody has open."""


def test_processes_that_cannot_be_seen(tmp_path: Path) -> None:
    tree = desktop(tmp_path / "machine")
    hidden = TreeWorld(tree.root, denied=("/proc/812/fd",))
    found = plan(hidden, GPU, known).refusals
    check([refusal.reason for refusal in found] == [Reason.UNSEEN], str(found))
    vfio()(tree)
    check(plan(hidden, GPU, known).refusals == (), "VFIO lets one process in")


def test_processes_that_are_hidden(tmp_path: Path) -> None:
    """hidepid=2: /proc has no entry for another user's process, so whoever holds it is unseen."""
    tree = desktop(tmp_path / "machine")
    for pid in (1, 812):
        shutil.rmtree(tree.at(f"/proc/{pid}"))
    holding("pipe:[1]")(tree)
    world = TreeWorld(tree.root)
    with pytest.raises(Refused, match="hidepid") as caught:
        claim(world, LinuxState.open(str(tmp_path)), GPU, known)
    check(caught.value.reasons == (Reason.UNSEEN,) and "as root" in caught.value.hint)
    check(not world.writes and tree.bound() == "amdgpu")
    vfio()(tree)
    check(plan(world, GPU, known).refusals == (), "VFIO lets one process in")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make nodes")
def test_a_real_node_that_was_made_elsewhere(tmp_path: Path) -> None:
    """Linux itself: /dev/full under another name, open in another process."""
    node, none = str(tmp_path / "mygpu"), frozenset[str]()
    ours = Nodes(names=none, paths=none, address=GPU, numbered="", numbers=frozenset({FULL}))
    try:
        os.mknod(node, stat.S_IFCHR | 0o600, FULL)
        fd = os.open(node, os.O_RDONLY)
    except PermissionError:
        pytest.skip("nodes cannot be made, or opened, in this container")
    ready, wait = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(wait)
        os.read(ready, 1)
        os._exit(0)
    os.close(fd)
    try:
        found, _ = holders(LinuxWorld(), ours)
    finally:
        os.close(wait)
        os.waitpid(child, 0)
        os.close(ready)
    (holder,) = (one for one in found if one.pid == child)
    check(node in holder.target and holder.evidence == f"/proc/{child}/fd/{fd}", f"{holder}")
    check(not any(one.pid == os.getpid() for one in found), "this process closed it")


def test_without_proc(tmp_path: Path) -> None:
    tree = desktop(tmp_path / "machine")
    shutil.rmtree(tree.at("/proc"))
    with pytest.raises(NotFound, match="mount -t proc"):
        claim(TreeWorld(tree.root), LinuxState.open(str(tmp_path)), GPU, known)

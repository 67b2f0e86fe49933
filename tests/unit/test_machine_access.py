"""Device nodes are tried with open(2): what access(2) allows may still not open."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from drivers.amd.tools.look import look, look_briefly
from drivers.doctor import run
from drivers.doctor.checks import nodes
from drivers.machine.access import opened
from drivers.nv.tools.look import look as look_nv
from drivers.probe import Machine
from drivers.probe.kinds import CHECKS
from drivers.world.linux import LinuxWorld
from tests.amd_trees import GFX1100, machine
from tests.fake_machine import X86, FakeMachine
from tests.support import check

KFD, RENDER = "/dev/kfd", "/dev/dri/renderD128"
DEVICE = "/sys/class/drm/renderD128/device"
UNTRIED = {
    "/dev/nvidia0": {},
    "/dev/kgsl-3d0": {},
    RENDER: {f"{DEVICE}/power/runtime_status": b"suspended\n"},
    "/dev/dri/renderD129": {"/sys/class/drm/renderD129/device/driver": "a/msm_dpu"},
}


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENXIO, "module is not loaded"),  # fs/char_dev.c: nobody has the number
        (errno.ENODEV, "module is not loaded"),
        (errno.EPERM, "--device="),  # security/device_cgroup.c
        (errno.EACCES, "nodev"),  # fs/namei.c, may_open_dev
        (errno.EAGAIN, "try again"),  # kfd_chardev.c: a reset is under way
    ],
)
def test_what_access_allows_may_not_open(number: int, says: str) -> None:
    world = FakeMachine({**X86, **machine(GFX1100), "/dev/nvidiactl": b""})
    world.refuses = dict.fromkeys([KFD, "/dev/nvidiactl", RENDER], number)
    check(world.access(KFD, os.R_OK | os.W_OK), "as on the reporters' machines")
    for path in world.refuses:
        found = opened(world, path)
        check(not found.ok and path in found.reason and says in found.advice, str(found))
    lines = [line for line in run({"nodes": nodes}, world, {}) if line.text.startswith("open /dev")]
    check({line.state for line in lines} == {"warn"} and len(lines) == 3, str(lines))
    seen = look(world)
    check(not seen.kfd.ok and not seen.gpus[0].render.ok, str(seen.kfd))
    check(not look_nv(world).control.ok, "NVIDIA's nodes, too")
    row = CHECKS["AMD", "KFD"](Machine(world, {}, {}.get))
    check(not row.ready and errno.errorcode[number] in row.reason, str(row))


def test_a_node_is_opened_and_closed() -> None:
    world = FakeMachine({**X86, **machine(GFX1100)})
    check(opened(world, KFD) == (True, "/dev/kfd can be opened", ""))
    check(look(world).gpus[0].render.reason == f"{RENDER} can be opened")
    check(world.opened == [KFD, KFD, RENDER] and not world.fds, str(world.opened))


def test_the_owners_group_is_named_where_the_mode_is_in_the_way() -> None:
    world = FakeMachine({**X86, KFD: b""}, (KFD,))
    found = opened(world, KFD)
    check(not found.ok and "its group is 992 (render)" in found.advice, str(found))


@pytest.mark.parametrize("path", UNTRIED)
def test_no_gpu_is_started_or_woken(path: str) -> None:
    files = {**X86, path: b"", **UNTRIED[path]}
    world = FakeMachine(files)
    found = opened(world, path)
    check(found.ok and "may be opened by this user (not tried: that would" in found.reason)
    check(not world.opened, str(world.opened))
    found = opened(FakeMachine(files, (path,)), path)
    check(not found.ok and found.advice, str(found))


def test_a_gpu_that_is_awake_is_tried() -> None:
    world = FakeMachine({**X86, RENDER: b"", f"{DEVICE}/power/runtime_status": b"active\n"})
    check(opened(world, RENDER).ok and world.opened == [RENDER])


def test_choosing_the_default_device_opens_nothing() -> None:
    world = FakeMachine({**X86, **machine(GFX1100)})
    check(look_briefly(world).gpus[0].numbered and not world.opened)


def test_a_real_node_without_a_driver(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root makes device nodes")
    node = tmp_path / "nvidiactl"
    try:
        os.mknod(node, 0o020666, os.makedev(195, 255))  # src: nv-chardev-numbers.h
    except PermissionError:
        pytest.skip("no device nodes may be made here")
    found = opened(LinuxWorld(), str(node))
    check(not found.ok and os.access(node, os.R_OK | os.W_OK), str(found))

"""Every call that imports or exports a dma-buf fails: the right error, and nothing is left."""

from __future__ import annotations

import errno
import gc
from collections.abc import Callable
from dataclasses import astuple
from functools import partial

import numpy as np
import pytest

from boards.amd.kfd.types import IOCTLS as NAMES
from boards.amd.kfd.world import BoardWorld
from boards.amd.machine import Options, open_board
from drivers.amd.kfd.session import close_session
from drivers.base.contracts import World
from drivers.base.errors import (
    BadArgument,
    Busy,
    Denied,
    DeviceError,
    DeviceGone,
    MalformedInput,
    OutOfMemory,
    Unsupported,
)
from drivers.gpu.iface import GpuIface, Memory
from drivers.gpu.lent import export
from drivers.world.fault import Fault
from drivers.world.faulty import FaultyWorld
from drivers.world.foreign import ForeignWorld
from tests.boards.driver_harness import get, open_on, put
from tests.reliability.amd_scene import CHIP, FILLS, Bend, BentWorld, let_go
from tests.support import check

NUMBER = {name: number for number, (name, _) in NAMES.items()}
ERRORS = {
    errno.EBUSY: Busy,
    errno.ENOMEM: OutOfMemory,
    errno.EINVAL: Unsupported,
    errno.EPERM: Denied,
    errno.ENODEV: DeviceGone,
    errno.EIO: DeviceGone,
    errno.EBADF: DeviceError,
}
VALUES = np.arange(1 << 16, dtype=np.float32) * 2
CALLS = ("get_dmabuf_info", "import_dmabuf", "map_memory_to_gpu", "export_dmabuf")


def board() -> BoardWorld:
    return open_board(CHIP, vram_bytes=256 << 20, options=Options(gtt_bytes=64 << 20))


class Scene:
    """An open device, a buffer of it that is exported, and the descriptor of that."""

    def __init__(self, one: BoardWorld, world: World) -> None:
        self.one, self.world = one, world
        self.device = open_on(world)
        self.source = put(self.device, VALUES)
        self.fd = export(self.source).fd
        self.read()

    def read(self) -> None:
        """Import a part, read it, give it back."""
        part = self.device.import_dmabuf(self.fd, 64, 1024, None)
        np.testing.assert_array_equal(get(self.device, part, "float32"), VALUES[16:272])
        part.free()
        self.device.synchronize()
        self.device.heap.reclaim()

    def export(self) -> None:
        """Export, and close the descriptor."""
        self.one.close(export(self.source).fd)

    @property
    def alive(self) -> tuple[object, ...]:
        """What the kernel keeps, and what the driver counts."""
        gc.collect()
        iface = self.device.iface
        return *astuple(self.one.baseline())[:-1], iface.handles, iface.bytes_held

    def close(self) -> None:
        """Afterwards the board is as it was in the beginning."""
        self.read()
        self.export()
        self.source.free()
        self.device.close()
        self.one.close(self.fd)
        close_session(self.world)
        check(not any(astuple(self.one.baseline())[:-1]), f"left: {self.one.baseline()}")
        check(not self.one.violations, f"{self.one.violations}")


def attempt(call: Callable[[], None]) -> DeviceError | None:
    """Its error, without what the traceback holds."""
    try:
        call()
    except DeviceError as error:
        let_go(error)
        return error
    return None


def test_an_older_kernel_exports_nothing() -> None:
    """src: kfd_ioctl.h of Linux 6.1: KFD 1.11 ends before EXPORT_DMABUF."""
    one = board()
    scene = Scene(one, ForeignWorld(one))
    session = scene.device.iface.session
    session.minor, now = 11, session.minor
    with pytest.raises(Unsupported, match=r"KFD 1\.11 exports no dma-buf.*1\.12"):
        scene.export()
    session.minor = now
    scene.close()


def take(iface: GpuIface, fd: int, made: list[Memory]) -> None:
    made.append(iface.import_dmabuf(fd, 0, 4096))


@pytest.mark.parametrize("name", CALLS)
def test_every_ioctl_with_every_errno(name: str) -> None:
    one = board()
    world = BentWorld(one)
    scene = Scene(one, world)
    call = scene.export if name == "export_dmabuf" else scene.read
    before = scene.alive
    for code, kind in ERRORS.items():
        for fill in FILLS:
            world.bend = Bend(NUMBER[name], 1, code, fill)
            error = attempt(call)
            check(world.bend.met, f"{name} was not called")
            world.bend = None
            told = name == "get_dmabuf_info" and code == errno.EINVAL
            check(type(error) is (BadArgument if told else kind), f"{name}, {code}: {error!r}")
            check(told or f"AMDKFD_IOC_{name.upper()}" in str(error), f"{error}")
            check(scene.alive == before, f"{name} with {code} left {scene.alive}, not {before}")
    scene.close()


@pytest.mark.parametrize("name", ["get_dmabuf_info", "import_dmabuf", "export_dmabuf"])
@pytest.mark.parametrize("fill", FILLS)
def test_every_ioctl_that_tells_garbage(name: str, fill: str) -> None:
    """What it made cannot be given back by somebody who was told garbage: one object, no more."""
    one = board()
    world = BentWorld(one)
    scene = Scene(one, world)
    before = one.baseline()
    world.bend = Bend(NUMBER[name], 1, 0, fill)
    if name == "export_dmabuf":
        fds: list[int] = []
        error = attempt(lambda: fds.append(export(scene.source).fd))
        check(isinstance(error, MalformedInput) or fds[0] < 1 << 31, f"{error!r}")
    else:
        error = attempt(scene.read)
        allowed = (MalformedInput, Unsupported) if name == "get_dmabuf_info" else MalformedInput
        check(isinstance(error, allowed), f"{error!r}")
    check(world.bend.met)
    world.bend = None
    now = one.baseline()
    check(now.fds - before.fds == int(name == "export_dmabuf"), f"{now}")
    check(now.buffers - before.buffers == int(name == "import_dmabuf"), f"{now}")
    check(now.mapped_to_gpus == before.mapped_to_gpus, f"{now}")
    scene.read()
    scene.device.close()


@pytest.mark.parametrize("fault", [Fault.of_errno(errno.EIO), Fault.of_errno(errno.EMFILE)])
def test_every_operation_of_an_import_fails(fault: Fault) -> None:
    """The duplicate, its close and the reservation, too."""
    one = board()
    world = FaultyWorld(ForeignWorld(one), -1, fault)
    scene = Scene(one, world)
    iface, before, failed = scene.device.iface, scene.alive, []
    for step in range(20):
        world.failed, world.fail_at = "", world.count + step
        made: list[Memory] = []
        error = attempt(partial(take, iface, scene.fd, made))
        world.fail_at = -1
        for memory in made:
            memory.free()
        if not world.failed:
            break
        failed.append(world.failed)
        check(isinstance(error, DeviceError), f"{world.failed}: {error!r}")
        check(scene.alive == before, f"{world.failed} left {scene.alive}, not {before}")
    kinds = [one.split()[0] for one in failed]
    wanted = ["duplicate", "ioctl", "reserve", "ioctl"]
    check(kinds[:4] == wanted and "close" in kinds, f"{failed}")
    scene.close()

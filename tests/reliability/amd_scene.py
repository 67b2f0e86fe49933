"""A short life with a GPU (open, copy, launch, copy back, close) in front of worlds that fail."""

from __future__ import annotations

import random
import traceback
from dataclasses import astuple, dataclass

import numpy as np

from boards.amd.kfd.world import BoardWorld
from boards.amd.machine import Options, open_board
from drivers.amd.device import AmdDevice
from drivers.amd.kfd.session import close_session
from drivers.base.contracts import World
from drivers.base.errors import DeviceError, DeviceFault
from drivers.base.oserrors import translate
from drivers.world.foreign import ForeignWorld
from tests import amd_kernels
from tests.boards.driver_harness import add, get, kernel, open_on, put
from tests.support import check

CHIP = "gfx1100"
N = 64
FILLS = ("zero", "ones", "random")
_RANDOM = random.Random(7)


def filled(nbytes: int, fill: str) -> bytes:
    """What a failing ioctl leaves in its struct."""
    if fill == "random":
        return _RANDOM.randbytes(nbytes)
    return bytes([0xFF * (fill == "ones")]) * nbytes


@dataclass(slots=True)
class Bend:
    """The `at`-th ioctl of a number, and the `times - 1` after it, go wrong.

    With an errno of 0 the kernel did what was asked, and what it told is garbage.
    """

    number: int
    at: int
    error: int
    fill: str
    times: int = 1
    seen: int = 0

    @property
    def met(self) -> bool:
        return self.seen >= self.at


class BentWorld(ForeignWorld):
    """A board's world in which one kind of ioctl goes wrong while `bend` is set."""

    def __init__(self, board: BoardWorld) -> None:
        super().__init__(board)
        self.bend: Bend | None = None

    def ioctl(self, fd: int, request: int, argument: bytearray) -> int:
        bend = self.bend
        if bend is None or request & 0xFF != bend.number:
            return super().ioctl(fd, request, argument)
        bend.seen += 1
        if not bend.at <= bend.seen < bend.at + bend.times:
            return super().ioctl(fd, request, argument)
        if not bend.error:
            super().ioctl(fd, request, argument)
        argument[:] = filled(len(argument), bend.fill)
        if not bend.error:
            return 0
        cause = OSError(bend.error, "injected")
        error = translate(cause, f"ioctl {request:#010x} (injected)")
        raise error from cause


def board() -> BoardWorld:
    """A small board."""
    return open_board(CHIP, vram_bytes=256 << 20, options=Options(gtt_bytes=64 << 20))


def work(device: AmdDevice) -> None:
    """Copy in, launch (once with private memory), copy out; wrong results are errors."""
    a = np.arange(N, dtype=np.float32)
    x, y = put(device, a), device.alloc(4 * N)
    device.launch(device.load(add(device.arch)), [x, x, y, N], 1)
    np.testing.assert_array_equal(get(device, y), a + a)
    device.launch(device.load(kernel(amd_kernels.scratch(), device.arch, 64)), [y, 3], 1)
    np.testing.assert_array_equal(get(device, y, "int32"), 9 + np.arange(N))


def trouble(one: BoardWorld, device: AmdDevice) -> None:
    """A page fault is told, and forgotten."""
    one.panel.page_fault(device.alloc(64).gpu_va)
    never = device.new_signal()
    try:
        never.wait(1, 0.01)
    except DeviceFault:
        return
    raise AssertionError("nobody told of the page fault")


def life(one: BoardWorld, world: World, queue: str = "PM4") -> None:
    """All of it, once."""
    with open_on(world, queue) as device:
        work(device)
        trouble(one, device)


def outcome(one: BoardWorld, world: World, queue: str) -> DeviceError | None:
    """The error of a life, undone as far as it was done. Errors that are not ours go on."""
    try:
        life(one, world, queue)
    except DeviceError as error:
        let_go(error)
        return error
    return None


def let_go(error: BaseException) -> None:
    """Drop the frames that an error and its causes hold, and with them views of memory."""
    chain: list[BaseException | None] = [error]
    for link in chain:
        if link is not None and link.__traceback__ is not None:
            traceback.clear_frames(link.__traceback__)
            link.__traceback__ = None
            chain += [link.__cause__, link.__context__]


def left(one: BoardWorld) -> dict[str, int]:
    """What is alive although every device is closed, without what the session keeps."""
    now = one.baseline()
    session = one.process is not None and bool(now.fds)
    kept = {"fds": 2, "mappings": 3, "processes": 1, "buffers": 1, "gtt_bytes": 32 << 10,
            "mapped_to_gpus": 1} if session else {}  # fmt: skip
    names = ("fds", "mappings", "processes", "buffers", "queues", "events", "vram_bytes",
             "gtt_bytes", "mapped_to_gpus")  # fmt: skip
    most = {name: max(getattr(now, name) - kept.get(name, 0), 0) for name in names}
    return {name: count for name, count in most.items() if count}


def nothing_left(one: BoardWorld, world: World, what: str) -> None:
    """After the session too the board is as it was in the beginning."""
    close_session(world)
    check(not any(astuple(one.baseline())[:-1]), f"{what} left {one.baseline()}")

"""A short life with an NVIDIA GPU (open, copy, launch, fault, close), where requests go wrong."""

from __future__ import annotations

import gc
import struct
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np

from boards.machine import host
from boards.nv.hardware import NvOptions
from boards.nv.launch import KnownKernels, SmException
from boards.nv.machine import open_nv_board
from drivers.base.contracts import World
from drivers.base.errors import DeviceError, DeviceFault
from drivers.base.oserrors import translate
from drivers.choice import choose
from drivers.nv.device import NvDevice
from drivers.nv.nvk import escapes, uvm
from drivers.nv.nvk.uvm import UvmIoctl
from drivers.nv.opening import open_nv
from drivers.world.foreign import ForeignWorld
from tests.boards.nv_harness import CODE, add, arguments, binary
from tests.reliability.amd_scene import filled, let_go
from tests.support import check

N = 64
CHIP = "ga102"
STOPS = 666
"""A count with which the kernel is an illegal instruction."""
ESCAPES = {one.request: name for name, one in escapes.ESCAPES.items()}
UVM = {one.request: one.name for one in vars(uvm).values() if isinstance(one, UvmIoctl)}
CONTROL, ALLOC = escapes.RM_CONTROL.request, escapes.RM_ALLOC.request
_COMMAND_AT = {CONTROL: 8, ALLOC: 12}
"""Where both have what is asked for; params and their size are behind it at 16."""
_STATUS_AT = {
    **{one.request: _offset for one, _offset in (
        (escapes.RM_ALLOC, 28), (escapes.RM_CONTROL, 28), (escapes.RM_FREE, 12),
        (escapes.RM_MAP_MEMORY, 40), (escapes.RM_UNMAP_MEMORY, 24),
        (escapes.RM_ALLOC_MEMORY, 40),
    )},
}  # fmt: skip
"""# src: nvos.h, compiled: tests/abi/nv_headers.json"""


def kernel(launch: Any) -> None:
    """An addition, or an illegal instruction."""
    if arguments(launch)[3] == STOPS:
        raise SmException(0x09, launch.code_va + 16, "made up")
    add(launch)


def board(driver: int = 580, gpus: int = 1) -> Any:
    """A small board with a kernel."""
    options = NvOptions(driver=driver, vram_bytes=64 << 20, system_bytes=64 << 20)
    one = open_nv_board(CHIP, gpus=gpus, options=options)
    for gpu in one.gpus:
        gpu.executor = KnownKernels({CODE: kernel})
    return one


def open_on(world: World, index: int = 0) -> NvDevice:
    """The device of one of a board's GPUs; a hang is one after two seconds of the board."""
    return open_nv(world, replace(choose({"DEV": f"NV:{index}"}), hang_s=2.0))


def work(device: NvDevice) -> None:
    """Copy in, launch, copy out; wrong results are errors."""
    data = np.arange(N, dtype=np.uint32)
    a, c = device.alloc(data.nbytes), device.alloc(data.nbytes)
    device.copy_in(a, memoryview(data))
    device.launch(device.load(binary(device)), [c, a, a, N], 1)
    out = np.zeros(N, np.uint32)
    device.copy_out(memoryview(out), c)
    np.testing.assert_array_equal(out, 2 * data)


def trouble(device: NvDevice) -> None:
    """An illegal instruction is reported, and the next work runs."""
    program, a = device.load(binary(device)), device.alloc(64)
    device.launch(program, [a, a, a, STOPS], 1)
    try:
        device.synchronize(5.0)
    except DeviceFault:
        return
    raise AssertionError("nobody reported the fault")


def pinned(device: NvDevice, world: World) -> None:
    """Memory of the process is wrapped."""
    region = world.mmap(-1, 4096)
    try:
        device.wrap(region.view()).free()
        device.synchronize(5.0)
        device.trim()
        device.heap.take_back()
    finally:
        region.close()


def life(world: World) -> None:
    """All of it, once."""
    with open_on(world) as device:
        work(device)
        pinned(device, world)
        trouble(device)
        work(device)


def outcome(world: World) -> DeviceError | None:
    """The error of a life, undone as far as it was done. Errors that are not ours go on."""
    try:
        life(world)
    except DeviceError as error:
        let_go(error)
        return error
    return None


def nothing_left(one: Any, what: str) -> None:
    """The board is as it was in the beginning."""
    if one.baseline().mappings:
        gc.collect()  # views in cycles of an error and its frames
    check(sum(astuple(one.baseline())) == 0, f"{what} left {one.baseline()}")


def key_of(request: int, argument: bytes) -> tuple[int, int]:
    """What is asked: a request, and the control's or class's number."""
    at = _COMMAND_AT.get(request)
    return request, struct.unpack_from("<I", argument, at)[0] if at is not None else 0


def name_of(key: tuple[int, int]) -> str:
    """A name for a test's id."""
    request, command = key
    name = ESCAPES.get(request) or UVM[request]
    return f"{name}-{command:#x}" if command else name


@dataclass(slots=True)
class Bend:
    """The `at`-th request of a kind, and the `times - 1` after it, go wrong in one way.

    `error`: an errno, nothing is done. `status`: an NV_STATUS, nothing is done. Else it was done,
    and its struct, or the parameters behind it, are garbage with a status of success.
    """

    key: tuple[int, int]
    fill: str
    error: int = 0
    status: int = 0
    params: bool = False
    at: int = 1
    times: int = 1
    seen: int = 0

    @property
    def met(self) -> bool:
        return self.seen >= self.at


class BentWorld(ForeignWorld):
    """A board's world in which one kind of request goes wrong while `bend` is set."""

    def __init__(self, one: Any) -> None:
        super().__init__(one)
        self.bend: Bend | None = None
        self.keys: dict[tuple[int, int], int] = {}
        """How often everything was asked."""

    def ioctl(self, fd: int, request: int, argument: bytearray | int) -> int:
        if isinstance(argument, int):
            return super().ioctl(fd, request, argument)
        key, bend = key_of(request, bytes(argument)), self.bend
        self.keys[key] = self.keys.get(key, 0) + 1
        if bend is None or key != bend.key:
            return super().ioctl(fd, request, argument)
        bend.seen += 1
        if not bend.at <= bend.seen < bend.at + bend.times:
            return super().ioctl(fd, request, argument)
        return self._bent(bend, fd, request, argument)

    def _bent(self, bend: Bend, fd: int, request: int, argument: bytearray) -> int:
        if bend.error:
            argument[:] = filled(len(argument), bend.fill)
            cause = OSError(bend.error, "injected")
            raise translate(cause, f"ioctl {request:#010x} (injected)") from cause
        status_at = self._status_at(request, argument)
        if bend.status:
            struct.pack_into("<I", argument, status_at, bend.status)
            return 0
        where, size = struct.unpack_from("<QI", argument, 16) if bend.params else (0, 0)
        super().ioctl(fd, request, argument)
        if bend.params and where:
            host.copy_to_user(where, filled(size, bend.fill))
        elif not bend.params:
            argument[:] = filled(len(argument), bend.fill)
            if status_at >= 0:
                struct.pack_into("<I", argument, status_at, 0)
        return 0

    @staticmethod
    def _status_at(request: int, argument: bytearray) -> int:
        """Where a request has its status; -1 where it has none."""
        if request in UVM:
            kind = next(one.args for one in vars(uvm).values() if isinstance(one, UvmIoctl)
                        and one.request == request and len(argument) == one.args.SIZE)  # fmt: skip
            return next(f.offset for f in kind.FIELDS if f.name == "rm_status")
        return _STATUS_AT.get(request, -1)

"""Every request to RM and UVM fails in every way: the right error, nothing left, then it works.

R3: each escape, each class that is allocated, each control and each request of UVM, with each errno
and each kind of NV_STATUS, and with zeros, ones or noise in what it gives back.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from drivers.base.errors import (
    BadArgument,
    Busy,
    Denied,
    DeviceError,
    DeviceFault,
    DeviceGone,
    DeviceTimeout,
    MalformedInput,
    NotFound,
    OutOfMemory,
    Unsupported,
)
from drivers.nv.nvk import escapes, uvm
from drivers.nv.nvk.status import check_status
from drivers.nv.nvk.uvm import UvmIoctl
from tests.reliability.amd_scene import FILLS
from tests.reliability.nv_scene import (
    ALLOC,
    CONTROL,
    Bend,
    BentWorld,
    board,
    life,
    name_of,
    nothing_left,
    outcome,
)
from tests.reliability.test_amd_ioctls import CLASSES, RETRIED, Refusing, spoil
from tests.support import check

STATUSES = {
    0x51: OutOfMemory, 0x0F: DeviceGone, 0x62: DeviceGone, 0x56: Unsupported, 0x22: Unsupported,
    0x3A: Unsupported, 0x1B: Denied, 0x17: Busy, 0x03: Busy, 0x1A: Busy, 0x4F: Busy,
    0x65: DeviceTimeout, 0x57: NotFound, 0x12: NotFound, 0x26: NotFound, 0x60: DeviceFault,
    0x1F: BadArgument, 0x21: BadArgument, 0x2E: BadArgument, 0x33: BadArgument, 0x40: BadArgument,
    0x59: BadArgument, 0x7F: BadArgument, 0xFFFF: BadArgument, 0x1E: BadArgument,
    0x5D: DeviceGone,
}  # fmt: skip
"""NV_ERR_* by number. # src: src/common/sdk/nvidia/inc/nvstatuscodes.h: NO_MEMORY 0x51,
# src: GPU_IS_LOST 0x0F, RESET_REQUIRED 0x62, NOT_SUPPORTED 0x56, INVALID_CLASS 0x22,
# src: INVALID_PARAM_STRUCT 0x3A, INSUFFICIENT_PERMISSIONS 0x1B, IN_USE 0x17, BUSY_RETRY 0x03,
# src: INSUFFICIENT_RESOURCES 0x1A, NO_FREE_FIFOS 0x4F, TIMEOUT 0x65, OBJECT_NOT_FOUND 0x57,
# src: GPU_UUID_NOT_FOUND 0x12, INVALID_DEVICE 0x26, RC_ERROR 0x60, GENERIC 0xFFFF,
# src: PAGE_TABLE_NOT_AVAIL 0x5D"""
NO_MEMORY = 0x51
SOME_STATUSES = (NO_MEMORY, 0x0F, 0x56, 0x1F, 0x65, 0x1A)
E, U = escapes, uvm
CLASSES_ALLOCATED = (0x41, 0x80, 0x2080, 0x90F1, 0xC561, 0x3E, 0xA06C, 0x9067, 0xC56F, 0xC7C0,
                     0xC7B5, 0x40, 0x83DE)  # fmt: skip
CONTROLS = (0x205, 0x800201, 0x20800145, 0x2080200A, 0x20801201, 0x20801303, 0x20800170,
            0x2080014A, 0xC36F0108, 0xA06C0101, 0x83DE0328, 0x83DE030C)  # fmt: skip
PLAIN = (E.CHECK_VERSION_STR, E.CARD_INFO, E.REGISTER_FD, E.RM_MAP_MEMORY, E.RM_UNMAP_MEMORY,
         E.RM_ALLOC_MEMORY, E.RM_FREE, U.INITIALIZE, U.MM_INITIALIZE, U.REGISTER_GPU,
         U.REGISTER_GPU_VASPACE, U.CREATE_EXTERNAL_RANGE, U.MAP_EXTERNAL_ALLOCATION,
         U.REGISTER_CHANNEL, U.FREE, U.UNREGISTER_CHANNEL, U.UNREGISTER_GPU_VASPACE,
         U.UNREGISTER_GPU)  # fmt: skip
KEYS = (
    *((one.request, 0) for one in PLAIN), *((ALLOC, number) for number in CLASSES_ALLOCATED),
    *((CONTROL, number) for number in CONTROLS),
)  # fmt: skip
NO_STATUS = {one.request for one in (E.CHECK_VERSION_STR, E.CARD_INFO, E.REGISTER_FD)}
REPORTS = {(CONTROL, 0x83DE0328), (CONTROL, 0x83DE030C)}
"""Asked after a fault: without them it is reported with less."""
HINTS = {(ALLOC, 0x83DE), (CONTROL, 0x2080200A)}
"""The debugger object and the clocks: where RM refuses them, everything else works."""
GIVES_BACK = {(one.request, 0) for one in (
    E.RM_FREE, E.RM_UNMAP_MEMORY, U.FREE, U.UNREGISTER_CHANNEL,
)}  # fmt: skip
"""The first of these happen while a stopped channel is replaced: the fault is reported."""
RESERVATION, NOT_SUPPORTED = (CONTROL, 0x20800145), 0x56
"""Without a reservation opening goes on: a divided GPU fails later."""
VIDEO = (ALLOC, 0x40)
"""Where memory is short, cached memory is given back, and it is asked for again."""
each = pytest.mark.parametrize("key", KEYS, ids=name_of)


def test_these_are_the_requests_of_a_life() -> None:
    one = board()
    world = BentWorld(one)
    life(world)
    check(set(world.keys) == set(KEYS), str(set(world.keys) ^ set(KEYS)))
    nothing_left(one, "a life")


WRAPPERS: list[Any] = [
    *escapes.ESCAPES.values(), *(one for one in vars(uvm).values() if isinstance(one, UvmIoctl))
]  # fmt: skip


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda one: f"{one.name}-{one.args.SIZE}")
def test_every_wrapper_with_every_errno(wrapper: Any) -> None:
    for number, kind in CLASSES.items():
        for fill in FILLS:
            forever = Refusing(number, partial(spoil, fill), 1 << 30)
            with pytest.raises(kind, match=wrapper.name) as caught:
                wrapper(forever, 3, wrapper.args())
            cause = caught.value.__cause__
            check(isinstance(cause, OSError) and cause.errno == number)
            check((len(forever.given) == 1) == (number not in RETRIED), f"{len(forever.given)}")


def test_every_status() -> None:
    for number, kind in STATUSES.items():
        with pytest.raises(DeviceError) as caught:
            check_status(number, "the call", 4096)
        check(type(caught.value) is kind, f"{number:#x}: {caught.value!r}")
        check("the call" in str(caught.value) and bool(caught.value.hint), str(caught.value))
    for warning in (0x0, 0x10001, 0x10007, 0x1FFFF):
        check_status(warning, "the call")


def bent(bends: list[Bend], judge: Callable[[Bend, DeviceError | None], None]) -> None:
    """Lives that fail, one after the other on one board; then one that does not."""
    one = board()
    world = BentWorld(one)
    for bend in bends:
        world.bend = bend
        error = outcome(world)
        world.bend = None
        check(bend.met, f"{bend} never happened")
        judge(bend, error)
        nothing_left(one, str(bend))
    life(world)
    nothing_left(one, "the life after them")


@each
def test_every_request_with_every_errno(key: tuple[int, int]) -> None:
    def judge(bend: Bend, error: DeviceError | None) -> None:
        quiet = bend.error in RETRIED and bend.times == 1
        if quiet or key in REPORTS or (key == VIDEO and bend.error == errno.ENOMEM):
            check(error is None, f"{bend}: {error!r}")
        else:
            kinds = (CLASSES[bend.error], *((DeviceFault,) if key in GIVES_BACK else ()))
            check(type(error) in kinds, f"{bend}: {error!r}")

    last = errno.EIO
    bends = [Bend(key, FILLS[n % len(FILLS)], error=code) for n, code in enumerate(CLASSES)]
    bends += [Bend(key, fill, error=last) for fill in FILLS]
    bent([*bends, Bend(key, "random", error=errno.EAGAIN, times=1 << 30)], judge)


@pytest.mark.parametrize("key", [key for key in KEYS if key[0] not in NO_STATUS], ids=name_of)
def test_every_request_that_is_refused(key: tuple[int, int]) -> None:
    def judge(bend: Bend, error: DeviceError | None) -> None:
        passed = {(VIDEO, NO_MEMORY), (RESERVATION, NOT_SUPPORTED)}
        if key in REPORTS | HINTS or (key, bend.status) in passed:
            check(error is None, f"{bend}: {error!r}")
        else:
            kinds = (STATUSES[bend.status], *((DeviceFault,) if key in GIVES_BACK else ()))
            check(type(error) in kinds, f"{bend}: {error!r}")

    bent([Bend(key, "zero", status=number) for number in SOME_STATUSES], judge)


@each
def test_every_request_that_answers_garbage(key: tuple[int, int]) -> None:
    """It did what was asked, and says so; the rest of its answer is garbage."""

    def judge(bend: Bend, error: DeviceError | None) -> None:
        check(error is None or isinstance(error, DeviceError), f"{bend}: {error!r}")
        if key[0] in (ALLOC, E.CHECK_VERSION_STR.request) and not bend.params:
            wanted = key not in REPORTS
            check((error is not None) == wanted, f"{name_of(key)} {bend}: {error!r}")

    bends = [Bend(key, fill) for fill in FILLS]
    if key[0] in (ALLOC, CONTROL):
        bends += [Bend(key, fill, params=True) for fill in FILLS]
    bent(bends, judge)


LISTS = {(CONTROL, 0x20800170), (CONTROL, 0x2080014A), (CONTROL, 0x800201)}
"""Whose counts and lengths are used to read on."""


@pytest.mark.parametrize("key", sorted(LISTS), ids=name_of)
def test_counts_and_lengths_that_are_impossible(key: tuple[int, int]) -> None:
    def judge(bend: Bend, error: DeviceError | None) -> None:
        check(type(error) is MalformedInput, f"{bend}: {error!r}")

    bent([Bend(key, "ones", params=True), Bend(key, "zero", params=True)], judge)

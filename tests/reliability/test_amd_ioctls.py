"""Every ioctl of the AMD driver fails in every way: the right error, nothing leaked, then it works.

R3: each wrapper, with each errno, and with zeros, ones or noise in the struct that it gives back.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial

import pytest

from boards.amd.kfd.types import IOCTLS as NAMES
from drivers.amd.kfd import abi as kfd_abi
from drivers.base.errors import (
    Busy,
    Denied,
    DeviceError,
    DeviceGone,
    DeviceTimeout,
    MalformedInput,
    OutOfMemory,
    Unsupported,
)
from drivers.base.ioctl import Ioctl, Struct
from drivers.base.oserrors import translate
from drivers.world.linux import LinuxWorld
from tests.reliability.amd_scene import (
    FILLS,
    Bend,
    BentWorld,
    board,
    filled,
    left,
    life,
    nothing_left,
    outcome,
)
from tests.support import check

CLASSES = {
    errno.EINTR: DeviceTimeout,
    errno.EAGAIN: Busy,
    errno.EBUSY: Busy,
    errno.ENOMEM: OutOfMemory,
    errno.EINVAL: Unsupported,
    errno.EPERM: Denied,
    errno.ENODEV: DeviceGone,
    errno.EIO: DeviceGone,
}
RETRIED = (errno.EINTR, errno.EAGAIN)
NUMBER = {name: number for number, (name, _) in NAMES.items()}
GIVES_BACK = {
    NUMBER[name]
    for name in ("destroy_queue", "destroy_event", "free_memory_of_gpu", "unmap_memory_from_gpu")
}
"""What the kernel refuses to take back it keeps until the session ends."""
TOLD_ONCE = {NUMBER[name] for name in ("create_queue", "create_event", "alloc_memory_of_gpu")}
"""What these made cannot be given back by somebody who was told garbage."""
ENTERS = {NUMBER["get_version"], NUMBER["acquire_vm"]}
"""Only a new session asks these."""
USED = sorted(NUMBER[name] for name in (
    "get_version", "acquire_vm", "runtime_enable", "alloc_memory_of_gpu", "map_memory_to_gpu",
    "create_event", "get_clock_counters", "create_queue", "destroy_queue", "destroy_event",
    "free_memory_of_gpu", "unmap_memory_from_gpu", "wait_events",
    "get_process_apertures_new", "set_trap_handler",
))  # fmt: skip


UNREAD = {NUMBER[name] for name in (
    "acquire_vm", "runtime_enable", "get_clock_counters", "destroy_queue", "destroy_event",
    "free_memory_of_gpu", "set_trap_handler",
)}  # fmt: skip
"""What these answer is not used: garbage changes nothing."""
GARBAGE = {
    "wait_events": (type(None), DeviceTimeout),
    "get_process_apertures_new": (type(None), MalformedInput, Unsupported),
}
"""What garbage may lead to, where it can look like an answer; elsewhere it is an error."""


def queue_of(number: int) -> str:
    """Apertures are only asked for by a queue of AQL packets."""
    return "AQL" if number == NUMBER["get_process_apertures_new"] else "PM4"


def test_these_are_the_ioctls_that_the_driver_uses() -> None:
    seen: set[int] = set()
    for queue in ("PM4", "AQL"):
        one = board()
        life(one, BentWorld(one), queue)
        seen |= set(one.panel.seen)
    check(sorted(seen) == USED, f"{sorted(seen)} are used, {USED} are tested")


def spoil(fill: str, raw: bytes) -> bytes:
    """What a failing ioctl leaves in the place of `raw`."""
    return filled(len(raw), fill)


class Refusing(LinuxWorld):
    """The first `times` ioctls fail and leave what `leave` makes of the struct."""

    def __init__(self, number: int, leave: Callable[[bytes], bytes], times: int) -> None:
        super().__init__()
        self.number, self.leave, self.times = number, leave, times
        self.given: list[bytes] = []
        self.now_s = 0.0

    def ioctl(self, fd: int, request: int, argument: bytearray) -> int:
        self.given.append(bytes(argument))
        argument[:] = self.leave(bytes(argument))
        if len(self.given) > self.times:
            return 0
        cause = OSError(self.number, "injected")
        raise translate(cause, "ioctl") from cause

    def monotonic_s(self) -> float:
        self.now_s += 1e-4
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.mark.parametrize("wrapper", kfd_abi.IOCTLS.values(), ids=lambda one: one.name[11:])
def test_every_wrapper_with_every_errno(wrapper: Ioctl[Struct]) -> None:
    for number, kind in CLASSES.items():
        for fill in FILLS:
            leave = partial(spoil, fill)
            forever = Refusing(number, leave, 1 << 30)
            with pytest.raises(kind, match=wrapper.name) as caught:
                wrapper(forever, 3, wrapper.args())
            calls = len(forever.given)
            check((calls == 1) == (number not in RETRIED) and calls < 20_000, f"{calls} calls")
            cause = caught.value.__cause__
            check(isinstance(cause, OSError) and cause.errno == number)
            if number in RETRIED:
                again = Refusing(number, leave, 3)
                wrapper(again, 3, wrapper.args())
                same = {bytes(given) for given in again.given}
                check(len(again.given) == 4 and len(same) == 1, f"{wrapper.name} {fill}")


def test_what_an_interrupted_mapping_reached_is_kept() -> None:
    """The kernel goes on at `n_success`, unless it says more than there is."""
    for reported, expected in ((1, 1), (2, 2), (3, 0), (0xFFFFFFFF, 0)):
        for name in ("MAP_MEMORY_TO_GPU", "UNMAP_MEMORY_FROM_GPU"):
            answer = reported.to_bytes(4, "little")
            machine = Refusing(errno.EINTR, lambda raw, reported=answer: raw[:20] + reported, 1)
            wrapper = kfd_abi.IOCTLS[f"AMDKFD_IOC_{name}"]
            wrapper(machine, 3, wrapper.args(handle=5, n_devices=2))
            seen = [int.from_bytes(raw[20:], "little") for raw in machine.given]
            check(seen == [0, expected], f"{name}: {seen}")
            check({raw[:20] for raw in machine.given} == {machine.given[0][:20]}, name)


def test_an_interrupted_wait_waits_for_the_rest() -> None:
    """A timer that interrupts more often than a wait lasts does not make it last for ever."""
    for reported, expected in ((30, 30), (0, 0), (0xFFFFFFFF, 50)):
        answer = reported.to_bytes(4, "little")
        machine = Refusing(
            errno.EINTR, lambda raw, reported=answer: raw[:16] + reported + raw[20:], 1
        )
        wrapper = kfd_abi.IOCTLS["AMDKFD_IOC_WAIT_EVENTS"]
        wrapper(machine, 3, wrapper.args(num_events=3, timeout=50))
        seen = [int.from_bytes(raw[16:20], "little") for raw in machine.given]
        check(seen == [50, expected], f"{seen}")


def names_it(error: DeviceError, number: int) -> bool:
    """Whether an error says which step failed."""
    return f"AMDKFD_IOC_{NAMES[number][0].upper()}" in str(error) or (
        isinstance(error, OutOfMemory) and "the kernel has no" in str(error)
    )


def bent(number: int, bends: list[Bend], judge: Callable[[Bend, DeviceError | None], None]) -> None:
    """Lives that fail, one after the other on one board; then one that does not; then nothing."""
    one = board()
    world = BentWorld(one)
    for bend in bends:
        world.bend = bend
        error = outcome(one, world, queue_of(number))
        world.bend = None
        check(bend.met, f"{bend} never happened")
        judge(bend, error)
        may_keep = number in GIVES_BACK or (not bend.error and number in TOLD_ONCE)
        if number in ENTERS:
            nothing_left(one, world, str(bend))
        kept = left(one)
        check(not kept or may_keep, f"{bend} left {kept}")
    life(one, world, queue_of(number))
    nothing_left(one, world, f"{NAMES[number][0]}")
    check(not one.violations, f"{one.violations}")


@pytest.mark.parametrize("number", USED, ids=lambda number: NAMES[number][0])
def test_every_ioctl_with_every_errno(number: int) -> None:
    def judge(bend: Bend, error: DeviceError | None) -> None:
        if bend.error in RETRIED and bend.times < 10:
            check(error is None, f"{bend}: {error}")
            return
        check(type(error) is CLASSES[bend.error], f"{bend}: {error!r}")
        check(error is not None and names_it(error, number), f"{bend}: {error}")

    for code in CLASSES:
        bends = [Bend(number, 1, code, fill) for fill in FILLS]
        if code in RETRIED:
            bends.append(Bend(number, 1, code, "random", times=1 << 30))
        bent(number, bends, judge)


@pytest.mark.parametrize("number", USED, ids=lambda number: NAMES[number][0])
def test_every_ioctl_that_tells_garbage(number: int) -> None:
    """It did what was asked; what it told is garbage: refused, or not looked at."""
    usual = (type(None),) if number in UNREAD else (MalformedInput, Unsupported)
    allowed = GARBAGE.get(NAMES[number][0], usual)

    def judge(bend: Bend, error: DeviceError | None) -> None:
        check(isinstance(error, allowed), f"{NAMES[number][0]}, {bend}: {error!r}")

    one = board()
    life(one, BentWorld(one), queue_of(number))
    count = one.panel.seen.count(number)
    ends = sorted({1, count})
    for fill in FILLS:
        bent(number, [Bend(number, at, 0, fill) for at in ends], judge)

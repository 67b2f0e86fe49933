"""R3: every request to KGSL and msm fails with every errno, or brings garbage: the right error."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from drivers.base.errors import DeviceError, DeviceFault
from drivers.base.ioctl import Ioctl
from drivers.qcom.kgsl import abi as kgsl
from drivers.qcom.msm import abi as msm
from drivers.qcom.msm import bind, prime
from drivers.world.foreign import ForeignWorld
from tests.reliability.amd_scene import FILLS, filled
from tests.reliability.qcom_scene import board, life, nothing_left, outcome
from tests.reliability.test_amd_ioctls import CLASSES, RETRIED, Refusing, spoil
from tests.support import check

OF: dict[str, dict[int, str]] = {
    "KGSL": {one.request: one.name for one in vars(kgsl).values() if isinstance(one, Ioctl)},
    "MSM": {
        one.request: one.name
        for one in (vars(msm) | vars(prime)).values()
        if isinstance(one, Ioctl)
    },
}
WRAPPERS: list[Any] = [
    one
    for module in (kgsl, msm, prime, bind)
    for one in vars(module).values()
    if isinstance(one, Ioctl)
]
UNUSED = {
    "IOCTL_KGSL_CMDSTREAM_READTIMESTAMP_CTXTID", "IOCTL_KGSL_GPUOBJ_IMPORT",
    "IOCTL_KGSL_DEVICE_WAITTIMESTAMP_CTXTID",
    "DRM_IOCTL_PRIME_HANDLE_TO_FD", "DRM_IOCTL_PRIME_FD_TO_HANDLE",
    "DRM_IOCTL_MSM_WAIT_FENCE", "IOCTL_KGSL_GPUMEM_GET_INFO",
}  # fmt: skip
"""No life of the scene asks for these: its waits are short, and it shares no memory."""


class Bent(ForeignWorld):
    """A board's world in which the `at`-th request of a number brings garbage."""

    def __init__(self, one: Any, request: int, at: int, fill: str) -> None:
        super().__init__(one)
        self._bend, self._left, self._fill = request, at, fill
        self.asked: set[int] = set()

    def ioctl(self, fd: int, request: int, argument: bytearray | int) -> int:
        self.asked.add(request)
        done = super().ioctl(fd, request, argument)
        if request == self._bend and isinstance(argument, bytearray):
            self._left -= 1
            if not self._left:
                argument[:] = filled(len(argument), self._fill)
        return done


@pytest.mark.parametrize("iface", ["KGSL", "MSM"])
def test_these_are_the_requests_of_a_life(iface: str) -> None:
    world = Bent(board(iface), 0, 1, "zero")
    life(world, iface)
    missing = {name for request, name in OF[iface].items() if request not in world.asked}
    check(missing <= UNUSED and world.asked <= set(OF[iface]), f"{missing} {world.asked}")


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda one: one.name)
def test_every_request_with_every_errno(wrapper: Any) -> None:
    for number, kind in CLASSES.items():
        for fill in FILLS:
            forever = Refusing(number, partial(spoil, fill), 1 << 30)
            with pytest.raises(kind, match=wrapper.name) as caught:
                wrapper(forever, 3, wrapper.args())
            cause = caught.value.__cause__
            check(isinstance(cause, OSError) and cause.errno == number)
            check((len(forever.given) == 1) == (number not in RETRIED), f"{len(forever.given)}")


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("at", [1, 3])
@pytest.mark.parametrize(
    ("iface", "request_number"),
    [(iface, request) for iface, known in OF.items() for request in known],
    ids=lambda one: one if isinstance(one, str) else f"{one:#x}",
)
def test_every_answer_that_is_garbage(iface: str, request_number: int, at: int, fill: str) -> None:
    """An error of ours, or a life that is right all the same; nothing is left of the process."""
    one = board(iface)
    error = outcome(Bent(one, request_number, at, fill), iface)
    check(error is None or isinstance(error, DeviceError | DeviceFault), repr(error))
    one.kill()
    nothing_left(one, f"{OF[iface][request_number]} that brings {fill}")

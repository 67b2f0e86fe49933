"""ioctl declarations: C layout, ranges, bounded retries, answers that are checked."""

from __future__ import annotations

import errno
import os
import struct

import pytest

from drivers.base.errors import (
    Busy,
    Denied,
    DeviceError,
    DeviceGone,
    MalformedInput,
    OutOfMemory,
    Unsupported,
)
from drivers.base.ioctl import Ioctl, Struct, chars, i32, request_number, u8, u16, u32, u64
from drivers.base.oserrors import translate
from drivers.world.linux import LinuxWorld
from tests.support import check


class Mixed(Struct, size=40):
    kind: int = u8()
    number: int = u32()
    address: int = u64()
    pair: tuple[int, ...] = u16(2)
    signed: int = i32()
    name: bytes = chars(9)


MIXED = Ioctl("MIXED", "WR", "U", 0x17, Mixed)


class Kernel(LinuxWorld):
    """Answers ioctls from a script: errnos to fail with, then success."""

    def __init__(self, *numbers: int, answer_bytes: int = 40) -> None:
        super().__init__()
        self.numbers, self.calls, self.now_s = list(numbers), 0, 0.0
        self.answer_bytes = answer_bytes

    def ioctl(self, fd: int, request: int, argument: bytearray) -> int:
        self.calls += 1
        if self.numbers:
            number = self.numbers.pop(0)
            cause = OSError(number, os.strerror(number))
            raise translate(cause, "ioctl") from cause
        argument[4:8] = struct.pack("<I", request & 0xFF)
        del argument[self.answer_bytes :]
        return 0

    def monotonic_s(self) -> float:
        self.now_s += 1e-5
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def test_the_layout_is_cs() -> None:
    """The offsets are those of struct's native alignment, which is the C compiler's."""
    args = Mixed(kind=1, number=2, address=3, pair=(4, 5), signed=-6, name=b"seven")
    check(bytes(args.raw) == struct.pack("@BIQ2Hi9s7x", 1, 2, 3, 4, 5, -6, b"seven"))
    again = Mixed.of(bytes(args.raw))
    check((again.kind, again.number, again.address) == (1, 2, 3))
    check((again.pair, again.signed, again.name) == ((4, 5), -6, b"seven\0\0\0\0"))


def test_a_wrong_size_is_no_class() -> None:
    with pytest.raises(TypeError, match="declared with 12 bytes but has 16"):

        class Wrong(Struct, size=12):
            a: int = u32()
            b: int = u64()


@pytest.mark.parametrize(
    "values",
    [{"kind": 256}, {"kind": -1}, {"address": 1 << 64}, {"signed": 1 << 31}, {"pair": (1,)},
     {"name": b"ten bytes!"}],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="Mixed"):
        Mixed(**values)


def test_unknown_fields_and_sizes() -> None:
    with pytest.raises(TypeError, match="no field"):
        Mixed(knid=1)
    with pytest.raises(MalformedInput):
        Mixed.of(bytes(39))


def test_the_answer_is_in_the_arguments() -> None:
    check(MIXED(Kernel(), 3, Mixed(kind=9)).number == 0x17)


def test_interrupted_calls_are_repeated() -> None:
    kernel = Kernel(*[errno.EINTR, errno.EAGAIN] * 10)
    check(MIXED(kernel, 3, Mixed()).number == 0x17 and kernel.calls == 21)


def test_repeating_ends() -> None:
    kernel = Kernel(*[errno.EAGAIN] * 1_000_000)
    with pytest.raises(Busy):
        MIXED(kernel, 3, Mixed())
    check(64 < kernel.calls < 5000, str(kernel.calls))


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EPERM, Denied), (errno.EINVAL, Unsupported), (errno.ENODEV, DeviceGone),
        (errno.ENOMEM, OutOfMemory),
    ],
)  # fmt: skip
def test_other_errors_are_raised_at_once(number: int, kind: type[DeviceError]) -> None:
    kernel = Kernel(number)
    with pytest.raises(kind):
        MIXED(kernel, 3, Mixed())
    check(kernel.calls == 1)


def test_an_answer_of_another_size_is_malformed() -> None:
    with pytest.raises(MalformedInput):
        MIXED(Kernel(answer_bytes=39), 3, Mixed())


@pytest.mark.parametrize("wrong", [("R", 256, 1, 4), ("R", "K", 256, 4), ("R", "K", 1, 1 << 14)])
def test_impossible_requests(wrong: tuple[str, int | str, int, int]) -> None:
    with pytest.raises(ValueError, match="cannot be encoded"):
        request_number(*wrong)

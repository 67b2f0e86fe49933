"""Errors: one tree, facts kept, errno in the cause, the message ends with what to do."""

from __future__ import annotations

import errno

import pytest

from drivers.base import errors
from drivers.base.oserrors import errno_of, translate
from tests.support import check

CLASSES = {
    errno.ENOENT: errors.NotFound,
    errno.EACCES: errors.Denied,
    errno.EPERM: errors.Denied,
    errno.EBUSY: errors.Busy,
    errno.EAGAIN: errors.Busy,
    errno.ENODEV: errors.DeviceGone,
    errno.EIO: errors.DeviceGone,
    errno.ENOTTY: errors.Unsupported,
    errno.EINVAL: errors.Unsupported,
    errno.ENOMEM: errors.OutOfMemory,
    errno.ETIMEDOUT: errors.DeviceTimeout,
    errno.EINTR: errors.DeviceTimeout,
    errno.EXDEV: errors.DeviceError,
}


@pytest.mark.parametrize("number", CLASSES)
def test_errno_becomes_its_class(number: int) -> None:
    error = translate(OSError(number, "text"), "open /dev/kfd", 4096)
    check(type(error) is CLASSES[number], repr(error))
    check("/dev/kfd" in str(error) and errno.errorcode[number] in str(error), str(error))
    check(error.hint and str(error).endswith(error.hint), "the message ends with the next step")


def test_every_error_is_a_device_error_with_its_hint_last() -> None:
    facts = {
        errors.OutOfMemory: {"requested": 1, "used": 2, "cached": 3, "limit": 4},
        errors.DeviceFault: {"kind": "read"},
        errors.Hang: {"queue": "compute"},
    }
    classes = [
        found
        for found in vars(errors).values()
        if isinstance(found, type) and issubclass(found, Exception)
    ]
    check(len(classes) >= 15, "the tree is there")
    for cls in classes:
        error = cls("what", hint="do this", **facts.get(cls, {}))
        check(isinstance(error, errors.DeviceError), cls.__name__)
        check(str(error) == "what. do this", str(error))
        for name, value in facts.get(cls, {}).items():
            check(getattr(error, name) == value, name)


def test_errno_is_kept_in_the_cause() -> None:
    cause = OSError(errno.EBUSY, "busy")

    def fail() -> None:
        raise translate(cause, "open it") from cause

    with pytest.raises(errors.Busy) as caught:
        fail()
    check(errno_of(caught.value) == errno.EBUSY, "errno_of")
    check(errno_of(errors.Busy("x")) == 0, "no cause")


def test_too_many_open_files_is_not_the_devices_fault() -> None:
    for number in (errno.EMFILE, errno.ENFILE):
        text = str(translate(OSError(number, "x"), "open /dev/kfd"))
        check("close" in text and "dmesg" not in text, text)


ODD = "/x\x1b[2J\r\x07\u202e\udcff"
SHOWN = r"/x\x1b[2J\r\x07\u202e\udcff"


def test_text_from_outside_is_escaped_in_messages() -> None:
    """Control characters, the override of the direction, and bytes that are no text."""
    error = errors.NotFound(f"open {ODD}\nsecond line: 2 × ü", hint=f"see {ODD}")
    expected = f"open {SHOWN}\nsecond line: 2 × ü. see {SHOWN}"
    check(str(error) == expected, ascii(str(error)))
    check(error.message.startswith(f"open {ODD}"), "what the caller gave stays as it is")
    check(str(error.named(ODD)) == f"{SHOWN}: {expected}", ascii(str(error)))
    check(str(translate(OSError(errno.ENOENT, ""), f"open {ODD}")).startswith(f"open {SHOWN}: "))
    check(errors.escaped("a\nb\tc") == r"a\nb\tc" and errors.escaped("ü ×") == "ü ×")

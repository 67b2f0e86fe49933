"""What is declared of libusb, against libusb.h as the C compiler sees it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from drivers.world import libusb_abi as abi
from tests.c_compiler import any_compiler
from tests.support import check

HEADER = Path("/usr/include/libusb-1.0/libusb.h")
MEMBERS = {
    "dev_handle": 0, "flags": 8, "endpoint": 9, "type": 10, "timeout": 12, "status": abi.STATUS_AT,
    "length": 20, "actual_length": abi.ACTUAL_AT, "callback": 32, "user_data": 40, "buffer": 48,
    "num_iso_packets": 56,
}  # fmt: skip
ERRORS = {
    "IO": errno.EIO, "INVALID_PARAM": errno.EINVAL, "ACCESS": errno.EACCES,
    "NO_DEVICE": errno.ENODEV, "NOT_FOUND": errno.ENOENT, "BUSY": errno.EBUSY,
    "TIMEOUT": errno.ETIMEDOUT, "OVERFLOW": errno.EOVERFLOW, "PIPE": errno.EPIPE,
    "INTERRUPTED": errno.EINTR, "NO_MEM": errno.ENOMEM, "NOT_SUPPORTED": errno.EOPNOTSUPP,
}  # fmt: skip


def numbers(*expressions: str) -> list[int]:
    """Of libusb.h; skips, by name, without it."""
    if not HEADER.exists():
        pytest.skip("no libusb.h: install libusb-1.0-0-dev")
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        found = any_compiler().values([str(HEADER)], expressions, Path(folder))
    return [value - (1 << 64) if value >> 63 else value for value in found]


def test_members_of_a_transfer() -> None:
    asked = [f"offsetof(struct libusb_transfer, {name})" for name in MEMBERS]
    check(numbers(*asked) == list(MEMBERS.values()))
    # the array of isochronous packets begins in the padding at the end
    (first,) = numbers("offsetof(struct libusb_transfer, iso_packet_desc)")
    check(first <= abi.TRANSFER.size)
    packed = abi.TRANSFER.pack(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
    sizes = numbers(*(f"sizeof(((struct libusb_transfer *)0)->{name})" for name in MEMBERS))
    for value, (name, size) in enumerate(zip(MEMBERS, sizes, strict=True), 1):
        at = MEMBERS[name]
        check(int.from_bytes(packed[at : at + size], "little") == value, name)


def test_codes() -> None:
    codes = numbers(*(f"LIBUSB_ERROR_{name}" for name in ERRORS))
    check(dict(zip(codes, ERRORS.values(), strict=True)) == abi.ERRNO)
    names = [status.name for status in abi.Status]
    check(numbers(*(f"LIBUSB_TRANSFER_{name}" for name in names)) == list(abi.Status))
    kinds = ("LIBUSB_TRANSFER_TYPE_CONTROL", "LIBUSB_TRANSFER_TYPE_BULK")
    check(numbers(*kinds) == [abi.TYPE_CONTROL, abi.TYPE_BULK])
    check(numbers("LIBUSB_ERROR_INTERRUPTED") == [abi.INTERRUPTED])


def test_functions_exist_with_these_types() -> None:
    """Every declared function can be assigned to a pointer of our type, with pointers as void *."""
    if not HEADER.exists():
        pytest.skip("no libusb.h: install libusb-1.0-0-dev")
    text = HEADER.read_text()
    for name, signature in abi.FUNCTIONS.items():
        start = text.index(f"LIBUSB_CALL {name}(")
        declared = text[start : text.index(";", start)]
        given = declared.partition("(")[2].rpartition(")")[0].split(",")
        ours = signature.partition("(*)(")[2].rstrip(")").split(", ")
        check(len(given) == len(ours), f"{name}: {declared}")
        for theirs, our in zip(given, ours, strict=True):
            check(("*" in theirs) == (our == "uint64_t"), f"{name}: {theirs} is not {our}")


def test_the_setup_packet_and_the_descriptor() -> None:
    setup, descriptor = "struct libusb_control_setup", "struct libusb_device_descriptor"
    asked = (f"sizeof({setup})", f"sizeof({descriptor})", f"offsetof({descriptor}, iProduct)",
             f"offsetof({descriptor}, iSerialNumber)", "sizeof(struct timeval)")  # fmt: skip
    expected = [abi.SETUP.size, abi.DEVICE_DESCRIPTOR_BYTES, abi.PRODUCT_AT, abi.SERIAL_AT,
                abi.TIMEVAL.size]  # fmt: skip
    check(numbers(*asked) == expected)

"""What is declared of usb-redir, against usbredirproto.h as the C compiler sees it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from boards.usbredir import wire
from tests.c_compiler import any_compiler
from tests.support import check

HEADER = Path("/usr/include/usbredirproto.h")
STRUCTS = {
    "header": wire.HEADER, "device_connect_header": wire.DEVICE_CONNECT,
    "interface_info_header": wire.INTERFACE_INFO, "control_packet_header": wire.CONTROL,
    "bulk_packet_header": wire.BULK, "set_configuration_header": wire.SET_CONFIGURATION,
    "configuration_status_header": wire.CONFIGURATION_STATUS,
    "set_alt_setting_header": wire.SET_ALT_SETTING,
    "get_alt_setting_header": wire.GET_ALT_SETTING,
    "alt_setting_status_header": wire.ALT_SETTING_STATUS,
}  # fmt: skip
CAPS = {
    wire.Cap.CONNECT_DEVICE_VERSION: "connect_device_version",
    wire.Cap.EP_INFO_MAX_PACKET_SIZE: "ep_info_max_packet_size",
    wire.Cap.IDS_64BITS: "64bits_ids", wire.Cap.BULK_LENGTH_32BITS: "32bits_bulk_length",
}  # fmt: skip


def numbers(*expressions: str) -> list[int]:
    """Of usbredirproto.h; skips, by name, without it."""
    if not HEADER.exists():
        pytest.skip("no usbredirproto.h: install libusbredirparser-dev")
    with TemporaryDirectory() as folder:
        return any_compiler().values([str(HEADER)], expressions, Path(folder))


def test_numbers() -> None:
    kinds = list(wire.Kind)
    check(numbers(*(f"usb_redir_{kind.name.lower()}" for kind in kinds)) == kinds)
    ends = list(wire.Status)
    check(numbers(*(f"usb_redir_{end.name.lower()}" for end in ends)) == ends)
    check(numbers(*(f"usb_redir_cap_{name}" for name in CAPS.values())) == list(CAPS))
    check(numbers("usb_redir_speed_super") == [wire.SPEED_SUPER])
    names = ("control", "bulk", "invalid")
    kinds_of = [wire.TYPE_CONTROL, wire.TYPE_BULK, wire.TYPE_INVALID]
    check(numbers(*(f"usb_redir_type_{name}" for name in names)) == kinds_of)


def test_sizes() -> None:
    sizes = numbers(*(f"sizeof(struct usb_redir_{name})" for name in STRUCTS))
    check(sizes == [form.size for form in STRUCTS.values()])
    hello, ends = numbers(
        "sizeof(struct usb_redir_hello_header)",
        "offsetof(struct usb_redir_ep_info_header, max_streams)",
    )
    check(hello + 4 == wire.HELLO.size, "one word of capabilities")
    check(ends == wire.EP_INFO.size, "streams are left out: neither side has their capability")
    (high,) = numbers("offsetof(struct usb_redir_bulk_packet_header, length_high)")
    check(high == wire.BULK.size - 2)

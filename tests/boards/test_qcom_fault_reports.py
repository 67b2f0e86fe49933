"""GET_FAULT_REPORT as the Adreno board has it: types, counts, faults, refusals."""

from __future__ import annotations

import errno
import struct

import numpy as np
import pytest

from boards.qcom.hardware import AdrenoOptions
from tests.qcom_boards import Client, client, type7
from tests.support import check

FLAGS = 0x12 | 0x200 | 1 << 30
"""PREAMBLE, NO_GMEM_ALLOC, NO_FAULT_TOLERANCE, FAULT_INFO."""
SURVIVES = 0x12 | 1 << 30
LIST, FAULT = struct.Struct("<QIIII"), struct.Struct("<QQQII")
"""# src: msm_kgsl.h struct kgsl_fault, struct kgsl_pagefault_report"""
UNMAPPED_READ, UNMAPPED_WRITE, READ_ONLY_WRITE = 1 | 4, 2 | 4, 2 | 8
NOP = 0x10


def asked(one: Client, given: bytes, **values: int) -> bytes:
    """The list after a request. Raises: OSError."""
    room = np.frombuffer(bytearray(given), np.uint8)
    values = {"faultnents": 1, "faultsize": len(given), **values}
    one.call("get_fault_report", faultlist=room.ctypes.data, context_id=one.context, **values)
    return room.tobytes()


def faulted(one: Client, va: int, access: str) -> None:
    one.world.panel.page_fault(va, access)
    one.submit(type7(NOP))


@pytest.mark.parametrize(("access", "kind"), [("read", UNMAPPED_READ), ("write", UNMAPPED_WRITE)])
def test_types_then_counts_then_faults(access: str, kind: int) -> None:
    with client(flags=FLAGS, clean=False) as one:
        faulted(one, 0x5000, access)
        check(one.call("get_fault_report", context_id=one.context).faultnents == 2)
        check(LIST.unpack(asked(one, bytes(24))) == (0, 1, 1, 0, 0))
        room = np.full(40, 0xEE, np.uint8)
        asked(one, LIST.pack(room.ctypes.data, 1, 1, 32, 0))
        check(room[32:].tobytes() == b"\xee" * 8 and room[:32].tobytes()[28:] == bytes(4))
        check(struct.unpack("<QQQI", room[:28].tobytes()) == (0x5000, 0, 0, kind), str(room))


def test_a_write_to_what_is_mapped_is_a_matter_of_rights() -> None:
    with client(flags=FLAGS, clean=False) as one:
        block = one.alloc(4096, 1 << 28 | 1 << 24)
        faulted(one, block.va + 8, "write")
        room = np.zeros(32, np.uint8)
        asked(one, LIST.pack(room.ctypes.data, 1, 1, 32, 0))
        expected = FAULT.pack(block.va + 8, 0, 0, READ_ONLY_WRITE, 0)
        check(room.tobytes() == expected, str(room))


def test_a_stop_for_another_reason_has_no_fault() -> None:
    with client(flags=FLAGS, clean=False) as one:
        one.world.panel.opcode_error()
        one.submit(type7(NOP))
        check(asked(one, bytes(24)) == bytes(24))


def test_short_structs_are_filled_as_far_as_they_go() -> None:
    with client(flags=FLAGS, clean=False) as one:
        faulted(one, 0x5000, "read")
        check(asked(one, bytes(12)) == struct.pack("<QI", 0, 1))
        room = np.full(16, 0xEE, np.uint8)
        asked(one, LIST.pack(room.ctypes.data, 1, 5, 8, 0))
        check(room.tobytes() == struct.pack("<Q", 0x5000) + b"\xee" * 8, str(room))


@pytest.mark.parametrize(
    "flags", [FLAGS, SURVIVES, FLAGS & ~(1 << 30)],
    ids=["no fault yet", "not invalidated", "no flag"],
)  # fmt: skip
def test_contexts_without_a_report(flags: int) -> None:
    with client(flags=flags, clean=False) as one:
        if flags != FLAGS:
            faulted(one, 0x5000, "read")
        with pytest.raises(OSError, match=rf"Errno {errno.EINVAL}\]"):
            asked(one, bytes(24))


def test_what_is_refused_of_a_report() -> None:
    with client(flags=FLAGS, clean=False) as one:
        faulted(one, 0x5000, "read")
        for values, given, code in (
            ({"context_id": 1 << 20}, bytes(24), errno.EINVAL),
            ({"faultlist": 64}, bytes(24), errno.EFAULT),
            ({"faultsize": 0}, bytes(24), errno.EINVAL),
            ({}, LIST.pack(4096, 2, 1, 32, 0), errno.EINVAL),
            ({}, LIST.pack(64, 1, 1, 32, 0), errno.EFAULT),
        ):
            room = np.frombuffer(bytearray(given), np.uint8)
            call = {"faultlist": room.ctypes.data, "faultnents": 1, "faultsize": 24,
                    "context_id": one.context, **values}  # fmt: skip
            with pytest.raises(OSError, match=rf"Errno {code}\]"):
                one.call("get_fault_report", **call)


def test_an_older_kernel_drops_the_flag_and_has_no_request() -> None:
    with client(flags=FLAGS, options=AdrenoOptions(fault_info=False), clean=False) as one:
        check(one.call("drawctxt_create", flags=FLAGS).flags == FLAGS & ~(1 << 30) | 0x40)
        faulted(one, 0x5000, "read")
        with pytest.raises(OSError, match=rf"Errno {errno.ENOTTY}\]"):
            asked(one, bytes(24))
    with client(flags=FLAGS) as one:
        check(one.call("drawctxt_create", flags=FLAGS).flags == FLAGS | 0x40)

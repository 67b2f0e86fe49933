"""The bounded MessagePack reader, by examples of its specification, and notes that break rules."""

from __future__ import annotations

import struct

import pytest

from compilers.amd import metadata as amd_metadata
from compilers.amd import msgpack as amd_msgpack
from drivers.base.errors import MalformedInput
from drivers.base.view import View
from tests.support import check

NT_AMDGPU_METADATA = 32  # src: LLVM AMDGPUUsage


def decode(data: bytes) -> object:
    return amd_msgpack.decode(View(data, "test"))


@pytest.mark.parametrize(
    ("data", "value"),
    [  # src: msgpack/spec.md, "Formats"
        ("00", 0),
        ("7f", 127),
        ("ff", -1),
        ("e0", -32),
        ("c0", None),
        ("c2", False),
        ("c3", True),
        ("cc80", 128),
        ("cd0100", 256),
        ("ce00010000", 65536),
        ("cf0000000100000000", 1 << 32),
        ("d080", -128),
        ("d1ff7f", -129),
        ("d2ffff7fff", -32769),
        ("d3ffffffff7fffffff", -2147483649),
        ("a0", ""),
        ("a161", "a"),
        ("d90161", "a"),
        ("da000161", "a"),
        ("db0000000161", "a"),
        ("90", []),
        ("920102", [1, 2]),
        ("dc00020102", [1, 2]),
        ("dd000000020102", [1, 2]),
        ("80", {}),
        ("82a16101a162c3", {"a": 1, "b": True}),
        ("de0001a16101", {"a": 1}),
        ("df00000001a1619100", {"a": [0]}),
    ],
)
def test_values(data: str, value: object) -> None:
    got = decode(bytes.fromhex(data))
    check(got == value and type(got) is type(value), f"{got!r}")


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        ("", "outside"),
        ("cd01", "outside"),
        ("a261", "outside"),
        ("9201", "outside"),
        ("ddffffffff", "list of 4294967295"),
        ("dfffffffff", "map of 4294967295"),
        ("0000", "behind the value"),
        ("c1", "type 0xc1"),
        ("ca00000000", "type 0xca"),
        ("c40100", "type 0xc4"),
        ("a1ff", "UTF-8"),
        ("810101", "no text"),
        ("82a16101a16102", "twice"),
        ("91" * 40 + "90", "nested deeper"),
    ],
)
def test_what_is_wrong_is_named(data: str, rule: str) -> None:
    with pytest.raises(MalformedInput, match=rule):
        decode(bytes.fromhex(data))


def text(value: str) -> bytes:
    return b"\xd9" + bytes([len(value)]) + value.encode()


def number(value: int) -> bytes:
    return b"\xce" + struct.pack(">I", value)


def mapping(entries: dict[str, bytes]) -> bytes:
    return b"\xde" + struct.pack(">H", len(entries)) + b"".join(
        text(key) + value for key, value in entries.items()
    )  # fmt: skip


KERNEL = {
    ".name": text("k"),
    ".symbol": text("k.kd"),
    ".kernarg_segment_size": number(16),
    ".kernarg_segment_align": number(8),
    ".group_segment_fixed_size": number(0),
    ".private_segment_fixed_size": number(0),
    ".wavefront_size": number(32),
    ".max_flat_workgroup_size": number(256),
    ".vgpr_count": number(3),
    ".sgpr_count": number(10),
}
ARG = {".offset": number(8), ".size": number(8), ".value_kind": text("global_buffer")}


def note(body: bytes, owner: bytes = b"AMDGPU\0", kind: int = NT_AMDGPU_METADATA) -> View:
    head = struct.pack("<III", len(owner), len(body), kind)
    padded = [part + bytes(-len(part) % 4) for part in (owner, body)]
    return View(head + b"".join(padded), "note")


def module(kernel: dict[str, bytes], arg: dict[str, bytes]) -> bytes:
    listed = b"\x91" + mapping(kernel | {".args": b"\x91" + mapping(arg)})
    return mapping({"amdhsa.kernels": listed})


def test_a_kernel() -> None:
    other = note(b"\xc1", owner=b"GNU\0", kind=3)
    (got,) = amd_metadata.kernels([other, note(module(KERNEL, ARG))])
    check((got.name, got.symbol, got.kernarg_bytes, got.wave_lanes) == ("k", "k.kd", 16, 32), "")
    (arg,) = got.args
    check((arg.offset, arg.nbytes, arg.kind) == (8, 8, "global_buffer"), str(arg))


@pytest.mark.parametrize("key", sorted(KERNEL))
def test_every_key_is_needed_and_has_its_type(key: str) -> None:
    left = {name: value for name, value in KERNEL.items() if name != key}
    for wrong in (left, KERNEL | {key: b"\xc0"}, KERNEL | {key: b"\xff"}, KERNEL | {key: b"\xc3"}):
        with pytest.raises(MalformedInput, match=key):
            amd_metadata.kernels([note(module(wrong, ARG))])


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({".offset": number(9)}, "9\\+8 of 16"),
        ({".size": number(0xFFFFFFFF)}, "of 16 bytes"),
        ({".value_kind": text("surprise")}, "surprise"),
        ({".name": number(1)}, "argument of kind"),
    ],
)
def test_arguments_that_break_a_rule(change: dict[str, bytes], rule: str) -> None:
    with pytest.raises(MalformedInput, match=rule):
        amd_metadata.kernels([note(module(KERNEL, ARG | change))])


def test_notes_that_break_a_rule() -> None:
    good = note(module(KERNEL, ARG))
    for notes, rule in (
        ([], "0 metadata notes"),
        ([good, good], "2 metadata notes"),
        ([note(b"\x90")], "no map"),
        ([note(mapping({"amdhsa.kernels": b"\xc0"}))], "not a list"),
        ([note(mapping({"amdhsa.kernels": b"\x91\xc0"}))], "kernel that is no map"),
        ([note(b"\xdd" + bytes(1 << 17))], "more than"),
        ([View(bytes(good.data)[:20], "note")], "outside"),
    ):
        with pytest.raises(MalformedInput, match=rule):
            amd_metadata.kernels(notes)

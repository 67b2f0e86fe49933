"""What compilers say to their own drivers of a kernel, as bytes and back; bytes that are wrong."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import pytest

from drivers.base.contracts import Binary, Resources
from drivers.base.errors import MalformedInput
from queues.amd.kernarg import ARG_KINDS
from queues.amd.kernel_code import MAX_IMPLICIT, AmdCode, Implicit
from queues.cpu.kernel_code import CpuCode
from queues.cpu.packets import MAX_GRID
from tests.share import part
from tests.support import check

CODE = AmdCode(
    rsrc1=1, rsrc2=2, rsrc3=0xFFFF_FFFF, properties=4, preload=5, code_offset=256, code_bytes=7,
    kernarg_bytes=280, kernarg_align_bytes=8, wave_lanes=32, vgprs=11, sgprs=12, agprs=13,
    vgpr_spills=14, sgpr_spills=15, dynamic_stack=True,
    implicit=tuple(Implicit(3 + i, 8, 24 + 8 * i, kind) for i, kind in enumerate(ARG_KINDS)),
)  # fmt: skip
MUTATIONS = part(4_000, 1_000)


def about(vendor: bytes) -> Binary:
    return Binary("gfx1100", "k", bytes(8), 0, resources=Resources(vendor=vendor))


def test_what_is_written_is_read() -> None:
    for code in (CODE, replace(CODE, implicit=()), replace(CODE, dynamic_stack=False)):
        check(AmdCode.of(about(code.encode())) == code, f"{code}")
    for own in (CpuCode(), CpuCode(7), CpuCode(MAX_GRID, True), CpuCode(0, True)):
        check(CpuCode.of(about(own.encode())) == own, f"{own}")
    check(CpuCode().encode() == b"", "nothing to say")


def test_every_truncation_is_refused() -> None:
    blob = CODE.encode()
    for size in range(len(blob)):
        with pytest.raises(MalformedInput):
            AmdCode.of(about(blob[:size]))
    with pytest.raises(MalformedInput):
        AmdCode.of(about(blob + b"\0"))
    for wrong in (b"\0", b"\0" * 10, struct.pack("<QB", MAX_GRID + 1, 0), b"\0" * 8 + b"\2"):
        with pytest.raises(MalformedInput):
            CpuCode.of(about(wrong))


def test_what_does_not_fit_is_not_written() -> None:
    for wrong in (
        replace(CODE, vgprs=-1),
        replace(CODE, code_offset=1 << 32),
        replace(CODE, implicit=(Implicit(0, 8, 0, "no such kind"),)),
        replace(CODE, implicit=(Implicit(1 << 16, 8, 0, ARG_KINDS[0]),)),
    ):
        with pytest.raises(MalformedInput):
            wrong.encode()
    many = replace(CODE, implicit=CODE.implicit[:1] * (MAX_IMPLICIT + 1))
    with pytest.raises(MalformedInput):
        AmdCode.of(about(many.encode()))


def test_mutated_bytes_are_read_or_refused() -> None:
    rng, refused = random.Random(11), 0
    for _ in range(MUTATIONS):
        blob = bytearray(CODE.encode())
        for _ in range(rng.randint(1, 4)):
            blob[rng.randrange(len(blob))] = rng.randrange(256)
        try:
            code = AmdCode.of(about(bytes(blob)))
        except MalformedInput:
            refused += 1
        else:
            check(code.encode() == bytes(blob), "one spelling of each")
    check(MUTATIONS // 10 < refused < MUTATIONS, f"{refused} of {MUTATIONS}")

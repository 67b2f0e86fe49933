"""Qualcomm's OpenCL programs: made-up ones alone, since none of the compiler's may be carried."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from compilers.qcom import cl_container
from drivers.base.errors import MalformedInput
from tests import qcom_programs
from tests.support import check


@pytest.mark.parametrize("samplers", [0, 1])
def test_a_made_up_program(samplers: int) -> None:
    found = cl_container.read(qcom_programs.program(samplers=samplers), qcom_programs.NAME)
    check(found.code == qcom_programs.code() and found.entry == 0)
    check((found.full_registers, found.half_registers, found.branch_stack) == (3, 2, 2))
    check((found.private_bytes, found.shared_bytes, found.samplers) == (64, 1024, samplers))
    check(found.parameters == qcom_programs.PARAMETERS, str(found.parameters))
    check(found.constants == qcom_programs.CONSTANTS, str(found.constants))


@pytest.mark.parametrize(
    ("off", "value"),
    [
        (0xC0, 1 << 30), (0x100, 0), (0x100, 12), (0x110, 1 << 31), (0x34, 0xFFFFFFFF),
        (0xAC, 0xFFFFFFFF), (0x180 + 0xC4, 4), (0x180 + 0xC4, 1 << 20), (0x180 + 0xDC, 2),
        (0x180 + 0x108, 1 << 20), (0x180 + 0xC8, 1 << 30), (0x140 + 0x14, 49), (0x180 + 0x158, 0),
    ],
)  # fmt: skip
def test_numbers_that_cannot_be(off: int, value: int) -> None:
    blob = bytearray(qcom_programs.program())
    struct.pack_into("<I", blob, off, value)
    with pytest.raises(MalformedInput):
        cl_container.read(bytes(blob), qcom_programs.NAME)


@pytest.mark.parametrize(("said", "held"), [(0, 0), (1, 1), (4, 2), (5, 3)])
def test_branches_are_pairs_rounded_up(said: int, held: int) -> None:
    """src: Mesa src/freedreno/ir3/ir3_shader.h, ir3_shader_branchstack_hw(): DIV_ROUND_UP"""
    blob = bytearray(qcom_programs.program())
    struct.pack_into("<I", blob, 0x180 + 0x108, said)
    check(cl_container.read(bytes(blob), qcom_programs.NAME).branch_stack == held, f"{said}")


def test_another_kernel_and_every_shorter_file() -> None:
    blob = qcom_programs.program()
    with pytest.raises(MalformedInput):
        cl_container.read(blob, "other")
    for size in range(len(blob)):
        with pytest.raises(MalformedInput):
            cl_container.read(blob[:size], qcom_programs.NAME)


@pytest.mark.parametrize("name", ["four", "k", "k_sum_20"])
def test_names_of_whole_words_and_others(name: str) -> None:
    """Parameters are at the next word. # src: tinygrad 0.14.0, QCOMProgram._parse_lib"""
    made = replace(cl_container.read(qcom_programs.program(), qcom_programs.NAME), name=name)
    check(cl_container.read(qcom_programs.container(made), name) == made, name)
    for other in (f"{name}x", name[:-1]):
        with pytest.raises(MalformedInput):
            cl_container.read(qcom_programs.container(made), other)

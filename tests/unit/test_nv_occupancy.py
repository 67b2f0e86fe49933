"""Workgroups that fit an SM of NVIDIA's: registers, depth, and the share of L1 that is asked for.

Expected numbers are worked out by hand from the tables of the CUDA C++ Programming Guide and from
cuda_occupancy.h: 64 Ki registers, given out to warps in 256s, a quarter to each part of the SM.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compilers.nv.targets import TARGETS
from drivers.base.contracts import Binary
from drivers.base.errors import BadArgument
from drivers.nv.device import arch_of
from queues.nv.generations import CHIPS, SM_VERSIONS, sm_of, target_of
from queues.nv.kernel_code import NvCode
from queues.nv.launch import Kernel, Launcher, build_qmd
from queues.nv.occupancy import ROOM, check_block, resident_blocks, warps_by_registers
from queues.nv.qmd import layout_of
from tests.boards.nv_harness import binary, device_on
from tests.support import check

KIB = 1024


def kernel(registers: int, shared_bytes: int) -> Kernel:
    code = NvCode(
        sm=86, code_offset=0, code_bytes=128, registers=registers, barriers=0,
        shared_bytes=shared_bytes, local_bytes=0, crs_bytes=0, param_offset=0x160, param_bytes=0,
        bank0_bytes=0x160, max_threads=0,
    )  # fmt: skip
    return Kernel(name="k", code_va=1 << 20, code=code, args=(), block=(32, 1, 1), max_block=1024,
                  shared_bytes=shared_bytes)  # fmt: skip


@pytest.mark.parametrize(
    ("registers", "lanes"),
    [(16, 4096), (32, 2048), (40, 1536), (64, 1024), (65, 896), (72, 896), (80, 768), (128, 512),
     (168, 384), (255, 256)],
)  # fmt: skip
def test_lanes_of_so_many_registers(registers: int, lanes: int) -> None:
    check(warps_by_registers(registers) * 32 == lanes, str(warps_by_registers(registers)))
    most = min(lanes, 1024)
    check_block("k", registers, (most, 1, 1))
    if lanes < 1024:
        with pytest.raises(BadArgument, match=f"at most {lanes} lanes"):
            check_block("k", registers, (lanes + 32, 1, 1))


def test_lanes_along_z() -> None:
    check_block("k", 16, (1, 1, 64))
    with pytest.raises(BadArgument, match="at most 64 lanes along z"):
        check_block("k", 16, (1, 1, 65))


@pytest.mark.parametrize(
    ("sm", "registers", "lanes", "blocks"),
    [(86, 32, 32, 16), (86, 32, 256, 6), (86, 255, 256, 1), (86, 40, 128, 12), (75, 16, 1024, 1),
     (80, 32, 1024, 2), (90, 16, 64, 32), (120, 16, 64, 24), (89, 64, 256, 4), (86, 80, 800, 1)],
)  # fmt: skip
def test_workgroups_of_an_sm(sm: int, registers: int, lanes: int, blocks: int) -> None:
    check(resident_blocks(sm, registers, lanes) == blocks)


@pytest.mark.parametrize(
    ("chip", "registers", "lanes", "shared_kib", "least", "wanted"),
    [("ga102", 32, 256, 18, 32, 100), ("ga102", 32, 256, 1, 8, 8), ("ga102", 32, 32, 1, 8, 16),
     ("ga102", 255, 256, 18, 32, 32), ("ga102", 32, 256, 100, 100, 100),
     ("gh100", 32, 256, 18, 32, 164), ("tu102", 32, 256, 17, 32, 64),
     ("gb202", 32, 1024, 9, 16, 16), ("ga100", 32, 128, 41, 64, 164)],
)  # fmt: skip
def test_the_share_of_l1(
    chip: str, registers: int, lanes: int, shared_kib: int, least: int, wanted: int
) -> None:
    """Enough for every workgroup that registers and lanes allow, and never more than there is."""
    version, generation = CHIPS[chip]
    target = target_of(generation, version)
    qmd = build_qmd(target, kernel(registers, shared_kib * KIB), (lanes, 1, 1))
    layout = layout_of(target.qmd)

    def field(name: str) -> int:
        high, low, _ = layout.place(f"{name}_SM_CONFIG_SHARED_MEM_SIZE")
        words = sum(word << 32 * number for number, word in enumerate(qmd.words))
        return (words >> low & (1 << high - low + 1) - 1) - 1

    found = tuple(field(name) * 4 for name in ("MIN", "TARGET", "MAX"))
    check(found == (least, wanted, generation.shared_kib[-1]), str(found))


def test_every_architecture_that_opens_can_be_compiled_for() -> None:
    """B300 (10.3) and Thor (10.1, sm_110 since CUDA 13) among them."""
    known = set(SM_VERSIONS.values())
    check(known <= set(ROOM), str(known - set(ROOM)))
    check({arch_of(sm) for sm in known} <= set(TARGETS), str(known))
    check(sm_of(0xA01) == 110 and sm_of(0xA03) == 103)


def heavy(device: Any, registers: int = 255) -> Binary:
    good = binary(device)
    code = replace(NvCode.of(good), registers=registers).encode()
    return replace(good, resources=replace(good.resources, vendor=code, block=0))


def test_a_launch_is_refused_and_the_channel_lives() -> None:
    """On silicon it is an SKED error, which stops the channel."""
    with device_on(kernel=lambda launch: None) as (device, _):
        program, a = device.load(heavy(device)), device.alloc(64)
        queue = device.compute_queue()
        with pytest.raises(BadArgument, match="1024 lanes of 255 registers"):
            queue.exec(program, [a, a, a, 1], (1, 1, 1), (1024, 1, 1))
        with pytest.raises(BadArgument, match="along z"):
            queue.exec(program, [a, a, a, 1], (1, 1, 1), (1, 1, 65))
        check(program.kernel.block == (256, 1, 1), str(program.kernel.block))
        device.launch(program, [a, a, a, 1], 1)
        device.synchronize(5.0)


def test_a_kernel_that_no_sm_has_room_for_is_refused_at_load() -> None:
    with device_on(kernel=lambda launch: None) as (device, _):
        good = heavy(device)
        wide = replace(good, resources=replace(good.resources, block=1024))
        with pytest.raises(BadArgument, match="compile it for larger workgroups"):
            device.load(wide)
        with pytest.raises(BadArgument, match="255 registers"):
            Launcher(device.target, kernel(255, 0), (1024, 1, 1), 0)

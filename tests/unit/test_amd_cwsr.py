"""Save areas: sizes known from the kernel, and the kernel's formula written once more here."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from drivers.amd.chips import chip_of
from drivers.amd.kfd.cwsr import SaveArea, save_area, save_waves
from drivers.amd.kfd.topology import read_topology
from drivers.base.errors import MalformedInput
from tests.amd_trees import (
    GFX90A,
    GFX942,
    GFX942_PARTITION,
    GFX950,
    GFX1030,
    GFX1100,
    GFX1101,
    GFX1102,
    GFX1103,
    GFX1150,
    GFX1151,
    GFX1200,
    GFX1201,
    machine,
)
from tests.fake_machine import FakeMachine
from tests.support import check

ALL = (GFX1100, GFX1101, GFX1102, GFX1200, GFX1201, GFX1030, GFX942, GFX942_PARTITION, GFX950,
       GFX90A, GFX1103, GFX1150, GFX1151)  # fmt: skip


def area(properties: Mapping[str, int]) -> SaveArea:
    (node,) = read_topology(FakeMachine(machine(properties))).gpus
    return save_area(chip_of(node.gfx_target_version), node)


def silent(properties: Mapping[str, int]) -> dict[str, int]:
    """As a kernel before 6.12 prints it: without the sizes."""
    return {k: v for k, v in properties.items() if k not in ("cwsr_size", "ctl_stack_size")}


# The values of a kernel's log for these chips, in bytes: stack, context, debug of one XCC; waves.
KNOWN = [
    (GFX1100, 3072, 0xA000, 0x2BEA000, 0x18000),
    (GFX1102, 1024, 0x4000, 0xAA4000, 0x8000),
    (GFX1201, 2048, 0x7000, 0x1D47000, 0x10000),
    (GFX1030, 2560, 0x7000, 0x1A97000, 0x14000),
    (GFX942, 1520, 0x3000, 0x1621000, 0xBE00),
    (GFX942_PARTITION, 1520, 0x3000, 0x1621000, 0xBE00),
]


@pytest.mark.parametrize(("properties", "waves", "stack", "context", "debug"), KNOWN)
def test_known_sizes(
    properties: dict[str, int], waves: int, stack: int, context: int, debug: int
) -> None:
    (node,) = read_topology(FakeMachine(machine(silent(properties)))).gpus
    chip = chip_of(node.gfx_target_version)
    check(save_waves(chip, node) == waves)
    found = save_area(chip, node)
    check(found.ctl_stack_bytes == stack, hex(found.ctl_stack_bytes))
    check(found.context_bytes == context, hex(found.context_bytes))
    check(found.debug_bytes == debug, hex(found.debug_bytes))


def test_all_xccs_lie_in_one_allocation() -> None:
    check(area(GFX942).total_bytes == 8 * (0x1621000 + 0xBE00) + 0, "already whole pages")
    check(area(GFX942_PARTITION).total_bytes == 0x162D000, "0x162ce00 made whole pages")
    check(area(GFX1100).total_bytes == 0x2C02000)


def kernel(props: Mapping[str, int]) -> tuple[int, int, int, int]:
    """Linux's kfd_queue_ctx_save_restore_size(), in Python: stack, context, debug, allocation."""

    def align(value: int, to: int) -> int:
        return (value + to - 1) & ~(to - 1)

    gfxv, num_xcc = props["gfx_target_version"], props.get("num_xcc", 1)
    cu_num = props["simd_count"] // props["simd_per_cu"] // num_xcc
    if gfxv < 100100:
        # sysfs prints the array count of all XCCs, the kernel computes with that of one
        arrays = props["array_count"] // num_xcc
        wave_num = min(cu_num * 40, arrays // props["simd_arrays_per_engine"] * 512)
    else:
        wave_num = cu_num * 32
    vgpr = 0x40000
    if gfxv in (90402, 90010, 90008, 90500):
        vgpr = 0x80000
    elif gfxv in (110000, 110001, 110501, 120000, 120001):
        vgpr = 0x60000
    lds = props["lds_size_in_kb"] << 10 if gfxv == 90500 else 0x10000
    wg_data_size = align(cu_num * (vgpr + 0x4000 + lds + 0x1000), 4096)
    stack = wave_num * (12 if gfxv >= 100100 else 8) + 8
    stack = align(40 + stack, 4096)
    if gfxv // 10000 * 10000 == 100000:
        stack = min(stack, 0x7000)
    debug = align(wave_num * 32, 64)
    context = stack + wg_data_size
    return stack, context, debug, align((context + debug) * num_xcc, 4096)


@pytest.mark.parametrize("properties", ALL)
def test_the_kernels_formula(properties: dict[str, int]) -> None:
    found = area(silent(properties))
    expected = kernel(properties)
    check((found.ctl_stack_bytes, found.context_bytes) == expected[:2], str(expected))
    check((found.debug_bytes, found.total_bytes) == expected[2:], str(expected))


def test_the_kernels_formula_on_cards_with_fewer_units() -> None:
    for properties in ALL:
        per_cu, xccs = properties["simd_per_cu"], properties.get("num_xcc", 1)
        for cus in range(1, properties["simd_count"] // per_cu // xccs + 1, 3):
            cut = silent(properties) | {"simd_count": cus * per_cu * xccs}
            found = area(cut)
            sizes = (found.ctl_stack_bytes, found.context_bytes)
            check((*sizes, found.debug_bytes, found.total_bytes) == kernel(cut), str(cut))


@pytest.mark.parametrize("properties", [GFX1100, GFX942])
def test_what_the_kernel_tells_wins(properties: dict[str, int]) -> None:
    reported = area(properties | {"ctl_stack_size": 0x9000, "cwsr_size": 0x3000000})
    check((reported.ctl_stack_bytes, reported.context_bytes) == (0x9000, 0x3000000))
    check(reported.debug_bytes == area(properties).debug_bytes, "nobody tells this one")
    xccs = properties["num_xcc"]
    check(reported.total_bytes == -(-(0x3000000 + reported.debug_bytes) * xccs // 4096) * 4096)


@pytest.mark.parametrize(
    ("stack", "context"), [(0xA001, 0x2BEA000), (0xA000, 0x2BEA00F), (0xA000, 0x9000), (4096, 4096)]
)
def test_sizes_that_cannot_be(stack: int, context: int) -> None:
    with pytest.raises(MalformedInput, match="KFD node 1: ctl_stack_size"):
        area(GFX1100 | {"ctl_stack_size": stack, "cwsr_size": context})


def test_a_larger_register_file_needs_more_than_an_old_kernel_computed() -> None:
    """src: Linux b42f3bf9536c, "bump minimum vgpr size for gfx1151"; the relaxed check is older."""
    needed = area(GFX1151)
    stack, context, _, _ = kernel(GFX1151)
    check((needed.ctl_stack_bytes, needed.context_bytes) == (stack, context), str(needed))
    small = context - 40 * 0x20000  # with 0x40000 bytes of registers in each of 40 compute units
    reported = area(GFX1151 | {"ctl_stack_size": stack, "cwsr_size": small})
    check(reported == needed, f"{reported.context_bytes:#x}, not {context:#x}")
    more = area(GFX1151 | {"ctl_stack_size": stack, "cwsr_size": context + 0x10000})
    check(more.context_bytes == context + 0x10000, "what the kernel wants")

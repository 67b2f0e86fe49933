"""The chips' facts against each other, against LLVM, and against a list written down by hand."""

from __future__ import annotations

import io
from dataclasses import fields

import llvmlite.binding as llvm
import pytest
from elftools.elf.elffile import ELFFile

from boards.amd.chip import chip as board_chip
from boards.amd.chip_data import NUMBERS
from boards.amd.pci.firmware_set import NAMES as BARE_NAMES
from drivers.amd.chips import (
    CHIPS,
    NAMES,
    Chip,
    Family,
    chip_of,
    chip_of_device,
    target_name,
)
from drivers.amd.pci.hwid import HwId
from drivers.amd.regs import chip_files
from drivers.base.errors import MalformedInput, NotFound, Unsupported
from queues.amd import pm4, sdma
from tests.support import check

KERNEL = """
target triple = "amdgcn-amd-amdhsa"
define amdgpu_kernel void @k(ptr addrspace(1) %p) { store i32 1, ptr addrspace(1) %p
 ret void }
"""
ELF_MACH_MASK = 0xFF  # src: LLVM BinaryFormat/ELF.h EF_AMDGPU_MACH
chips = pytest.mark.parametrize("chip", CHIPS.values(), ids=NAMES)


def compiled(chip: Chip) -> tuple[int, str]:
    """ELF flags and assembly that LLVM makes for a chip."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("amdgcn-amd-amdhsa")
    machine = target.create_target_machine(cpu=chip.name, opt=2)
    module = llvm.parse_assembly(KERNEL, llvm.create_context())
    flags = ELFFile(io.BytesIO(machine.emit_object(module)))["e_flags"]
    return int(flags), str(machine.emit_assembly(module))


def test_the_list() -> None:
    wanted = {"gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1031", "gfx1032", "gfx1100", "gfx1101",
              "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1200", "gfx1201"}  # fmt: skip
    check(set(NAMES) == wanted and len(CHIPS) == len(wanted))


@chips
def test_the_name_follows_from_the_version(chip: Chip) -> None:
    check(target_name(chip.target_version) == chip.name)
    check(chip_of(chip.target_version) is chip)


@chips
def test_llvm_knows_it_as_the_same_machine(chip: Chip) -> None:
    flags, assembly = compiled(chip)
    check(flags & ELF_MACH_MASK == chip.elf_mach, hex(flags))
    check(f".wavefront_size: {chip.family.wave_lanes}" in assembly, "wave size")
    private_buffer = ".amdhsa_user_sgpr_private_segment_buffer" in assembly
    check(private_buffer != chip.family.architected_scratch, "scratch")


@chips
def test_the_register_file_is_what_a_save_area_holds(chip: Chip) -> None:
    family = chip.family
    nbytes = family.simd_per_cu * chip.vgprs_per_simd * family.wave_lanes * 4
    check(nbytes == chip.save_vgpr_bytes_per_cu, hex(nbytes))


# src: notes from gc_*_sh_mask.h (TMPRING_SIZE), kfd_device.c, amdgpu_discovery.c
@pytest.mark.parametrize(
    (
        "name",
        "lanes",
        "simds",
        "queue",
        "unit",
        "size_bits",
        "lds",
        "gc",
        "sdma",
    ),
    [
        ("gfx90a", 64, 4, "PM4", 1024, 13, 0x10000, (9, 4, 2), (4, 4, 0)),
        ("gfx942", 64, 4, "AQL", 1024, 13, 0x10000, (9, 4, 3), (4, 4, 2)),
        ("gfx950", 64, 4, "AQL", 1024, 13, 0x28000, (9, 5, 0), (4, 4, 4)),
        ("gfx1030", 32, 2, "PM4", 1024, 13, 0x10000, (10, 3, 0), (5, 2, 0)),
        ("gfx1031", 32, 2, "PM4", 1024, 13, 0x10000, (10, 3, 2), (5, 2, 2)),
        ("gfx1032", 32, 2, "PM4", 1024, 13, 0x10000, (10, 3, 4), (5, 2, 4)),
        ("gfx1100", 32, 2, "PM4", 256, 15, 0x10000, (11, 0, 0), (6, 0, 0)),
        ("gfx1101", 32, 2, "PM4", 256, 15, 0x10000, (11, 0, 3), (6, 0, 3)),
        ("gfx1102", 32, 2, "PM4", 256, 15, 0x10000, (11, 0, 2), (6, 0, 2)),
        ("gfx1103", 32, 2, "PM4", 256, 15, 0x10000, (11, 0, 1), (6, 0, 1)),
        ("gfx1150", 32, 2, "PM4", 256, 15, 0x10000, (11, 5, 0), (6, 1, 0)),
        ("gfx1151", 32, 2, "PM4", 256, 15, 0x10000, (11, 5, 1), (6, 1, 1)),
        ("gfx1200", 32, 2, "PM4", 256, 18, 0x10000, (12, 0, 0), (7, 0, 0)),
        ("gfx1201", 32, 2, "PM4", 256, 18, 0x10000, (12, 0, 1), (7, 0, 1)),
    ],
)
def test_facts(
    name: str, lanes: int, simds: int, queue: str, unit: int, size_bits: int,
    lds: int, gc: tuple[int, int, int], sdma: tuple[int, int, int],
) -> None:  # fmt: skip
    (chip,) = (chip for chip in CHIPS.values() if chip.name == name)
    family = chip.family
    check((family.wave_lanes, family.simd_per_cu) == (lanes, simds))
    check(family.queue == queue)
    check((family.scratch_unit_bytes, family.wavesize_bits) == (unit, size_bits))
    check(chip.lds_bytes == lds)
    check(gc in chip.gc and sdma in chip.sdma)


def test_the_second_stepping_of_mi300() -> None:
    # src: kfd_device.c (GC 9.4.4 is 90402), amdgpu_discovery.c (SDMA 4.4.5)
    chip = chip_of(90402)
    check((9, 4, 4) in chip.gc and (4, 4, 5) in chip.sdma)


def test_whose_launches_are_privileged() -> None:
    # src: kfd_debug.h kfd_dbg_has_cwsr_workaround(): 11.0.0 to 11.0.3
    for chip in CHIPS.values():
        check(chip.privileged == any((11, 0, 0) <= gc <= (11, 0, 3) for gc in chip.gc), chip.name)


def test_what_is_part_of_a_processor() -> None:
    # src: amdgpu_discovery.c, which sets AMD_IS_APU for GC 11.0.1, 11.0.4, 11.5.0 and 11.5.1
    found = {chip.name for chip in CHIPS.values() if chip.integrated}
    check(found == {"gfx1103", "gfx1150", "gfx1151"}, str(found))


def test_every_chip_has_its_packets() -> None:
    for chip in CHIPS.values():
        major = chip.target_version // 10000
        check(pm4.flavour_of(chip.name).name == f"gfx{major}", chip.name)
        engine = sdma.engine_of(chip.name).name
        check({str(number) for number, *_ in chip.sdma} == {engine.partition(".")[0]}, chip.name)
    for name in ("gfx803", "gfx1300", "gfx11", "gfx11001", "sm_90", "gfx1100 "):
        with pytest.raises(Unsupported):
            pm4.flavour_of(name)
        with pytest.raises(Unsupported):
            sdma.engine_of(name)


def test_no_two_chips_share_a_discovery_version() -> None:
    versions = [version for chip in CHIPS.values() for version in chip.gc]
    check(len(set(versions)) == len(versions))


def test_what_is_said_of_a_family_is_complete() -> None:
    for family in {chip.family.name: chip.family for chip in CHIPS.values()}.values():
        values = {field.name: getattr(family, field.name) for field in fields(Family)}
        check(values["workgroup_ids_in_ttmp"] == (family.name == "RDNA4"))
        check(values["packed_work_items"] == (family.name != "RDNA2"))
        check(values["matrix"] == {"C": "mfma", "RDNA2": ""}.get(
            "C" if family.name.startswith("CDNA") else family.name, "wmma"))  # fmt: skip


@pytest.mark.parametrize(
    ("version", "name"),
    [(100306, "gfx1036"), (90010, "gfx90a"), (90008, "gfx908"), (90012, "gfx90c"),
     (110501, "gfx1151"), (80003, "gfx803"), (90402, "gfx942"), (120501, "gfx1251")],
)  # fmt: skip
def test_names_of_versions(version: int, name: str) -> None:
    check(target_name(version) == name, target_name(version))


@pytest.mark.parametrize("version", [100306, 110502, 90008, 90400, 90401, 80003, 120501])
def test_others_are_refused_with_the_list(version: int) -> None:
    with pytest.raises(Unsupported) as caught:
        chip_of(version)
    for name in (target_name(version), *NAMES):
        check(name in str(caught.value), str(caught.value))


@pytest.mark.parametrize("version", [0, -1, 7, 9999, 91700, 90116, 1 << 31, 990000000])
def test_numbers_that_are_no_version(version: int) -> None:
    with pytest.raises(MalformedInput, match="not a version of a chip"):
        chip_of(version)


# src: pci.ids of October 2026: names that begin with Navi 31, 32, 33, 44, 48
DEVICES = {
    "gfx1100": (0x7448, 0x7449, 0x744A, 0x744B, 0x744C, 0x745E),
    "gfx1101": (0x7460, 0x7470, 0x747E),
    "gfx1102": (0x73F0, 0x7480, 0x7481, 0x7483, 0x7487, 0x7489, 0x748B, 0x7499, 0x749F),
    "gfx1200": (0x7590,), "gfx1201": (0x7550, 0x7551), "gfx942": (0x74A1,),
}  # fmt: skip


def test_every_card_of_a_die_is_the_chip() -> None:
    for name, devices in DEVICES.items():
        found = {chip.name if chip else None for chip in map(chip_of_device, devices)}
        check(found == {name}, f"{name}: {found}")
    for other in (0x74A0, 0x74A2, 0x74A5, 0x75A0, 0x73BF):
        check(chip_of_device(other) is None, f"{other:#x} is not booted")


def test_what_a_chip_over_bare_pci_adds() -> None:
    """The driver's record of a chip and the board's, two tables, agree on every IP version."""
    bare = {chip.name: chip.bare for chip in CHIPS.values() if chip.bare}
    check(set(bare) == set(BARE_NAMES), f"{set(bare) ^ set(BARE_NAMES)}")
    for name, one in bare.items():
        ip, numbers = board_chip(name).ip, NUMBERS[name]
        found = (one.mmhub, one.nbif, one.mp, one.mp)
        check(found == (ip["MMHUB"], ip["NBIF"], ip["MP0"], ip["MP1"]), name)
        check(numbers.device_id in one.device_ids, f"{name}: {numbers.device_id:#x}")
        found_names = {chip.name for chip in map(chip_of_device, one.device_ids) if chip}
        check(found_names == {name}, f"{found_names}")
        check(HwId.GC in chip_files(name), name)
    listed = [device for one in bare.values() for device in one.device_ids]
    check(len(set(listed)) == len(listed), "a device id is two chips")
    check(chip_files("gfx1102")[HwId.MMHUB].name == "mmhub_3_0_2", "another chip's memory hub")
    with pytest.raises(NotFound, match="gfx1101"):
        chip_files("gfx1030")

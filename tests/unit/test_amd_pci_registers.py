"""Registers by name: where they are, what is in them, and what is said when they do not answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drivers.amd.pci import discovery
from drivers.amd.pci.hwid import HwId
from drivers.amd.pci.mmio import MEMSIZE, Mmio
from drivers.amd.pci.registers import FILES, load
from drivers.bare.bus import Access, Indirect, RegisterBus
from drivers.base.errors import BadArgument, DeviceGone, DeviceTimeout, NotFound, Unsupported
from tests import discovery_maker as maker
from tests.fake_registers import FakeClock, FakeRegisters
from tests.support import check

ADDRESSES = json.loads(
    (Path(__file__).parents[1] / "data" / "amd_boot_addresses.json").read_text("ascii")
)
"""Registers that a driver known to run on silicon touches, as dwords of BAR5: recorded in front of
a model whose table has the bases of the tests."""
SCRATCH = 0xC047


def mmio(registers: FakeRegisters, versions: dict[int, tuple[int, int, int]]) -> Mmio:
    made = maker.Binary(maker.ips_of(versions), gc_words=maker.gc_v1(6, 4, 4, 2))
    return Mmio(RegisterBus(registers, FakeClock(), MEMSIZE), discovery.parse(maker.build(made)))


@pytest.mark.parametrize(
    ("chip", "versions"), [("gfx1100", maker.GFX1100), ("gfx1201", maker.GFX1201)]
)
def test_addresses_are_those_of_a_driver_that_runs(
    chip: str, versions: dict[int, tuple[int, int, int]]
) -> None:
    blocks = [mmio(FakeRegisters(), versions).block(HwId(hw)) for hw in versions if hw != 42]
    wrong = {}
    for name, dword in ADDRESSES[chip].items():
        found = {block.dword(name) for block in blocks if name in block.registers.registers}
        if found != {dword}:
            wrong[name] = found
    check(not wrong, f"{wrong}")


@pytest.mark.parametrize(
    ("hw", "versions", "name"),
    [(HwId.OSSSYS, [(6, 0, 1), (6, 0, 2)], "IH_RB_CNTL"),
     (HwId.HDP, [(6, 0, 1), (6, 1, 0), (6, 1, 1)], "HDP_NONSURFACE_BASE")],
)  # fmt: skip
def test_later_revisions_have_the_registers_of_the_first(
    hw: HwId, versions: list[tuple[int, int, int]], name: str
) -> None:
    """src: Linux 6.12, amdgpu_discovery.c: one source file, and so one header, serves them."""
    first = mmio(FakeRegisters(), maker.GFX1100).block(hw).dword(name)
    for version in versions:
        found = mmio(FakeRegisters(), maker.GFX1100 | {int(hw): version}).block(hw)
        check(found.dword(name) == first, f"{hw.name} {version}")
    with pytest.raises(Unsupported):
        mmio(FakeRegisters(), maker.GFX1100 | {int(hw): (6, 9, 9)}).block(hw)


def test_every_file_is_whole() -> None:
    """Fields lie in 32 bits, and no two registers have one address."""
    for hw, versions in FILES.items():
        for version in versions:
            file = load(hw, version)
            places = [(one.segment, one.offset_dw) for one in file.registers.values()]
            check(len(places) == len(file.registers) > 5, f"{file.name}: {len(places)}")
            check(
                all(0 <= low <= high < 32 for one in file.registers.values()
                    for low, high in one.fields.values()), file.name
            )  # fmt: skip


def test_one_name_for_what_generations_spell_differently() -> None:
    for hw, version in ((HwId.GC, (9, 4, 3)), (HwId.GC, (11, 0, 0)), (HwId.GC, (12, 0, 1)),
                        (HwId.MMHUB, (1, 8, 0)), (HwId.MMHUB, (3, 0, 2)),
                        (HwId.MMHUB, (4, 1, 0))):  # fmt: skip
        file = load(hw, version)
        check("VM_CONTEXT8_PAGE_TABLE_BASE_ADDR_LO32" in file, f"{file.name}")
        check("MC_VM_FB_LOCATION_BASE" in file, file.name)
    for version in ((13, 0, 0), (14, 0, 3)):
        check(load(HwId.MP0, version).get("C2PMSG_81").offset_dw == 0x91, "sign of life")
    for version in ((4, 3, 0), (6, 3, 1)):
        fields = load(HwId.NBIF, version).get("S2A_DOORBELL_ENTRY_2_CTRL").fields
        check(fields["awaddr_31_28_value"] == (28, 31), f"{fields}")


def test_fields() -> None:
    block = mmio(FakeRegisters(), maker.GFX1100).block(HwId.GC)
    # src: gc_11_0_0_sh_mask.h
    check(block.encode("CP_HQD_PQ_DOORBELL_CONTROL", doorbell_offset=6, doorbell_en=1)
          == 6 << 2 | 1 << 30)  # fmt: skip
    check(block.decode("SH_MEM_BASES", 0x10002) == {"private_base": 2, "shared_base": 1})
    with pytest.raises(ValueError, match="does not fit"):
        block.encode("SH_MEM_BASES", private_base=1 << 16)
    with pytest.raises(NotFound, match=r"no field 'base'.*private_base"):
        block.encode("SH_MEM_BASES", base=1)
    with pytest.raises(NotFound, match="no register 'SH_MEM'"):
        block.read("SH_MEM")


def test_an_update_keeps_the_other_bits() -> None:
    registers = FakeRegisters()
    block = mmio(registers, maker.GFX1100).block(HwId.GC)
    registers.words[block.dword("GRBM_CNTL")] = 0xABCD_1200
    block.update("GRBM_CNTL", read_timeout=0x34)
    check(registers.words[block.dword("GRBM_CNTL")] == 0xABCD_1234, "other bits")


def test_accesses_are_counted_and_told() -> None:
    bus_registers, reported = FakeRegisters({SCRATCH: 7}), list[Access]()
    gpu = mmio(bus_registers, maker.GFX1100)
    gpu.bus.trace = reported.append
    gpu.step = "step 1"
    block = gpu.block(HwId.GC)
    block.write("SCRATCH_REG7", block.read("SCRATCH_REG7") + 1)
    check((gpu.reads, gpu.writes) == (1, 1))
    seen = [(one.name, one.op, one.dword, one.value, one.step) for one in reported]
    check(seen == [("GC.SCRATCH_REG7", "R", SCRATCH, 7, "step 1"),
                   ("GC.SCRATCH_REG7", "W", SCRATCH, 8, "step 1")], f"{seen}")  # fmt: skip


def test_a_gpu_that_is_gone_is_told_from_a_register_full_of_ones() -> None:
    registers = FakeRegisters({0xDE3: 1024, SCRATCH: 0xFFFFFFFF})
    gpu = mmio(registers, maker.GFX1100)
    gpu.step = "graphics core"
    check(gpu.block(HwId.GC).read("SCRATCH_REG7") == 0xFFFFFFFF, "a value like any other")
    registers.gone = True
    with pytest.raises(DeviceGone, match=r"graphics core: GC\.SCRATCH_REG7 reads all ones"):
        gpu.block(HwId.GC).read("SCRATCH_REG7")
    with pytest.raises(DeviceGone, match=r"graphics core: GC\.SCRATCH_REG7"):
        gpu.block(HwId.GC).wait("SCRATCH_REG7", 1, 1, 1.0)


def test_a_wait_that_runs_out_names_step_and_register() -> None:
    registers = FakeRegisters({SCRATCH: 2})
    gpu = mmio(registers, maker.GFX1100)
    gpu.step = "power management"
    with pytest.raises(DeviceTimeout, match=r"power management: GC\.SCRATCH_REG7 is 0x2") as error:
        gpu.block(HwId.GC).wait("SCRATCH_REG7", 1, 1, 0.01)
    check(error.value.register == "GC.SCRATCH_REG7" and error.value.last == 2)
    answers = iter([0, 0, 5])
    registers.reads[SCRATCH] = lambda: next(answers)
    check(gpu.block(HwId.GC).wait("SCRATCH_REG7", 4, 4, 1.0) == 5, "the whole register")


def test_beyond_the_bar_through_index_and_data() -> None:
    registers = FakeRegisters(nbytes=512 << 10)
    bus = mmio(registers, maker.GFX1100).bus
    with pytest.raises(BadArgument, match="outside the register BAR"):
        bus.write(0x507A40, 1, "S2A")
    bus.indirect = Indirect(0x14, 0x15)
    registers.words[0x15] = 9
    check(bus.read(0x507A40) == 9)
    # what the driver known to run writes: notes, amd_boot_registers_gfx1100
    bus.write(0x507A40, 0x30000007)
    check(registers.written[-2:] == [(0x14, 0x141E900), (0x15, 0x30000007)])
    with pytest.raises(BadArgument):
        bus.write_far(1 << 34, 0)
    bus.indirect = Indirect(0xE, 0xF, 0x11)
    bus.write_far(2 << 32 | 1 << 34 | 0x40, 5)
    check(registers.written[-4:] == [(0xE, 0x40), (0x11, 6), (0xF, 5), (0x11, 0)])


def test_versions_and_segments_that_nobody_knows() -> None:
    made = maker.Binary(
        [maker.Ip(11, 0, (13, 0, 0), (0,)), maker.Ip(34, 0, (3, 0, 0), ())],
        gc_words=maker.gc_v1(6, 4, 4, 2),
    )
    gpu = Mmio(
        RegisterBus(FakeRegisters(), FakeClock(), MEMSIZE), discovery.parse(maker.build(made))
    )
    with pytest.raises(Unsupported, match=r"GC 13\.0\.0"):
        gpu.block(HwId.GC)
    with pytest.raises(NotFound, match="in segment 0, and the chip's table has 0"):
        gpu.block(HwId.MMHUB).read("VM_L2_CNTL")

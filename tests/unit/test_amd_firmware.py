"""Firmware headers: what comes out of each version, and every rule that a file can break."""

from __future__ import annotations

import pytest

from drivers.amd.firmware.assemble import FirmwareSet, assemble, parse
from drivers.amd.firmware.types import GfxFw, PspFw
from drivers.base.errors import FirmwareRejected, MalformedInput, Unsupported
from drivers.firmware import Entry, Image
from tests import firmware_maker as maker
from tests.support import check

FILES = maker.every_file()
ARCHS = ("gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201", "gfx942")


@pytest.mark.parametrize("name", FILES)
def test_parts_of_every_version(name: str) -> None:
    block, made = FILES[name]
    found = parse(block, made.data, name)
    parts = sorted((part.kind.name, bytes(part.data)) for part in found.parts)
    check(parts == sorted(made.parts), f"parts: {[kind for kind, _ in parts]}")
    check([(n, bytes(data)) for n, data in found.tables] == made.tables, "tables")
    aux = sorted((part.kind.name, bytes(part.data)) for part in found.aux)
    check(aux == sorted(made.aux), f"aux: {[kind for kind, _ in aux]}")
    check(found.start == made.start, f"start {found.start}")
    check(found.header.ucode_version == 0x1234, "version")
    check(all(part.data.readonly for part in found.parts), "a part can be changed after its check")


def patched(name: str, field: str, value: int) -> tuple[str, bytes]:
    """One field of a file changed."""
    block, made = FILES[name]
    version = made.data[8] + 256 * made.data[9], made.data[10]
    struct = {"PSP": "psp", "SMU": "smc", "SDMA": "sdma", "IMU": "imu", "RLC": "rlc"}
    full = f"{struct.get(block, 'gfx')}_firmware_header_v{version[0]}_{version[1]}"
    fields = maker.HEADERS["structs"][full]["fields"]
    at, size = next(fields[f] for f in fields if f".{f}".endswith(f".{field}"))
    data = bytearray(made.data)
    data[at : at + size] = value.to_bytes(size, "little")
    return block, bytes(data)


HUGE = 0xFFFF_FFFC


@pytest.mark.parametrize(
    ("name", "field", "value", "rule"),
    [
        ("imu", "size_bytes", 4, "size_bytes says 0x4"),
        ("imu", "header_size_bytes", 8, "header_size_bytes 0x8"),
        ("imu", "header_size_bytes", HUGE, "is outside the file"),
        ("imu", "header_size_bytes", 44, "has 48 bytes and not fewer"),
        ("imu", "ucode_array_offset_bytes", 16, "begins inside the header"),
        ("imu", "ucode_array_offset_bytes", HUGE, "the microcode at 0xfffffffc"),
        ("imu", "header_version_major", 2, "version 2.0 of the header is not one of 1.0"),
        ("imu", "imu_iram_ucode_size_bytes", 0, "IMU_I is empty"),
        ("imu", "imu_iram_ucode_size_bytes", HUGE, "IMU_I at 0x100+0xfffffffc is outside"),
        ("imu", "imu_dram_ucode_size_bytes", 116, "IMU_D at 0x160+0x74 is outside"),
        ("psp_2_0", "psp_fw_bin_count", 0, "psp_fw_bin_count 0 is not 1 ... 25"),
        ("psp_2_0", "psp_fw_bin_count", 26, "psp_fw_bin_count 26 is not 1 ... 25"),
        ("psp_2_0", "psp_fw_bin_count", 20, "the descriptors overlap the microcode"),
        ("psp_2_1", "psp_aux_fw_bin_index", 0, "psp_aux_fw_bin_index 0 is not 1 ... 8"),
        ("psp_2_1", "psp_aux_fw_bin_index", 9, "psp_aux_fw_bin_index 9 is not 1 ... 8"),
        ("psp_2_1", "psp_aux_fw_bin_index", 8, "KDB is described twice"),
        ("psp_2_0", "header_version_minor", 2, "version 2.2 of the header is not one of"),
        ("psp_1_0", "sos.size_bytes", 105, "SOS at 0x170+0x69 is outside"),
        ("psp_1_0", "sos.offset_bytes", 0, "SYS_DRV is empty"),
        ("smu_2_1", "pptable_count", 65, "pptable_count 65 is above 64"),
        ("smu_2_1", "pptable_entry_offset", HUGE, "pptable entries at 0xfffffffc"),
        ("smu_2_0", "ppt_size_bytes", HUGE, "the soft pptable at"),
        ("p2s", "pptable_count", 0, "neither code nor tables"),
        ("sdma_2_0", "ctl_ucode_offset", HUGE, "SDMA_UCODE_TH1 at 0xfffffffc"),
        ("sdma_2_0", "ctx_ucode_size_bytes", 0, "SDMA_UCODE_TH0 is empty"),
        ("MEC_1", "jt_size", 33, "the jump table at 0x60+0x84 is outside the microcode"),
        ("MEC_1", "jt_offset", 25, "the jump table at 0x64+0x60 is outside the microcode"),
        ("MEC_1", "jt_offset", 0x4000_0000, "the jump table at 0x100000000+0x60"),
        ("MEC_gfx11", "data_offset_bytes", HUGE, "RS64_MEC_P0_STACK at 0xfffffffc"),
        ("MEC_gfx11", "ip_version_major", 13, "gfx13 has no RS64 MEC"),
        ("rlc_2_3", "rlcv_ucode_offset_bytes", HUGE, "RLC_V at 0xfffffffc"),
        ("rlc_2_0", "reg_list_size_bytes", HUGE, "reg_list at 0x0+0xfffffffc"),
        ("rlc_2_4", "header_version_minor", 5, "version 2.5 of the header is not one of"),
    ],
)
def test_broken_rules_say_where(name: str, field: str, value: int, rule: str) -> None:
    block, data = patched(name, field, value)
    with pytest.raises(MalformedInput) as caught:
        parse(block, data, f"/lib/firmware/amdgpu/{name}.bin")
    check(rule in str(caught.value), str(caught.value))
    check(f"/lib/firmware/amdgpu/{name}.bin" in str(caught.value), str(caught.value))


def test_a_cut_file_and_an_unknown_block() -> None:
    with pytest.raises(MalformedInput, match="common_firmware_header"):
        parse("IMU", FILES["imu"][1].data[:31], "cut")
    with pytest.raises(MalformedInput, match="size_bytes says"):
        parse("IMU", FILES["imu"][1].data[:-1], "cut")
    with pytest.raises(Unsupported, match="Known are PSP"):
        parse("TOASTER", FILES["imu"][1].data, "bread")


def test_empty_lists_of_the_rlc_are_not_sent() -> None:
    without = ("save_restore_list_cntl", "save_restore_list_gpm")
    made = maker.rlc(3, without=without)
    kinds = [part.kind.name for part in parse("RLC", made.data, "rlc").parts]
    check("RLC_RESTORE_LIST_SRM_CNTL" not in kinds, str(kinds))
    check("RLC_RESTORE_LIST_SRM_MEM" in kinds, str(kinds))


def images(arch: str, **others: maker.Made) -> dict[str, Image]:
    made = maker.gpu(arch) | others
    return {
        block: Image(Entry(f"{block}.bin", block, ()), f"/{block}.bin", one.data, None)
        for block, one in made.items()
    }


def order(found: FirmwareSet) -> list[str]:
    return [part.kind.name for part in found.parts]


def test_gfx11_in_order() -> None:
    found = assemble(images("gfx1100"))
    # measured: psp_13_0_0_sos.bin of linux-firmware 20260916
    kinds = ("KDB", "SPL", "SYS_DRV", "SOS", "TOC", "RL")
    check(set(found.bootloader) == {PspFw[kind] for kind in kinds}, "boot loader's parts")
    check(found.smu is not None and found.smu.kind is GfxFw.SMU, "SMU goes by itself")
    expected = "SDMA_UCODE_TH0 SDMA_UCODE_TH1 RS64_MEC RS64_MEC_P0_STACK RS64_MEC_P1_STACK "
    expected += "RS64_MEC_P2_STACK RS64_MEC_P3_STACK IMU_I IMU_D RLC_RESTORE_LIST_GPM_MEM "
    expected += "RLC_RESTORE_LIST_SRM_MEM RLC_IRAM RLC_DRAM_BOOT RLC_P RLC_V RLC_G"
    check(order(found) == expected.split(), str(order(found)))
    check(found.start == {"MEC": maker.START}, str(found.start))
    check(found.versions["SDMA"] == 0x1234, str(found.versions))


def test_gfx12_in_order() -> None:
    found = assemble(images("gfx1201"))
    expected = "SDMA_UCODE_TH0 RS64_PFP RS64_ME RS64_MEC RS64_PFP_P0_STACK RS64_ME_P0_STACK "
    expected += "RS64_MEC_P0_STACK RS64_MEC_P1_STACK IMU_I IMU_D RLC_RESTORE_LIST_GPM_MEM "
    expected += "RLC_RESTORE_LIST_SRM_MEM RLC_IRAM RLC_DRAM_BOOT RLC_G"
    check(order(found) == expected.split(), str(order(found)))
    check(set(found.start) == {"PFP", "ME", "MEC"}, str(found.start))


@pytest.mark.parametrize(("device", "table"), [(0x74A1, maker.P2S_X), (0x74A5, maker.P2S_3)])
def test_gfx942_has_a_table_instead_of_smu_code(device: int, table: int) -> None:
    found = assemble(images("gfx942"), device)
    expected = "P2S_TABLE SDMA0 SDMA1 SDMA2 SDMA3 CP_MEC CP_MEC_ME1 RLC_RESTORE_LIST_SRM_CNTL "
    expected += "RLC_RESTORE_LIST_GPM_MEM RLC_RESTORE_LIST_SRM_MEM RLC_G"
    check(order(found) == expected.split(), str(order(found)))
    check(found.smu is None, "its SMU boots by itself")
    check(bytes(found.parts[0].data) == dict(maker.p2s().tables)[table], "the wrong table")


def test_an_old_sos_takes_no_table() -> None:
    block, made = "PSP", maker.gpu("gfx942")["PSP"]
    data = bytearray(made.data)
    at = maker.HEADERS["structs"]["psp_firmware_header_v2_1"]["size"] + 16 + 4  # SOS comes second
    data[at : at + 4] = (0x0036003B).to_bytes(4, "little")
    changed = images("gfx942") | {
        block: Image(Entry("psp.bin", block, ()), "/psp.bin", bytes(data), None)
    }
    check("P2S_TABLE" not in order(assemble(changed, 0x74A1)), "sent all the same")


def test_a_set_without_sos_is_refused() -> None:
    with pytest.raises(FirmwareRejected, match="no PSP SOS"):
        assemble(images("gfx1100", PSP=maker.psp(("KDB", "TOC"))))
    with pytest.raises(FirmwareRejected, match="has no PSP SOS"):
        assemble({})


@pytest.mark.parametrize("arch", ARCHS)
def test_parts_are_windows_on_the_checked_bytes(arch: str) -> None:
    found = images(arch)
    held = {id(image.data) for image in found.values()}
    for part in assemble(found).parts:
        check(id(part.data.obj) in held, f"{part.kind.name} is a copy of what was checked")

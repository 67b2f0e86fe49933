"""Synthetic firmware, one function for each kind of file and version of its header."""

from __future__ import annotations

from collections.abc import Sequence

from boards.amd.pci.firmware_file import ENUMS, HEADER_ROOM, HEADERS, File, Made
from boards.amd.pci.payload import RS64_START


def _descriptors(file: File, at: int, kinds: Sequence[str]) -> list[tuple[str, bytes]]:
    made: list[tuple[str, bytes]] = []
    for kind in kinds:
        place, piece = file.put(kind, 96 + 16 * len(made))
        row = (ENUMS[f"PSP_FW_TYPE_PSP_{kind}"], 0x360260, place - file.room, len(piece))
        for number, value in enumerate(row):
            file.body[at + 4 * number : at + 4 * number + 4] = value.to_bytes(4, "little")
        at += HEADERS["structs"]["psp_fw_bin_desc"]["size"]
        made.append((kind, piece))
    return made


PSP_KINDS = ("KDB", "SPL", "SYS_DRV", "SOC_DRV", "TOC", "SOS")


def psp(
    kinds: Sequence[str] = PSP_KINDS, aux: Sequence[str] = (), ip: tuple[int, int] = (13, 0)
) -> Made:
    """Version 2.0; 2.1 when there is a second set."""
    minor = int(bool(aux))
    struct = f"psp_firmware_header_v2_{minor}"
    long = len(kinds) + len(aux) > 8
    file = File(struct, (2, minor), ip, f"psp{kinds}{aux}", HEADER_ROOM << long)
    file.set("psp_fw_bin_count", len(kinds) + len(aux))
    if aux:
        file.set("psp_aux_fw_bin_index", len(kinds))
    at = HEADERS["structs"][struct]["size"]
    size = HEADERS["structs"]["psp_fw_bin_desc"]["size"]
    made = _descriptors(file, at, kinds)
    other = _descriptors(file, at + size * len(kinds), aux)
    return Made(file.done(), made, aux=other)


def psp_v1(minor: int) -> Made:
    """Version 1: descriptors by name."""
    file = File(f"psp_firmware_header_v1_{minor}", (1, minor), (13, 0), f"psp1{minor}")
    _, before = file.put("SYS_DRV", 112)
    made, aux = [("SYS_DRV", before)], []
    named = {field.split(".")[-2] for field in file.struct["fields"] if field.count(".") >= 1}
    for name in ("sos", "toc", "kdb", "spl", "rl", "res", "sys_drv_aux", "sos_aux"):
        if name not in named:
            continue
        place, piece = file.put(name.removesuffix("_aux").upper(), 104)
        prefix = next(f for f in file.struct["fields"] if f".{name}." in f".{f}")
        prefix = prefix[: prefix.index(f"{name}.") + len(name)]
        file.set(f"{prefix}.offset_bytes", place - HEADER_ROOM)
        file.set(f"{prefix}.size_bytes", len(piece))
        if name.endswith("_aux"):
            aux.append((name.removesuffix("_aux").upper(), piece))
        elif name != "res":
            made.append((name.upper(), piece))
    return Made(file.done(), made, aux=aux)


P2S_X, P2S_3, P2S_A = 0x50325358, 0x50325303, 0x50325341


def smu(minor: int = 1, ip: tuple[int, int] = (13, 0)) -> Made:
    """Version 2.0 with a soft pptable behind the code, 2.1 with a list of them, 1.0 without."""
    version = (1, 0) if minor < 0 else (2, minor)
    struct = f"smc_firmware_header_v{version[0]}_{version[1]}"
    file = File(struct, version, ip, f"smu{minor}")
    _, code = file.put("SMU", 96)
    if minor == 1:
        file.set("pptable_count", 2)
        at = file.skip(2 * HEADERS["structs"]["smc_soft_pptable_entry"]["size"])
        file.set("pptable_entry_offset", at)
        tables = _tables(file, at, (0x1, 0x2))
        return Made(file.done(len(code)), [("SMU", code)], tables=tables)
    if minor == 0:
        place, table = file.put("PPTABLE", 104)
        file.set("ppt_offset_bytes", place)
        file.set("ppt_size_bytes", len(table))
    return Made(file.done(len(code)), [("SMU", code)])


def _tables(file: File, at: int, names: Sequence[int]) -> list[tuple[int, bytes]]:
    made = []
    for number, name in enumerate(names):
        place, piece = file.put("P2S_TABLE", 96)
        row = at + number * HEADERS["structs"]["smc_soft_pptable_entry"]["size"]
        file.body[row : row + 12] = b"".join(
            word.to_bytes(4, "little") for word in (name, place, len(piece))
        )
        made.append((name, piece))
    return made


def p2s() -> Made:
    """gfx942's: no code, three tables."""
    file = File("smc_firmware_header_v2_1", (2, 1), (13, 0), "p2s")
    names = (P2S_A, P2S_X, P2S_3)
    file.set("pptable_count", len(names))
    file.set("pptable_entry_offset", HEADER_ROOM)
    file.skip(len(names) * HEADERS["structs"]["smc_soft_pptable_entry"]["size"])
    tables = _tables(file, HEADER_ROOM, names)
    return Made(file.done(0), [], tables=tables)


def sdma(major: int, minor: int = 0) -> Made:
    """One code for all engines (1), one for each thread (2), an RS64's (3)."""
    ip = {1: (4, 4), 2: (6, 0), 3: (7, 0)}[major]
    file = File(f"sdma_firmware_header_v{major}_{minor}", (major, minor), ip, f"sdma{major}")
    place, code = file.put("SDMA0" if major == 1 else "SDMA_UCODE_TH0", 128)
    if major == 1:
        return Made(file.done(), [(f"SDMA{number}", code) for number in range(4)])
    if major == 2:
        file.set("ctx_ucode_size_bytes", len(code))
        place, other = file.put("SDMA_UCODE_TH1", 112)
        file.set("ctl_ucode_offset", place)
        file.set("ctl_ucode_size_bytes", len(other))
        return Made(file.done(), [("SDMA_UCODE_TH0", code), ("SDMA_UCODE_TH1", other)])
    file.set("ucode_offset_bytes", place)
    file.set("ucode_size_bytes", len(code))
    return Made(file.done(), [("SDMA_UCODE_TH0", code)])


def rs64(block: str, gfx: int) -> Made:
    """A command processor's code and data; gfx11 has more pipes than gfx12."""
    file = File("gfx_firmware_header_v2_0", (2, 0), (gfx, 0), f"{block}{gfx}")
    _, code = file.put(f"RS64_{block}", 96)
    place, data = file.put(f"RS64_{block}_P0_STACK", 160)
    for name, value in (
        ("ucode_size_bytes", len(code)),
        ("ucode_offset_bytes", HEADER_ROOM),
        ("data_size_bytes", len(data)),
        ("data_offset_bytes", place),
        ("ucode_start_addr_lo", RS64_START & 0xFFFF_FFFF),
        ("ucode_start_addr_hi", RS64_START >> 32),
    ):
        file.set(name, value)
    pipes = {("MEC", 11): 4, ("MEC", 12): 2, ("PFP", 11): 2, ("ME", 11): 2}.get((block, gfx), 1)
    parts = [(f"RS64_{block}", code)]
    parts += [(f"RS64_{block}_P{pipe}_STACK", data) for pipe in range(pipes)]
    return Made(file.done(), parts, start=RS64_START)


def old_cp(block: str) -> Made:
    """Before RS64: code, and a jump table at its end."""
    file = File("gfx_firmware_header_v1_0", (1, 0), (9, 4), block)
    _, code = file.put(f"CP_{block}", 96)
    _, jumps = file.put(f"CP_{block}_ME1", 96)
    file.set("jt_offset", len(code) // 4)
    file.set("jt_size", len(jumps) // 4)
    parts = [("CP_MEC", code), ("CP_MEC_ME1", jumps)]
    return Made(file.done(), parts if block == "MEC" else [(f"CP_{block}", code + jumps)])


def imu(gfx: int = 11) -> Made:
    """Instructions and data."""
    file = File("imu_firmware_header_v1_0", (1, 0), (gfx, 0), f"imu{gfx}")
    _, code = file.put("IMU_I", 96)
    _, data = file.put("IMU_D", 112)
    file.set("imu_iram_ucode_size_bytes", len(code))
    file.set("imu_dram_ucode_size_bytes", len(data))
    file.set("imu_dram_ucode_offset_bytes", len(code))
    return Made(file.done(), [("IMU_I", code), ("IMU_D", data)])


RLC_PARTS = {
    "save_restore_list_cntl": ("RLC_RESTORE_LIST_SRM_CNTL", 1),
    "save_restore_list_gpm": ("RLC_RESTORE_LIST_GPM_MEM", 1),
    "save_restore_list_srm": ("RLC_RESTORE_LIST_SRM_MEM", 1),
    "rlc_iram_ucode": ("RLC_IRAM", 2),
    "rlc_dram_ucode": ("RLC_DRAM_BOOT", 2),
    "rlcp_ucode": ("RLC_P", 3),
    "rlcv_ucode": ("RLC_V", 3),
    "global_tap_delays_ucode": ("GLOBAL_TAP_DELAYS", 4),
    "se0_tap_delays_ucode": ("SE0_TAP_DELAYS", 4),
    "se1_tap_delays_ucode": ("SE1_TAP_DELAYS", 4),
    "se2_tap_delays_ucode": ("SE2_TAP_DELAYS", 4),
    "se3_tap_delays_ucode": ("SE3_TAP_DELAYS", 4),
}


def rlc(minor: int, gfx: int = 11, without: Sequence[str] = ()) -> Made:
    """Each version has the parts of the one before, and more; some may be empty."""
    file = File(f"rlc_firmware_header_v2_{minor}", (2, minor), (gfx, 0), f"rlc{minor}")
    _, code = file.put("RLC_G", 96)
    parts = [("RLC_G", code)]
    for prefix, (kind, since) in RLC_PARTS.items():
        if since > minor or prefix in without:
            continue
        place, piece = file.put(kind, 96 + 4 * len(parts))
        file.set(f"{prefix}_offset_bytes", place)
        file.set(f"{prefix}_size_bytes", len(piece))
        parts.append((kind, piece))
    return Made(file.done(len(code)), parts)

"""Synthetic firmware: true headers, made-up contents.

Where fields are comes from the kernel's structs as the C compiler lays them out
(`tests/data/amd_firmware_headers.json`), not from the code under test.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

HEADERS = json.loads((Path(__file__).parent / "data" / "amd_firmware_headers.json").read_text())
ENUMS: dict[str, int] = HEADERS["enums"]
HEADER_ROOM = 256
"""Where shipped files' contents begin."""


@dataclass
class Made:
    """A file, and the pieces of it that must come out: (name of the kind, bytes), in any order."""

    data: bytes
    parts: list[tuple[str, bytes]]
    start: int | None = None
    tables: list[tuple[int, bytes]] = field(default_factory=list)
    aux: list[tuple[str, bytes]] = field(default_factory=list)


class File:
    """A header of one struct, and contents that are appended behind it."""

    def __init__(
        self,
        struct: str,
        version: tuple[int, int],
        ip: tuple[int, int],
        seed: str,
        room: int = HEADER_ROOM,
    ) -> None:
        self.struct = HEADERS["structs"][struct]
        self.room = room
        self.body = bytearray(room)
        self._random = random.Random(seed)
        self.set("header_size_bytes", self.struct["size"])
        self.set("header_version_major", version[0])
        self.set("header_version_minor", version[1])
        self.set("ip_version_major", ip[0])
        self.set("ip_version_minor", ip[1])
        self.set("ucode_version", 0x1234)
        self.set("ucode_array_offset_bytes", room)

    def set(self, name: str, value: int) -> None:
        """A field by its name, or by the last part of it, which is taken at its first place."""
        fields = self.struct["fields"]
        full = name if name in fields else next(f for f in fields if f.endswith(f".{name}"))
        at, size = fields[full]
        self.body[at : at + size] = value.to_bytes(size, "little")

    def put(self, nbytes: int) -> tuple[int, bytes]:
        """Fresh contents: where they are in the file, and what."""
        at, piece = len(self.body), self._random.randbytes(nbytes)
        self.body += piece
        return at, piece

    def done(self, ucode_bytes: int | None = None) -> bytes:
        """The file; `ucode_bytes` is everything behind the header where nothing else is said."""
        whole = len(self.body) - self.room
        at, size = HEADERS["structs"]["common_firmware_header"]["fields"]["ucode_size_bytes"]
        nbytes = whole if ucode_bytes is None else ucode_bytes
        self.body[at : at + size] = nbytes.to_bytes(size, "little")
        self.set("size_bytes", len(self.body))
        return bytes(self.body)


def _descriptors(file: File, at: int, kinds: Sequence[str]) -> list[tuple[str, bytes]]:
    made = []
    for kind in kinds:
        place, piece = file.put(64 + 16 * len(made))
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
    _, before = file.put(48)
    made, aux = [("SYS_DRV", before)], []
    named = {field.split(".")[-2] for field in file.struct["fields"] if field.count(".") >= 1}
    for name in ("sos", "toc", "kdb", "spl", "rl", "res", "sys_drv_aux", "sos_aux"):
        if name not in named:
            continue
        place, piece = file.put(40)
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
    _, code = file.put(96)
    if minor == 1:
        file.set("pptable_count", 2)
        at, _ = file.put(2 * HEADERS["structs"]["smc_soft_pptable_entry"]["size"])
        file.set("pptable_entry_offset", at)
        tables = _tables(file, at, (0x1, 0x2))
        return Made(file.done(len(code)), [("SMU", code)], tables=tables)
    if minor == 0:
        place, table = file.put(40)
        file.set("ppt_offset_bytes", place)
        file.set("ppt_size_bytes", len(table))
    return Made(file.done(len(code)), [("SMU", code)])


def _tables(file: File, at: int, names: Sequence[int]) -> list[tuple[int, bytes]]:
    made = []
    for number, name in enumerate(names):
        place, piece = file.put(32)
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
    file.put(len(names) * HEADERS["structs"]["smc_soft_pptable_entry"]["size"])
    tables = _tables(file, HEADER_ROOM, names)
    return Made(file.done(0), [], tables=tables)


def sdma(major: int, minor: int = 0) -> Made:
    """One code for all engines (1), one for each thread (2), an RS64's (3)."""
    ip = {1: (4, 4), 2: (6, 0), 3: (7, 0)}[major]
    file = File(f"sdma_firmware_header_v{major}_{minor}", (major, minor), ip, f"sdma{major}")
    place, code = file.put(128)
    if major == 1:
        return Made(file.done(), [(f"SDMA{number}", code) for number in range(4)])
    if major == 2:
        file.set("ctx_ucode_size_bytes", len(code))
        place, other = file.put(112)
        file.set("ctl_ucode_offset", place)
        file.set("ctl_ucode_size_bytes", len(other))
        return Made(file.done(), [("SDMA_UCODE_TH0", code), ("SDMA_UCODE_TH1", other)])
    file.set("ucode_offset_bytes", place)
    file.set("ucode_size_bytes", len(code))
    return Made(file.done(), [("SDMA_UCODE_TH0", code)])


START = 0x7_0000_0000_3000


def rs64(block: str, gfx: int) -> Made:
    """A command processor's code and data; gfx11 has more pipes than gfx12."""
    file = File("gfx_firmware_header_v2_0", (2, 0), (gfx, 0), f"{block}{gfx}")
    _, code = file.put(96)
    place, data = file.put(160)
    for name, value in (
        ("ucode_size_bytes", len(code)),
        ("ucode_offset_bytes", HEADER_ROOM),
        ("data_size_bytes", len(data)),
        ("data_offset_bytes", place),
        ("ucode_start_addr_lo", START & 0xFFFF_FFFF),
        ("ucode_start_addr_hi", START >> 32),
    ):
        file.set(name, value)
    pipes = {("MEC", 11): 4, ("MEC", 12): 2, ("PFP", 11): 2, ("ME", 11): 2}.get((block, gfx), 1)
    parts = [(f"RS64_{block}", code)]
    parts += [(f"RS64_{block}_P{pipe}_STACK", data) for pipe in range(pipes)]
    return Made(file.done(), parts, start=START)


def old_cp(block: str) -> Made:
    """Before RS64: code, and a jump table at its end."""
    file = File("gfx_firmware_header_v1_0", (1, 0), (9, 4), block)
    _, code = file.put(96)
    _, jumps = file.put(32)
    file.set("jt_offset", len(code) // 4)
    file.set("jt_size", len(jumps) // 4)
    parts = [("CP_MEC", code), ("CP_MEC_ME1", jumps)]
    return Made(file.done(), parts if block == "MEC" else [(f"CP_{block}", code + jumps)])


def imu(gfx: int = 11) -> Made:
    """Instructions and data."""
    file = File("imu_firmware_header_v1_0", (1, 0), (gfx, 0), f"imu{gfx}")
    _, code = file.put(96)
    _, data = file.put(80)
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
    _, code = file.put(96)
    parts = [("RLC_G", code)]
    for prefix, (kind, since) in RLC_PARTS.items():
        if since > minor or prefix in without:
            continue
        place, piece = file.put(32 + 4 * len(parts))
        file.set(f"{prefix}_offset_bytes", place)
        file.set(f"{prefix}_size_bytes", len(piece))
        parts.append((kind, piece))
    return Made(file.done(len(code)), parts)


def every_file() -> dict[str, tuple[str, Made]]:
    """One file of every version: its name here, the block that takes it, what it is."""
    made: dict[str, tuple[str, Made]] = {
        "psp_2_0": ("PSP", psp()),
        "psp_2_1": ("PSP", psp(aux=("KDB", "SOS"))),
        "smu_1_0": ("SMU", smu(-1)),
        "smu_2_0": ("SMU", smu(0)),
        "smu_2_1": ("SMU", smu(1)),
        "p2s": ("SMU", p2s()),
        "sdma_1_0": ("SDMA", sdma(1)),
        "sdma_1_1": ("SDMA", sdma(1, 1)),
        "sdma_2_0": ("SDMA", sdma(2)),
        "sdma_3_0": ("SDMA", sdma(3)),
        "imu": ("IMU", imu()),
    }
    made |= {f"psp_1_{minor}": ("PSP", psp_v1(minor)) for minor in range(4)}
    made |= {f"rlc_2_{minor}": ("RLC", rlc(minor)) for minor in range(5)}
    for block in ("PFP", "ME", "MEC"):
        made[f"{block}_1"] = (block, old_cp(block))
        made |= {f"{block}_gfx{gfx}": (block, rs64(block, gfx)) for gfx in (11, 12)}
    return made


def gpu(arch: str) -> dict[str, Made]:
    """By block, everything that one GPU needs; the headers are of the versions it ships with."""
    if arch == "gfx942":
        kinds = ("SYS_DRV", "SOS", "KDB", "SOC_DRV", "INTF_DRV", "DBG_DRV", "RAS_DRV", "RL")
        boot = psp(kinds, aux=kinds)
        rest = {"SMU": p2s(), "SDMA": sdma(1), "MEC": old_cp("MEC"), "RLC": rlc(1, gfx=9)}
        return {"PSP": boot, **rest}
    if arch.startswith("gfx12"):
        cores = {block: rs64(block, 12) for block in ("PFP", "ME", "MEC")}
        files = {"PSP": psp(ip=(14, 0)), "SMU": smu(0, (14, 0)), "SDMA": sdma(3), **cores}
        return {**files, "IMU": imu(12), "RLC": rlc(2, 12, ("save_restore_list_cntl",))}
    small = ("save_restore_list_cntl",)
    files = {"PSP": psp(), "SMU": smu(1), "SDMA": sdma(2), "MEC": rs64("MEC", 11)}
    return {**files, "IMU": imu(), "RLC": rlc(3, 11, small)}


def manifest_toml(files: dict[str, tuple[str, bytes]], arch: str = "gfx1100") -> bytes:
    """The manifest of these files (name to block and contents) and one chip that needs them all."""
    lines = ['folder = "amdgpu"', 'licence = "made up"', "[packages]", 'debian = "made-up"']
    lines += ["[[release]]", 'name = "r1"', 'origin = "tests/firmware_maker.py"', "[[chip]]"]
    lines += [f'arch = "{arch}"', 'blocks = "made up"', f"files = {json.dumps(list(files))}"]
    for name, (block, data) in files.items():
        digest = hashlib.sha256(data).hexdigest()
        lines += ["[[file]]", f'name = "{name}"', f'block = "{block}"', "versions = ["]
        lines += [f'{{ size = {len(data)}, sha256 = "{digest}", releases = ["r1"] }},', "]"]
    return ("\n".join(lines) + "\n").encode()


def gpu_files(arch: str) -> dict[str, tuple[str, bytes]]:
    """Names, blocks and contents of a made-up GPU's firmware, as `manifest_toml` takes them."""
    return {f"{block.lower()}_{arch}.bin": (block, made.data) for block, made in gpu(arch).items()}

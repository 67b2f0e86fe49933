"""Firmware of SMU, SDMA, the command processors, IMU and RLC: one parser for each block.

Source: Linux 6.12, amdgpu_ucode.h (the structs), amdgpu_ucode.c (amdgpu_ucode_init_single_fw: what
of a file is sent), amdgpu_gfx.c, amdgpu_rlc.c, amdgpu_sdma.c, smu_v13_0_6_ppt.c
"""

from __future__ import annotations

from drivers.amd.firmware.header import DWORD_BYTES, Fields, Firmware, Header, unknown_version
from drivers.amd.firmware.types import GfxFw
from drivers.base.view import View

_SMU: dict[tuple[int, int], tuple[str, ...]] = {
    (1, 0): ("ucode_start_addr",),
    (2, 0): ("ucode_start_addr", "ppt_offset_bytes", "ppt_size_bytes"),
    (2, 1): ("ucode_start_addr", "pptable_count", "pptable_entry_offset"),
}
_SDMA: dict[tuple[int, int], tuple[str, ...]] = {
    (1, 0): ("ucode_feature_version", "ucode_change_version", "jt_offset", "jt_size"),
    (2, 0): (
        "ucode_feature_version",
        "ctx_ucode_size_bytes",
        "ctx_jt_offset",
        "ctx_jt_size",
        "ctl_ucode_offset",
        "ctl_ucode_size_bytes",
        "ctl_jt_offset",
        "ctl_jt_size",
    ),
    (3, 0): ("ucode_feature_version", "ucode_offset_bytes", "ucode_size_bytes"),
}
_SDMA[(1, 1)] = (*_SDMA[(1, 0)], "digest_size")
_CP: dict[tuple[int, int], tuple[str, ...]] = {
    (1, 0): ("ucode_feature_version", "jt_offset", "jt_size"),
    (2, 0): (
        "ucode_feature_version",
        "ucode_size_bytes",
        "ucode_offset_bytes",
        "data_size_bytes",
        "data_offset_bytes",
        "ucode_start_addr_lo",
        "ucode_start_addr_hi",
    ),
}
_IMU = (
    "imu_iram_ucode_size_bytes",
    "imu_iram_ucode_offset_bytes",
    "imu_dram_ucode_size_bytes",
    "imu_dram_ucode_offset_bytes",
)
_SDMA_ENGINES = (GfxFw.SDMA0, GfxFw.SDMA1, GfxFw.SDMA2, GfxFw.SDMA3)
"""The same code for every engine of a die; src: amdgpu_sdma.c, num_inst_per_aid"""
_CODE = {"PFP": GfxFw.RS64_PFP, "ME": GfxFw.RS64_ME, "MEC": GfxFw.RS64_MEC}
_GFX11, _GFX12 = 11, 12
_STACKS: dict[tuple[int, str], tuple[GfxFw, ...]] = {
    (_GFX11, "PFP"): (GfxFw.RS64_PFP_P0_STACK, GfxFw.RS64_PFP_P1_STACK),
    (_GFX11, "ME"): (GfxFw.RS64_ME_P0_STACK, GfxFw.RS64_ME_P1_STACK),
    (_GFX11, "MEC"): (
        GfxFw.RS64_MEC_P0_STACK,
        GfxFw.RS64_MEC_P1_STACK,
        GfxFw.RS64_MEC_P2_STACK,
        GfxFw.RS64_MEC_P3_STACK,
    ),
    (_GFX12, "PFP"): (GfxFw.RS64_PFP_P0_STACK,),
    (_GFX12, "ME"): (GfxFw.RS64_ME_P0_STACK,),
    (_GFX12, "MEC"): (GfxFw.RS64_MEC_P0_STACK, GfxFw.RS64_MEC_P1_STACK),
}
"""One copy of the data for each pipe; src: gfx_v11_0.c, gfx_v12_0.c (init_microcode)"""
_MAX_TABLES = 64
_TABLE = "III"


def parse_smu(view: View, header: Header) -> Firmware:
    """smu_*.bin: the SMU's code, or (gfx942) only tables for it. Raises: MalformedInput."""
    if header.version not in _SMU:
        raise unknown_version(view, header, list(_SMU))
    fields = Fields(view, header, _SMU[header.version])
    tables: tuple[tuple[int, memoryview], ...] = ()
    if header.version == (2, 1):
        count, at = fields["pptable_count"], fields["pptable_entry_offset"]
        if count > _MAX_TABLES:
            raise view.fail(f"pptable_count {count} is above {_MAX_TABLES}")
        rows = view.table(_TABLE, at, count, "pptable entries")
        tables = tuple((name, view.sub(off, size, "a table").data) for name, off, size in rows)
    elif header.version == (2, 0):
        view.sub(fields["ppt_offset_bytes"], fields["ppt_size_bytes"], "the soft pptable")
    if header.ucode_nbytes == 0 and not tables:
        raise view.fail("it has neither code nor tables")
    if header.ucode_nbytes == 0:
        return Firmware(header, (), tables=tables)
    code = fields.part(GfxFw.SMU, header.ucode_off, header.ucode_nbytes, header.ucode_version)
    return Firmware(header, (code,), tables=tables)


def parse_sdma(view: View, header: Header) -> Firmware:
    """sdma_*.bin: one code for all engines, one for each thread, or an RS64's."""
    if header.version not in _SDMA:
        raise unknown_version(view, header, list(_SDMA))
    fields = Fields(view, header, _SDMA[header.version])
    at, version = header.ucode_off, header.ucode_version
    major = header.version[0]
    if major == 1:
        size = header.ucode_nbytes
        parts = [fields.part(kind, at, size, version) for kind in _SDMA_ENGINES]
    elif major == 2:
        parts = [
            fields.part(GfxFw.SDMA_UCODE_TH0, at, fields["ctx_ucode_size_bytes"], version),
            fields.part(
                GfxFw.SDMA_UCODE_TH1,
                fields["ctl_ucode_offset"],
                fields["ctl_ucode_size_bytes"],
                version,
            ),
        ]
    else:
        parts = [fields.part(GfxFw.SDMA_UCODE_TH0, at, fields["ucode_size_bytes"], version)]
    return Firmware(header, tuple(parts))


def parse_cp(view: View, header: Header, block: str) -> Firmware:
    """gc_*_{pfp,me,mec}.bin: code and jump table, or an RS64's code, data and start."""
    if header.version not in _CP:
        raise unknown_version(view, header, list(_CP))
    fields = Fields(view, header, _CP[header.version])
    if header.version == (1, 0):
        return _old_cp(view, header, fields, block)
    stacks = _STACKS.get((header.ip[0], block))
    if stacks is None:
        raise view.fail(f"gfx{header.ip[0]} has no RS64 {block}")
    off, size = fields["data_offset_bytes"], fields["data_size_bytes"]
    version = header.ucode_version
    code = fields.part(_CODE[block], header.ucode_off, fields["ucode_size_bytes"], version)
    data = [fields.part(kind, off, size, version) for kind in stacks]
    start = fields["ucode_start_addr_hi"] << 32 | fields["ucode_start_addr_lo"]
    return Firmware(header, (code, *data), start=start)


def _old_cp(view: View, header: Header, fields: Fields, block: str) -> Firmware:
    """A command processor before RS64; only MEC's jump table is sent by itself."""
    at, size, version = header.ucode_off, header.ucode_nbytes, header.ucode_version
    if block != "MEC":
        kind = {"PFP": GfxFw.CP_PFP, "ME": GfxFw.CP_ME}[block]
        return Firmware(header, (fields.part(kind, at, size, version),))
    jumps_at, jumps = fields["jt_offset"] * DWORD_BYTES, fields["jt_size"] * DWORD_BYTES
    if jumps > size or jumps_at > size - jumps:
        raise view.fail(f"the jump table at {jumps_at:#x}+{jumps:#x} is outside the microcode")
    parts = (
        fields.part(GfxFw.CP_MEC, at, size - jumps, version),
        fields.part(GfxFw.CP_MEC_ME1, at + jumps_at, jumps, version),
    )
    return Firmware(header, parts)


def parse_imu(view: View, header: Header) -> Firmware:
    """gc_*_imu.bin: instructions, and data right behind them."""
    if header.version != (1, 0):
        raise unknown_version(view, header, [(1, 0)])
    fields = Fields(view, header, _IMU)
    code_bytes, data_bytes = fields[_IMU[0]], fields["imu_dram_ucode_size_bytes"]
    at, version = header.ucode_off, header.ucode_version
    parts = (
        fields.part(GfxFw.IMU_I, at, code_bytes, version),
        fields.part(GfxFw.IMU_D, at + code_bytes, data_bytes, version),
    )
    return Firmware(header, parts)

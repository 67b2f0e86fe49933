"""The RLC's file: a header that grew from version to version, and up to a dozen parts.

Source: Linux 6.12, amdgpu_ucode.h (rlc_firmware_header_v2_*), amdgpu_rlc.c
"""

from __future__ import annotations

from drivers.amd.firmware.header import Fields, Firmware, Header, Part, unknown_version
from drivers.amd.firmware.types import GfxFw
from drivers.base.view import View

_V2_0 = (
    "ucode_feature_version",
    "jt_offset",
    "jt_size",
    "save_and_restore_offset",
    "clear_state_descriptor_offset",
    "avail_scratch_ram_locations",
    "reg_restore_list_size",
    "reg_list_format_start",
    "reg_list_format_separate_start",
    "starting_offsets_start",
    "reg_list_format_size_bytes",
    "reg_list_format_array_offset_bytes",
    "reg_list_size_bytes",
    "reg_list_array_offset_bytes",
    "reg_list_format_separate_size_bytes",
    "reg_list_format_separate_array_offset_bytes",
    "reg_list_separate_size_bytes",
    "reg_list_separate_array_offset_bytes",
)
_LISTS = {
    "save_restore_list_cntl": GfxFw.RLC_RESTORE_LIST_SRM_CNTL,
    "save_restore_list_gpm": GfxFw.RLC_RESTORE_LIST_GPM_MEM,
    "save_restore_list_srm": GfxFw.RLC_RESTORE_LIST_SRM_MEM,
}
_RAMS = {"rlc_iram_ucode": GfxFw.RLC_IRAM, "rlc_dram_ucode": GfxFw.RLC_DRAM_BOOT}
_CORES = {"rlcp_ucode": GfxFw.RLC_P, "rlcv_ucode": GfxFw.RLC_V}
_DELAYS = {
    "global_tap_delays_ucode": GfxFw.GLOBAL_TAP_DELAYS,
    "se0_tap_delays_ucode": GfxFw.SE0_TAP_DELAYS,
    "se1_tap_delays_ucode": GfxFw.SE1_TAP_DELAYS,
    "se2_tap_delays_ucode": GfxFw.SE2_TAP_DELAYS,
    "se3_tap_delays_ucode": GfxFw.SE3_TAP_DELAYS,
}


def _described(prefixes: dict[str, GfxFw], *versions: str) -> tuple[str, ...]:
    """For each part its versions, its size and its place, as the structs have them."""
    ends = (*versions, "size_bytes", "offset_bytes")
    return tuple(f"{prefix}_{end}" for prefix in prefixes for end in ends)


_ADDED: tuple[tuple[tuple[str, ...], dict[str, GfxFw]], ...] = (
    (_V2_0, {}),
    (
        (
            "reg_list_format_direct_reg_list_length",
            *_described(_LISTS, "ucode_ver", "feature_ver"),
        ),
        _LISTS,
    ),
    (_described(_RAMS), _RAMS),
    (_described(_CORES, "version", "feature_version"), _CORES),
    (_described(_DELAYS), _DELAYS),
)
"""What each minor version appends: fields, and the parts that they describe."""
_LISTED = ("reg_list_format", "reg_list")
"""Lists of version 2.0 that Linux reads and does not send."""


def parse_rlc(view: View, header: Header) -> Firmware:
    """gc_*_rlc.bin. Raises: MalformedInput."""
    major, minor = header.version
    known = [(2, number) for number in range(len(_ADDED))]
    if (major, minor) not in known:
        raise unknown_version(view, header, known)
    added = _ADDED[: minor + 1]
    fields = Fields(view, header, [name for names, _ in added for name in names])
    for name in _LISTED:
        view.sub(fields[f"{name}_array_offset_bytes"], fields[f"{name}_size_bytes"], name)
    parts: list[Part] = []
    for _, prefixes in added:
        for prefix, kind in prefixes.items():
            parts += fields.named(kind, prefix)
    version = header.ucode_version
    parts.append(fields.part(GfxFw.RLC_G, header.ucode_off, header.ucode_nbytes, version))
    return Firmware(header, tuple(parts))

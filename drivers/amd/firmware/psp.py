"""The security processor's own file: parts that its boot loader takes one after the other.

Source: Linux 6.12, amdgpu_ucode.h (psp_firmware_header_*), amdgpu_psp.c (psp_init_sos_microcode)
"""

from __future__ import annotations

from drivers.amd.firmware.header import (
    COMMON_BYTES,
    DWORD_BYTES,
    Fields,
    Firmware,
    Header,
    Part,
    unknown_version,
)
from drivers.amd.firmware.types import PspFw
from drivers.base.view import View

_LEGACY = ("fw_version", "offset_bytes", "size_bytes")
_LEGACY_PARTS: dict[int, tuple[str, ...]] = {
    0: ("sos",),
    1: ("sos", "toc", "kdb"),
    2: ("sos", "res", "kdb"),
    3: ("sos", "toc", "kdb", "spl", "rl", "sys_drv_aux", "sos_aux"),
}
"""Descriptors of version 1's headers, by minor version."""
_LEGACY_KINDS = {"toc": PspFw.TOC, "kdb": PspFw.KDB, "spl": PspFw.SPL, "rl": PspFw.RL}
_LEGACY_AUX = {"sys_drv_aux": PspFw.SYS_DRV, "sos_aux": PspFw.SOS}
_MAX_PARTS = 25
"""src: amdgpu_ucode.h, UCODE_MAX_PSP_PACKAGING (26) is the first number that is refused"""
_DESCRIPTOR = "IIII"
_KNOWN = (*((1, minor) for minor in _LEGACY_PARTS), (2, 0), (2, 1))


def parse_psp(view: View, header: Header) -> Firmware:
    """psp_*_sos.bin. Raises: MalformedInput."""
    if header.version not in _KNOWN:
        raise unknown_version(view, header, _KNOWN)
    return _legacy(view, header) if header.version[0] == 1 else _packed(view, header)


def _legacy(view: View, header: Header) -> Firmware:
    """Version 1: named descriptors; what lies in front of SOS is SYS_DRV."""
    names = _LEGACY_PARTS[header.version[1]]
    fields = Fields(view, header, [f"{part}.{key}" for part in names for key in _LEGACY])

    def part(kind: PspFw, name: str) -> Part:
        off, nbytes = fields[f"{name}.offset_bytes"], fields[f"{name}.size_bytes"]
        return fields.part(kind, header.ucode_off + off, nbytes, fields[f"{name}.fw_version"])

    before_sos = fields["sos.offset_bytes"]
    parts = [
        fields.part(PspFw.SYS_DRV, header.ucode_off, before_sos, header.ucode_version),
        part(PspFw.SOS, "sos"),
    ]
    there = [name for name in names if fields[f"{name}.size_bytes"]]
    parts += [part(_LEGACY_KINDS[name], name) for name in there if name in _LEGACY_KINDS]
    aux = [part(_LEGACY_AUX[name], name) for name in there if name in _LEGACY_AUX]
    return Firmware(header, tuple(parts), aux=tuple(aux))


def _packed(view: View, header: Header) -> Firmware:
    """Version 2: a list of descriptors; in 2.1 a second set begins at an index of it."""
    minor = header.version[1]
    names = ("psp_fw_bin_count", "psp_aux_fw_bin_index")[: 1 + minor]
    fields = Fields(view, header, names)
    count = fields["psp_fw_bin_count"]
    if not 1 <= count <= _MAX_PARTS:
        raise view.fail(f"psp_fw_bin_count {count} is not 1 ... {_MAX_PARTS}", COMMON_BYTES)
    aux_at = fields["psp_aux_fw_bin_index"] if minor else count
    if not 1 <= aux_at <= count:
        raise view.fail(f"psp_aux_fw_bin_index {aux_at} is not 1 ... {count}", COMMON_BYTES)
    rows = view.table(_DESCRIPTOR, COMMON_BYTES + DWORD_BYTES * len(names), count, "psp_fw_bin")
    if COMMON_BYTES + DWORD_BYTES * (len(names) + len(_DESCRIPTOR) * count) > header.ucode_off:
        raise view.fail("the descriptors overlap the microcode")
    parts = _described(view, header, fields, rows[:aux_at])
    return Firmware(header, parts, aux=_described(view, header, fields, rows[aux_at:]))


def _described(
    view: View, header: Header, fields: Fields, rows: list[tuple[int, ...]]
) -> tuple[Part, ...]:
    """The parts of one set. Kinds that are not in PspFw are left out, as Linux leaves them out."""
    known = set(PspFw)
    parts: dict[PspFw, Part] = {}
    for number, version, off, nbytes in rows:
        if number not in known:
            continue
        kind = PspFw(number)
        if kind in parts:
            raise view.fail(f"{kind.name} is described twice", COMMON_BYTES)
        parts[kind] = fields.part(kind, header.ucode_off + off, nbytes, version)
    return tuple(parts.values())

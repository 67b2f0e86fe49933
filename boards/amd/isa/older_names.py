"""Mnemonics of gfx9 and gfx10 whose meaning the shared tables define under gfx11's name."""

from __future__ import annotations

import re
from collections.abc import Iterable

from boards.amd.isa.table import Entry

# src: LLVM 19's AMDGPU disassembler, the names of gfx90a, gfx1030 and gfx1100 side by side.
_SAME = {
    "s_ff1_i32_b32": "s_ctz_i32_b32", "s_ff1_i32_b64": "s_ctz_i32_b64",
    "s_flbit_i32_b32": "s_clz_i32_u32", "s_flbit_i32_b64": "s_clz_i32_u64",
    "s_flbit_i32": "s_cls_i32", "s_flbit_i32_i64": "s_cls_i32_i64",
    "s_inst_prefetch": "s_set_inst_prefetch_distance",
    "v_cvt_rpi_i32_f32": "v_cvt_nearest_i32_f32", "v_cvt_flr_i32_f32": "v_cvt_floor_i32_f32",
    "v_ffbh_u32": "v_clz_i32_u32", "v_ffbl_b32": "v_ctz_i32_b32", "v_ffbh_i32": "v_cls_i32",
    "v_dot2c_f32_f16": "v_dot2acc_f32_f16", "v_cvt_pkrtz_f16_f32": "v_cvt_pk_rtz_f16_f32",
    "v_mul_legacy_f32": "v_mul_dx9_zero_f32", "v_fma_legacy_f32": "v_fma_dx9_zero_f32",
    "v_fmac_legacy_f32": "v_fmac_dx9_zero_f32",
}  # fmt: skip
_PARTS = (
    (r"^s_andn2_", "s_and_not1_"), (r"^s_orn2_", "s_or_not1_"),
    (r"^s_andn1_", "s_and_not0_"), (r"^s_orn1_", "s_or_not0_"),
    (r"^v_cvt_pknorm_", "v_cvt_pk_norm_"),
    (r"^(v_cmpx?)_tru_", r"\1_t_"),
    (r"^ds_(read|write)2st64_", r"ds_\g<1>_2addr_stride64_"),
    (r"^ds_(read|write)2_", r"ds_\g<1>_2addr_"),
    (r"^ds_wrxchg2st64_", "ds_storexchg_2addr_stride64_"),
    (r"^ds_wrxchg2_", "ds_storexchg_2addr_"), (r"^ds_wrxchg_", "ds_storexchg_"),
    (r"^ds_read_", "ds_load_"), (r"^ds_write_", "ds_store_"),
)  # fmt: skip
_SIZES = {
    "ubyte": "u8", "sbyte": "i8", "ushort": "u16", "sshort": "i16", "byte": "b8", "short": "b16",
    "dword": "b32", "dwordx2": "b64", "dwordx3": "b96", "dwordx4": "b128", "dwordx8": "b256",
    "dwordx16": "b512",
}  # fmt: skip
_ACCESS = re.compile(
    r"^(s_|buffer_|s_buffer_)?(load|store)_([us]?(?:byte|short)|dword(?:x\d+)?)(_d16)?(_hi)?$"
)
_KINDS = {"swap": "b", "cmpswap": "b", "and": "b", "or": "b", "xor": "b"}
_SIGNS = {"u": "u", "s": "i", "f": "f"}
_MIN_MAX = re.compile(r"^([usf])(min|max|cmpswap)$")


def meaning(name: str) -> str:
    """gfx11's name of a mnemonic; FLAT names come without their segment."""
    if name in _SAME:
        return _SAME[name]
    access = _ACCESS.match(name)
    if access:
        space, action, size, half, high = (part or "" for part in access.groups())
        return f"{space}{action}{half}{high}_{_SIZES[size]}"
    if name.startswith(("atomic_", "buffer_atomic_")):
        return _atomic(name)
    for pattern, replacement in _PARTS:
        name = re.sub(pattern, replacement, name)
    return name.replace("ds_read_", "ds_load_").replace("ds_write_", "ds_store_")


def _atomic(name: str) -> str:
    space, _, action = name.rpartition("atomic_")
    bits = "64" if action.endswith("_x2") else "32"
    action = action.removesuffix("_x2")
    signed = _MIN_MAX.match(action)
    if signed:
        return f"{space}atomic_{signed[2]}_{_SIGNS[signed[1]]}{bits}"
    return f"{space}atomic_{action}_{_KINDS.get(action, 'u')}{bits}"


def meanings(*tables: Iterable[Entry]) -> dict[str, str]:
    """The mnemonics of some tables that mean something under another name."""
    names = {entry.name for entries in tables for entry in entries}
    return {name: meaning(name) for name in names if meaning(name) != name}

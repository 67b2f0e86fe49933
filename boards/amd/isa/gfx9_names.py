"""What the mnemonics of gfx9 mean: the names under which the executor defines instructions."""

from __future__ import annotations

import re
from collections.abc import Mapping

from boards.amd.isa.table import Entry

# src: llvm/lib/Target/AMDGPU, *Instructions.td: one definition a meaning, several real mnemonics;
# the executor has the names of gfx11.
_SAME = {
    "s_ff1_i32_b32": "s_ctz_i32_b32", "s_ff1_i32_b64": "s_ctz_i32_b64",
    "s_flbit_i32_b32": "s_clz_i32_u32", "s_flbit_i32_b64": "s_clz_i32_u64",
    "s_flbit_i32": "s_cls_i32", "s_flbit_i32_i64": "s_cls_i32_i64",
    "v_add_u32": "v_add_nc_u32", "v_sub_u32": "v_sub_nc_u32", "v_subrev_u32": "v_subrev_nc_u32",
    "v_add_i32": "v_add_nc_i32", "v_sub_i32": "v_sub_nc_i32", "v_add_u16": "v_add_nc_u16",
    "v_sub_u16": "v_sub_nc_u16", "v_subrev_u16": "v_subrev_nc_u16", "v_add_i16": "v_add_nc_i16",
    "v_sub_i16": "v_sub_nc_i16", "v_addc_co_u32": "v_add_co_ci_u32",
    "v_subb_co_u32": "v_sub_co_ci_u32", "v_subbrev_co_u32": "v_subrev_co_ci_u32",
    "v_ffbh_u32": "v_clz_i32_u32", "v_ffbl_b32": "v_ctz_i32_b32", "v_ffbh_i32": "v_cls_i32",
    "v_cvt_rpi_i32_f32": "v_cvt_nearest_i32_f32", "v_cvt_flr_i32_f32": "v_cvt_floor_i32_f32",
    "v_cvt_pkrtz_f16_f32": "v_cvt_pk_rtz_f16_f32", "v_mul_legacy_f32": "v_mul_dx9_zero_f32",
    "v_dot2c_f32_f16": "v_dot2acc_f32_f16", "buffer_wbinvl1": "buffer_inv",
    "buffer_wbinvl1_vol": "buffer_inv",
}  # fmt: skip
_LOADED = {
    "ubyte": "u8", "sbyte": "i8", "ushort": "u16", "sshort": "i16", "dword": "b32",
    "dwordx2": "b64", "dwordx3": "b96", "dwordx4": "b128", "dwordx8": "b256", "dwordx16": "b512",
    "byte": "b8", "short": "b16",
}  # fmt: skip
_LOAD = re.compile(r"(.*)load_([us]byte|[us]?short|dword(?:x\d+)?)(_d16(?:_hi)?)?$")
_STORE = re.compile(r"(.*)store_(byte|short|dword(?:x\d+)?)(_d16_hi)?$")
_ATOMIC = re.compile(r"(.*atomic_)([us]?[a-z]+)(_x2)?$")
_DS = re.compile(r"ds_(read|write|wrxchg)(2st64|2)?(.*)$")
_DS_NAMES = {"read": "load", "write": "store", "wrxchg": "storexchg"}
_DS_PAIRS = {"2": "_2addr", "2st64": "_2addr_stride64", None: ""}
_ANY_TYPE = {"swap", "cmpswap", "and", "or", "xor"}


def meanings(*tables: Mapping[int, Entry]) -> dict[str, str]:
    """The mnemonics of some tables that mean what another name says."""
    names = {entry.name for entries in tables for entry in entries.values()}
    return {name: meaning(name) for name in names if meaning(name) != name}


def meaning(name: str) -> str:
    """The executor's name of a gfx9 mnemonic."""
    if name in _SAME:
        return _SAME[name]
    for pattern, rename in ((_LOAD, _load), (_STORE, _store), (_ATOMIC, _atomic), (_DS, _lds)):
        match = pattern.match(name)
        if match:
            return rename(match)
    name = re.sub(r"^(v_cmpx?)_tru_", r"\1_t_", name)
    name = name.replace("cvt_pknorm", "cvt_pk_norm")
    name = re.sub(r"^(v_cvt_.*)(fp8|bf8)", r"\1\2fnuz", name)
    return re.sub(r"_(and|or|)n([12])_", lambda m: f"_{m[1]}_not{int(m[2]) % 2 ^ 1}_", name)


def _load(match: re.Match[str]) -> str:
    return f"{match[1]}load_{(match[3] or '')[1:]}{'_' if match[3] else ''}{_LOADED[match[2]]}"


def _store(match: re.Match[str]) -> str:
    return f"{match[1]}store{match[3] or ''}_{_LOADED[match[2]]}"


def _atomic(match: re.Match[str]) -> str:
    action, bits = match[2], 64 if match[3] else 32
    if action in _ANY_TYPE:
        return f"{match[1]}{action}_b{bits}"
    if action[0] in "us" and action[1:] in ("min", "max"):
        return f"{match[1]}{action[1:]}_{'i' if action[0] == 's' else 'u'}{bits}"
    return f"{match[1]}{action}_u{bits}"


def _lds(match: re.Match[str]) -> str:
    tail = match[3]
    if match[1] == "wrxchg" and match[2]:
        return f"ds_storexchg{_DS_PAIRS[match[2]]}{tail}"
    return f"ds_{_DS_NAMES[match[1]]}{_DS_PAIRS[match[2]]}{tail}"


# src: llvm/lib/Target/AMDGPU/GCNSubtarget (zeroesHigh16BitsOfDest): what stayed from gfx8 clears
# the upper half, what gfx9 added with op_sel keeps it.
_CLEARING = (
    "lshlrev_b16 lshrrev_b16 ashrrev_i16 add_u16 sub_u16 subrev_u16 mul_lo_u16 add_f16 sub_f16 "
    "subrev_f16 mul_f16 max_f16 min_f16 max_u16 max_i16 min_u16 min_i16 ldexp_f16 mac_f16 "
    "madmk_f16 madak_f16 cvt_f16_f32 cvt_f16_u16 cvt_f16_i16 cvt_u16_f16 cvt_i16_f16 rcp_f16 "
    "sqrt_f16 rsq_f16 log_f16 exp_f16 frexp_mant_f16 frexp_exp_i16_f16 floor_f16 ceil_f16 "
    "trunc_f16 rndne_f16 fract_f16 sin_f16 cos_f16 cvt_norm_i16_f16 cvt_norm_u16_f16 "
    "mad_legacy_f16 mad_legacy_u16 mad_legacy_i16 fma_legacy_f16 div_fixup_legacy_f16"
)
ZEROING = frozenset(f"v_{name}" for name in _CLEARING.split())
"""Mnemonics whose 16-bit result clears the other half of its register."""

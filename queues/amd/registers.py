"""The compute registers that PM4 packets set: dword address and bit fields, per chip family.

The address is what SET_SH_REG and SET_UCONFIG_REG mean: the same on every chip of a family,
although the chip's own register map may start elsewhere.
# src: Linux 6.12 drivers/gpu/drm/amd/include/asic_reg/gc/gc_{9_4_3,10_3_0,11_0_0,12_0_0}_offset.h
# src: and _sh_mask.h, with the segment bases 0x2000 (gfx9), 0x1260 and 0xa000.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from queues.packet_layout import WORD_MAX, WordLayout

_WORD: Final = "data 31:0"
_HIGH: Final = "data 7:0"
_CUS: Final = "sa0_cu_en 15:0  sa1_cu_en 31:16"
_THREADS: Final = "num_thread_full 15:0  num_thread_partial 31:16"

_COMMON: Final[Mapping[str, tuple[int, str]]] = {
    "COMPUTE_DIM_X": (0x2E01, "size 31:0"),
    "COMPUTE_DIM_Y": (0x2E02, "size 31:0"),
    "COMPUTE_DIM_Z": (0x2E03, "size 31:0"),
    "COMPUTE_START_X": (0x2E04, "start 31:0"),
    "COMPUTE_START_Y": (0x2E05, "start 31:0"),
    "COMPUTE_START_Z": (0x2E06, "start 31:0"),
    "COMPUTE_NUM_THREAD_X": (0x2E07, _THREADS),
    "COMPUTE_NUM_THREAD_Y": (0x2E08, _THREADS),
    "COMPUTE_NUM_THREAD_Z": (0x2E09, _THREADS),
    "COMPUTE_PIPELINESTAT_ENABLE": (0x2E0A, "pipelinestat_enable 0"),
    "COMPUTE_PERFCOUNT_ENABLE": (0x2E0B, "perfcount_enable 0"),
    "COMPUTE_PGM_LO": (0x2E0C, _WORD),
    "COMPUTE_PGM_HI": (0x2E0D, _HIGH),
    "COMPUTE_DISPATCH_PKT_ADDR_LO": (0x2E0E, _WORD),
    "COMPUTE_DISPATCH_PKT_ADDR_HI": (0x2E0F, _HIGH),
    "COMPUTE_DISPATCH_SCRATCH_BASE_LO": (0x2E10, _WORD),
    "COMPUTE_DISPATCH_SCRATCH_BASE_HI": (0x2E11, _HIGH),
    "COMPUTE_VMID": (0x2E14, "data 3:0"),
    "COMPUTE_RESTART_X": (0x2E1B, "restart 31:0"),
    "COMPUTE_RESTART_Y": (0x2E1C, "restart 31:0"),
    "COMPUTE_RESTART_Z": (0x2E1D, "restart 31:0"),
    "COMPUTE_THREAD_TRACE_ENABLE": (0x2E1E, "thread_trace_enable 0"),
    "COMPUTE_DISPATCH_ID": (0x2E20, "dispatch_id 31:0"),
    "COMPUTE_THREADGROUP_ID": (0x2E21, "threadgroup_id 31:0"),
    "COMPUTE_DISPATCH_END": (0x2E7E, _WORD),
    **{f"COMPUTE_USER_DATA_{number}": (0x2E40 + number, _WORD) for number in range(16)},
}
_LIMITS: Final = (
    "waves_per_sh 9:0  tg_per_cu 15:12  lock_threshold 21:16  simd_dest_cntl 22"
    "  force_simd_dist 23  cu_group_count 26:24"
)
_INITIATOR: Final = (
    "compute_shader_en 0  partial_tg_en 1  force_start_at_000 2  ordered_append_enbl 3"
    "  ordered_append_mode 4  use_thread_dimensions 5  order_mode 6  scalar_l1_inv_vol 10"
    "  vector_l1_inv_vol 11  restore 14"
)
_RSRC1: Final = (
    "vgprs 5:0  sgprs 9:6  priority 11:10  float_mode 19:12  priv 20  bulky 24  fp16_ovfl 26"
)
_WGP: Final = "  wgp_mode 29  mem_ordered 30  fwd_progress 31"
_RSRC2: Final = (
    "scratch_en 0  user_sgpr 5:1  tgid_x_en 7  tgid_y_en 8  tgid_z_en 9  tg_size_en 10"
    "  tidig_comp_cnt 12:11  excp_en_msb 14:13  lds_size 23:15  excp_en 30:24"
)
_TRAP: Final = "  trap_present 6"
_BROADCAST: Final = "  instance_broadcast_writes 30  se_broadcast_writes 31"
_GFX_INDEX: Final = "instance_index 7:0  sa_index 15:8  se_index 23:16  sa_broadcast_writes 29"


def _engines(cus: str, addresses: Mapping[int, int]) -> dict[str, tuple[int, str]]:
    low = {0: 0x2E16, 1: 0x2E17, 2: 0x2E19, 3: 0x2E1A}
    return {
        f"COMPUTE_STATIC_THREAD_MGMT_SE{number}": (address, cus)
        for number, address in {**low, **addresses}.items()
    }


_GFX10: Final[Mapping[str, tuple[int, str]]] = {
    "COMPUTE_DISPATCH_INITIATOR": (
        0x2E00,
        f"{_INITIATOR}  reserved 12  tunnel_enable 13  cs_w32_en 15",
    ),
    "COMPUTE_PGM_RSRC1": (0x2E12, f"{_RSRC1}{_WGP}  dx10_clamp 21  ieee_mode 23"),
    "COMPUTE_PGM_RSRC2": (0x2E13, _RSRC2 + _TRAP),
    "COMPUTE_PGM_RSRC3": (0x2E28, "shared_vgpr_cnt 3:0"),
    "COMPUTE_RESOURCE_LIMITS": (0x2E15, _LIMITS),
    "COMPUTE_TMPRING_SIZE": (0x2E18, "waves 11:0  wavesize 24:12"),
    "COMPUTE_SHADER_CHKSUM": (0x2E2A, "checksum 31:0"),
    "COMPUTE_REQ_CTRL": (
        0x2E22,
        "soft_grouping_en 0  number_of_requests_per_cu 4:1  soft_grouping_allocation_timeout 8:5"
        "  hard_lock_hysteresis 9  hard_lock_low_threshold 14:10  producer_request_lockout 15"
        "  global_scanning_en 16  allocation_rate_throttling_threshold 19:17"
        "  dedicated_preallocation_buffer_limit 26:20",
    ),
    "GRBM_GFX_INDEX": (0xC200, _GFX_INDEX + _BROADCAST),
    **_engines(_CUS, {}),
}
_MORE_ENGINES: Final = {4: 0x2E2B, 5: 0x2E2C, 6: 0x2E2D, 7: 0x2E2E}
_GFX11: Final[Mapping[str, tuple[int, str]]] = {
    **_GFX10,
    "COMPUTE_DISPATCH_INITIATOR": (
        0x2E00,
        f"{_INITIATOR}  reserved 12  tunnel_enable 13  cs_w32_en 15  amp_shader_en 16"
        "  disable_disp_prempt_en 17",
    ),
    "COMPUTE_PGM_RSRC3": (
        0x2E28,
        "shared_vgpr_cnt 3:0  inst_pref_size 9:4  trap_on_start 10  trap_on_end 11  image_op 31",
    ),
    "COMPUTE_TMPRING_SIZE": (0x2E18, "waves 11:0  wavesize 26:12"),
    "COMPUTE_DISPATCH_INTERLEAVE": (0x2E2F, "interleave 9:0"),
    **_engines(_CUS, _MORE_ENGINES),
}
_FAMILIES: Final[Mapping[str, Mapping[str, tuple[int, str]]]] = {
    "gfx9": {
        "COMPUTE_DISPATCH_INITIATOR": (0x2E00, f"{_INITIATOR}  reserved 12"),
        "COMPUTE_PGM_RSRC1": (
            0x2E12,
            f"{_RSRC1}  dx10_clamp 21  debug_mode 22  ieee_mode 23  cdbg_user 25",
        ),
        "COMPUTE_PGM_RSRC2": (0x2E13, f"{_RSRC2}{_TRAP}  skip_usgpr0 31"),
        "COMPUTE_PGM_RSRC3": (
            0x2E2D,
            "accum_offset 5:0  trap_on_start 10  trap_on_end 11  tg_split 16",
        ),
        "COMPUTE_RESOURCE_LIMITS": (0x2E15, f"{_LIMITS}  simd_disable 30:27"),
        "COMPUTE_TMPRING_SIZE": (0x2E18, "waves 11:0  wavesize 24:12"),
        "COMPUTE_SHADER_CHKSUM": (0x2E2C, "checksum 31:0"),
        "GRBM_GFX_INDEX": (0xC200, _GFX_INDEX.replace("sa_", "sh_") + _BROADCAST),
        **_engines("sh0_cu_en 15:0  sh1_cu_en 31:16", {}),
    },
    "gfx10": _GFX10,
    "gfx11": _GFX11,
    "gfx12": {
        **_GFX11,
        "COMPUTE_DISPATCH_INITIATOR": (
            0x2E00,
            f"{_INITIATOR}  ping_pong_en 12  tunnel_enable 13  cs_w32_en 15  amp_shader_en 16"
            "  disable_disp_prempt_en 17  interleave_2d_en 18  ttrace_queue_id 31:29",
        ),
        "COMPUTE_NUM_THREAD_X": (
            0x2E07,
            "num_thread_full 12:0  interleave_bits_x 15:13  num_thread_partial 31:16",
        ),
        "COMPUTE_NUM_THREAD_Y": (
            0x2E08,
            "num_thread_full 12:0  interleave_bits_y 15:13  num_thread_partial 31:16",
        ),
        "COMPUTE_PGM_RSRC1": (
            0x2E12,
            f"{_RSRC1}{_WGP}  wg_rr_en 21  debug_mode 22  disable_perf 23  cdbg_user 25",
        ),
        "COMPUTE_PGM_RSRC2": (0x2E13, f"{_RSRC2}  dynamic_vgpr 6  wgp_takeover 31"),
        "COMPUTE_PGM_RSRC3": (
            0x2E28,
            "shared_vgpr_cnt 3:0  inst_pref_size 11:4  glg_en 13  image_op 31",
        ),
        "COMPUTE_TMPRING_SIZE": (0x2E18, "waves 11:0  wavesize 29:12"),
        "COMPUTE_DISPATCH_INTERLEAVE": (
            0x2E2F,
            "interleave_1d 9:0  interleave_2d_x_size 19:16  interleave_2d_y_size 27:24",
        ),
        "GRBM_GFX_INDEX": (
            0xC200,
            "instance_index 6:0  sa_index 9:8  se_index 19:16  sa_broadcast_writes 29" + _BROADCAST,
        ),
        **_engines(_CUS, {**_MORE_ENGINES, 8: 0x2E23}),
    },
}


class Registers:
    """The registers of one family, by name and by dword address."""

    def __init__(self, family: str, table: Mapping[str, tuple[int, str]]) -> None:
        self.family = family
        self.addresses: Mapping[str, int] = {name: address for name, (address, _) in table.items()}
        self.names: Mapping[int, str] = {address: name for name, address in self.addresses.items()}
        self._specs = {name: spec for name, (_, spec) in table.items()}
        self._layouts: dict[str, WordLayout] = {}

    def layout(self, name: str) -> WordLayout:
        """The fields of a register, as a one-word layout. Raises: KeyError."""
        if name not in self._layouts:
            self._layouts[name] = WordLayout(name, 0, 0, (self._specs[name],))
        return self._layouts[name]

    def encode(self, name: str, **values: int) -> int:
        """The register's word. Raises: BadArgument when a value does not fit, KeyError."""
        return self.layout(name).encode(values)[0]

    def decode(self, name: str, raw: int) -> dict[str, int]:
        """The fields of a register's word. Raises: KeyError."""
        return self.layout(name).decode([raw & WORD_MAX], 0, 1).fields


REGISTERS: Final[Mapping[str, Registers]] = {
    family: Registers(family, {**_COMMON, **own}) for family, own in _FAMILIES.items()
}
"""By `Flavour.name`: "gfx9", "gfx10", "gfx11", "gfx12"."""

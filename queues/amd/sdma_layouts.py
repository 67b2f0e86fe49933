"""Packets of the system DMA engines, and how their versions differ, as data.

Word 0 holds the operation in bits 7:0 and the sub-operation in 15:8.
# src: Linux 6.12 drivers/gpu/drm/amd/amdgpu/vega10_sdma_pkt_open.h (4.x),
# src: navi10_sdma_pkt_open.h (5.x), sdma_v6_0_0_pkt_open.h (6.0; sdma_v7_0.c includes it for 7.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from drivers.base.errors import Unsupported
from queues.amd.generation import Generation, entry_of
from queues.amd.pm4_layouts import Atomic, Compare
from queues.packet_layout import WordLayout, replace

IDENTITY_MASK: Final = 0xFFFF
SUBOP_SHIFT: Final = 8
COPY_LINEAR_WORDS: Final = 7
INDIRECT_END_WORDS: Final = 8
"""An INDIRECT packet ends at a multiple of this. # src: sdma_v6_0_ring_emit_ib"""


class Mtype(IntEnum):
    """Memory type of a fence's write. # src: sdma_v6_0_ring_emit_fence; UC = uncached"""

    NC, UC = 0, 3


class FillSize(IntEnum):
    """How much CONST_FILL writes at a time."""

    BYTE, SHORT, WORD = range(3)


ENUMS: Final[Mapping[str, type[IntEnum]]] = {
    "func": Compare,
    "mtype": Mtype,
    "fillsize": FillSize,
    "atomic_op": Atomic,
}


def _packet(
    name: str,
    op: int,
    *words: str,
    sub_op: int = 0,
    tail: str = "",
    tail_words: range = range(1),
    identity: int = IDENTITY_MASK,
) -> WordLayout:
    fixed = op | sub_op << SUBOP_SHIFT
    return WordLayout(name, fixed, identity, words, tail, tail_words, ENUMS)


# The word counts of NOP and WRITE are fields; decoding takes the data words that they count.
NOP: Final = _packet("NOP", 0, "count 29:16", tail="data", tail_words=range(0x4000))
COPY_4: Final = _packet(
    "COPY_LINEAR",
    1,
    "encrypt 16  tmz 18  broadcast 27",
    "count-1 21:0",
    "dst_sw 17:16  src_sw 25:24",
    *("src_addr 63:0", "", "dst_addr 63:0", ""),
)
# src: the width of `count` on 5.2: ROCR-Runtime amd_gpu_agent.cpp (gfx10.3: 0x3fffffff), Mesa
# ac_emit_sdma_copy_linear; the kernel's header, shared with 5.0, has 22 bits.
COPY_5_2: Final = replace(
    COPY_4, {0: "encrypt 16  tmz 18  backwards 25  broadcast 27", 1: "count-1 29:0"}
)
COPY_6: Final = replace(
    COPY_5_2,
    {
        0: "encrypt 16  tmz 18  cpv 19  backwards 25  broadcast 27",
        2: "dst_sw 17:16  dst_cache_policy 20:18  src_sw 25:24  src_cache_policy 28:26",
    },
)
# On 7.0 bit 19 makes the packet 8 words long (the last describes compression): not declared.
# src: sdma_v7_0_emit_copy_buffer; without it, 7 words: Mesa ac_emit_sdma_copy_linear, tinygrad.
COPY_7: Final = replace(COPY_6, {0: COPY_5_2.words[0]})

WRITE_4: Final = _packet(
    "WRITE",
    2,
    "encrypt 16  tmz 18",
    *("dst_addr/4 63:0", ""),
    "count-1 19:0  sw 25:24",
    tail="data",
    tail_words=range(1, (1 << 20) + 1),
)
WRITE_6: Final = replace(
    WRITE_4, {0: "encrypt 16  tmz 18  cpv 28", 3: "count-1 19:0  sw 25:24  cache_policy 28:26"}
)
INDIRECT_4: Final = _packet(
    "INDIRECT",
    4,
    "vmid 19:16",
    *("ib_base/32 63:0", "", "ib_size 19:0", "csa_addr 63:0", ""),
)
INDIRECT_5: Final = replace(INDIRECT_4, {0: "vmid 19:16  priv 31"})
FENCE_4: Final = _packet("FENCE", 5, "", "addr/4 63:0", "", "data 31:0")
_FENCE: Final = "mtype 18:16  gcc 19  sys 20  snp 22  gpa 23  l2_policy 25:24"
FENCE_5: Final = replace(FENCE_4, {0: _FENCE})
FENCE_6: Final = replace(FENCE_4, {0: f"{_FENCE}  llc_policy 26  cpv 28"})
TRAP: Final = _packet("TRAP", 6, "", "int_context 27:0")
_POLL: Final = "hdp_flush 26  func 30:28  mem_poll 31"
POLL_4: Final = _packet(
    "POLL_REGMEM",
    8,
    _POLL,
    *("addr/4 63:0", "", "value 31:0", "mask 31:0", "interval 15:0  retry_count 27:16"),
)
POLL_6: Final = replace(POLL_4, {0: f"cache_policy 22:20  cpv 24  {_POLL}"})
ATOMIC_4: Final = _packet(
    "ATOMIC",
    10,
    "loop 16  tmz 18  atomic_op 31:25",
    *("addr/4 63:0", "", "src_data 63:0", "", "cmp_data 63:0", "", "loop_interval 12:0"),
)
ATOMIC_6: Final = replace(
    ATOMIC_4, {0: "loop 16  tmz 18  cache_policy 22:20  cpv 24  atomic_op 31:25"}
)
FILL_4: Final = _packet(
    "CONST_FILL",
    11,
    "sw 17:16  fillsize 31:30",
    *("dst_addr 63:0", "", "src_data 31:0", "count-1 21:0"),
)
FILL_6: Final = replace(
    FILL_4, {0: "sw 17:16  cache_policy 26:24  cpv 28  fillsize 31:30", 4: "count-1 29:0"}
)
# src: bit 16 on 7.0: sdma_v7_0.c SDMA_PKT_CONSTANT_FILL_HEADER_COMPRESS
FILL_7: Final = replace(FILL_6, {0: "compress 16  cache_policy 26:24  cpv 28  fillsize 31:30"})
TIMESTAMP_4: Final = _packet("TIMESTAMP", 13, "", "addr/8 63:0", "", sub_op=2)
TIMESTAMP_6: Final = replace(TIMESTAMP_4, {0: "l2_policy 25:24  llc_policy 26  cpv 28"})
# src: user queues use sub-operation 1: ROCR-Runtime sdma_registers.h SDMA_SUBOP_USER_GCR; the
# kernel's own rings 0. Controls 15:0 and 18:16 as in SDMA_GCR_* of the kernel's header.
GCR: Final = _packet(
    "GCR_REQ",
    17,
    "sub_op 15:8",
    "base_va/128 47:0",
    "gli_inv 17:16  gl1_range 19:18  glm_wb 20  glm_inv 21  glk_wb 22  glk_inv 23  glv_inv 24"
    "  gl1_inv 25  gl2_us 26  gl2_range 28:27  gl2_discard 29  gl2_inv 30  gl2_wb 31",
    "seq 1:0  range_is_pa 2  limit_va/128 47:0",
    "vmid 27:24",
    identity=0xFF,
)
_ALWAYS: Final = (NOP, TRAP)


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine version: its packets, and how much one of them copies or fills at most.

    `fence` holds the fields that a fence to memory shared with the host needs.
    """

    name: str
    packets: Mapping[str, WordLayout]
    copy_max_bytes: int
    fill_max_bytes: int
    fence: Mapping[str, int]

    def layout(self, name: str) -> WordLayout:
        """A packet's layout on this version. Raises: Unsupported."""
        if name not in self.packets:
            raise Unsupported(f"SDMA {self.name} has no {name} packet")
        return self.packets[name]


def _named(*own: WordLayout) -> dict[str, WordLayout]:
    return {layout.name: layout for layout in (*_ALWAYS, *own)}


# The last 255 bytes of the count's range are not copied by the hardware.
# src: Mesa sid.h, SDMA_V2_0_COPY_MAX_BYTES and SDMA_V5_2_COPY_MAX_BYTES
_SMALL, _LARGE = 0x3FFF00, 0x3FFFFF00
_UNCACHED: Final = {"mtype": Mtype.UC}
SDMA_4_4: Final = Engine(
    "4.4",
    _named(COPY_4, WRITE_4, INDIRECT_4, FENCE_4, POLL_4, ATOMIC_4, FILL_4, TIMESTAMP_4),
    _SMALL,
    _SMALL,
    {},
)
SDMA_5_2: Final = Engine(
    "5.2",
    _named(COPY_5_2, WRITE_4, INDIRECT_5, FENCE_5, POLL_4, ATOMIC_4, FILL_4, TIMESTAMP_4, GCR),
    _LARGE,
    _SMALL,
    _UNCACHED,
)
_SIX: Final = (WRITE_6, INDIRECT_5, FENCE_6, POLL_6, ATOMIC_6, TIMESTAMP_6, GCR)
SDMA_6_0: Final = Engine("6.0", _named(COPY_6, FILL_6, *_SIX), _LARGE, _LARGE, _UNCACHED)
SDMA_7_0: Final = Engine("7.0", _named(COPY_7, FILL_7, *_SIX), _LARGE, _LARGE, _UNCACHED)

ENGINES: Final[Mapping[Generation, Engine]] = {
    (9, 0): SDMA_4_4, (9, 4): SDMA_4_4, (9, 5): SDMA_4_4, (10, 3): SDMA_5_2, (11, 0): SDMA_6_0,
    (11, 5): SDMA_6_0, (12, 0): SDMA_7_0,
}  # fmt: skip
"""By the generation of graphics that the engine comes with. # src: amdgpu_discovery.c"""


def engine_of(chip: str) -> Engine:
    """The copy engine of a chip ("gfx1100"). Raises: Unsupported."""
    return entry_of(ENGINES, chip)

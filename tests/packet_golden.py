"""Packets with the vendor's own C macros and structs, which define their expected words.

data/amd_packets.json holds the words that gcc made of them; tests/abi compiles them again where the
named headers are. nvd.h, soc15d.h and *_sdma_pkt_open.h: Linux 6.12, drivers/gpu/drm/amd/amdgpu;
hsa.h, hsa_ext_amd.h, amd_gpu_pm4.h: ROCR-Runtime, runtime/hsa-runtime.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

WORDS: dict[str, str] = json.loads(
    (Path(__file__).parent / "data" / "amd_packets.json").read_text()
)
MEMORY = 0x7F12_3456_7890
CODE = 0x7FFE_DCBA_9800
LO, HI = "0x34567890", "0x7f12"


@dataclass(frozen=True)
class Golden:
    """`c` is a list of uint32 expressions, or for AQL the initialiser of a packet struct."""

    name: str
    encode: Callable[[], list[int]]
    header: str
    c: str
    struct: str = ""

    @property
    def words(self) -> str:
        """The recorded words, in hexadecimal."""
        return WORDS[self.name]

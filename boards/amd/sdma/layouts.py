"""SDMA packets of each engine version: length and the bits of each word that must be 0.

src: vega10_sdma_pkt_open.h (4.x), navi10_sdma_pkt_open.h (5.x), sdma_v6_0_0_pkt_open.h (6.x, 7.x),
and which of them sdma_v4_4_2.c, sdma_v5_2.c, sdma_v6_0.c, sdma_v7_0.c include.
"""

from __future__ import annotations

from dataclasses import dataclass

from boards.amd.cp.layouts import ALL, fields

NOP, COPY, WRITE, INDIRECT, FENCE, TRAP = 0, 1, 2, 4, 5, 6
POLL_REGMEM, COND_EXE, ATOMIC, CONST_FILL, TIMESTAMP, GCR_REQ = 8, 9, 10, 11, 13, 17
PRIVILEGED = {12: "PTEPDE", 14: "SRBM_WRITE", 15: "PRE_EXE", 16: "GPUVM_INV"}
SUB_LINEAR, SUB_GET_GLOBAL, SUB_USER_GCR = 0, 2, 1
CPV = 19
"""COPY_LINEAR, from version 6 on: cache policy (6) or compression (7) of the packet is valid."""


@dataclass(frozen=True, slots=True)
class Form:
    """One packet: words, sub-operations, reserved bits of each word; `data` words may follow."""

    name: str
    words: int
    subs: tuple[int, ...] = (0,)
    reserved: tuple[int, ...] = ()
    data: bool = False


_OP = (15, 0)
_SWAP = fields()
_V4 = {
    NOP: Form("NOP", 1, (0,), (fields(_OP, (29, 16)),), data=True),
    COPY: Form("COPY_LINEAR", 7, (SUB_LINEAR,), (fields(_OP), fields((21, 0)), _SWAP)),
    WRITE: Form("WRITE_UNTILED", 4, (SUB_LINEAR,), (fields(_OP), 3, 0, fields((19, 0))), data=True),
    INDIRECT: Form("INDIRECT", 6, (0,), (fields(_OP), 31, 0, fields((19, 0)))),
    FENCE: Form("FENCE", 4, (0,), (fields(_OP), 3)),
    TRAP: Form("TRAP", 2, (0,), (fields(_OP), fields((27, 0)))),
    POLL_REGMEM: Form(
        "POLL_REGMEM", 6, (0,), (fields(_OP, 26, (31, 28)), 3, 0, 0, 0, fields((27, 0)))
    ),
    COND_EXE: Form("COND_EXE", 5, (0,), (fields(_OP), 3, 0, 0, fields((13, 0)))),
    ATOMIC: Form("ATOMIC", 8, (0,), (fields(_OP, 16, (31, 25)), 3, 0, 0, 0, 0, 0, fields((12, 0)))),
    CONST_FILL: Form("CONSTANT_FILL", 5, (0,), (fields(_OP, (31, 30)), 0, 0, 0, fields((21, 0)))),
    TIMESTAMP: Form("TIMESTAMP_GET_GLOBAL", 3, (SUB_GET_GLOBAL,), (fields(_OP), 7)),
}
_GCR = Form(
    "GCR_REQ", 5, (0, SUB_USER_GCR),
    (fields(_OP), 0x7F, 0, fields((31, 7), (2, 0)), fields((15, 0), (27, 24))),
)  # fmt: skip
_V5 = _V4 | {
    # src: ROCr sdma_registers.h count_ext and its limit of 2^30 - 1: gfx10.3 counts 30 bits,
    # although the kernel's header of 5.x still has 22.
    COPY: Form("COPY_LINEAR", 7, (SUB_LINEAR,), (fields(_OP), fields((29, 0)), _SWAP)),
    FENCE: Form("FENCE", 4, (0,), (fields(_OP, (20, 16), (25, 22)), 3)),
    GCR_REQ: _GCR,
}
_V6 = _V5 | {
    COPY: Form(
        "COPY_LINEAR", 7, (SUB_LINEAR,),
        (fields(_OP, CPV), fields((29, 0)), fields((20, 18), (28, 26))),
    ),
    WRITE: Form(
        "WRITE_UNTILED", 4, (SUB_LINEAR,), (fields(_OP, 28), 3, 0, fields((19, 0), (28, 26))),
        data=True,
    ),
    FENCE: Form("FENCE", 4, (0,), (fields(_OP, (20, 16), (26, 22), 28), 3)),
    COND_EXE: Form("COND_EXE", 5, (0,), (fields(_OP, (26, 24), 28), 3, 0, 0, fields((13, 0)))),
    CONST_FILL: Form(
        "CONSTANT_FILL", 5, (0,), (fields(_OP, (26, 24), 28, (31, 30)), 0, 0, 0, fields((29, 0)))
    ),
    POLL_REGMEM: Form(
        "POLL_REGMEM", 6, (0,),
        (fields(_OP, (22, 20), 24, 26, (31, 28)), 3, 0, 0, 0, fields((27, 0))),
    ),
    ATOMIC: Form(
        "ATOMIC", 8, (0,),
        (fields(_OP, 16, (22, 20), (31, 24)), 3, 0, 0, 0, 0, 0, fields((12, 0))),
    ),
    TIMESTAMP: Form(
        "TIMESTAMP_GET_GLOBAL", 3, (SUB_GET_GLOBAL,), (fields(_OP, (26, 24), 28), 7)
    ),
}  # fmt: skip
_COMPRESS = 16
"""CONSTANT_FILL. src: sdma_v7_0.c SDMA_PKT_CONSTANT_FILL_HEADER_COMPRESS"""
_V7 = _V6 | {
    CONST_FILL: Form(
        "CONSTANT_FILL", 5, (0,),
        (fields(_OP, _COMPRESS, (26, 24), 28, (31, 30)), 0, 0, 0, fields((29, 0))),
    ),
}  # fmt: skip
VERSIONS: dict[int, dict[int, Form]] = {4: _V4, 5: _V5, 6: _V6, 7: _V7}
"""By the engine's major version."""
LONG_COPY = Form(
    "COPY_LINEAR", 8, (SUB_LINEAR,),
    (fields(_OP, CPV), fields((29, 0)), fields((20, 18), (28, 26)), 0, 0, 0, 0, ALL),
)  # fmt: skip
"""Version 7 with CPV: an eighth word says how data is compressed. src: sdma_v7_0.c."""

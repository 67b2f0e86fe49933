"""What stands for a signature in made-up firmware: what a piece is, its size and its digest."""

from __future__ import annotations

import hashlib
import re
import struct
import zlib

_MAGIC = b"MADE"
_HEADER = struct.Struct("<4sII32s20x")
HEADER_BYTES = _HEADER.size
RS64_START = 0x7_0000_0000_3000
"""Where made-up firmware of RS64 cores begins, as its header says."""
_SAME = {"RL": "REG_LIST"}
_UNIFIED = {"CP_MES_KIQ": "CP_MES", "MES_KIQ_STACK": "MES_STACK"}
"""gfx12 has one file for both pipes of the scheduler. src: amdgpu_mes.c, enable_uni_mes"""


def sent_as(kind: str, chip_family: str) -> str:
    """The piece that a driver sends as firmware of a kind, on chips of a family ("gfx12")."""
    return _UNIFIED.get(kind, kind) if chip_family == "gfx12" else kind


def family(kind: str) -> str:
    """Pieces that are the same bytes for several engines have one name."""
    name = re.sub(r"_P\d_STACK$", "_STACK", _SAME.get(kind, kind))
    return "SDMA" if re.fullmatch(r"SDMA\d", name) else name


def _tag(kind: str) -> int:
    return zlib.crc32(family(kind).encode())


def make(kind: str, nbytes: int, seed: str) -> bytes:
    """A piece of `nbytes`, its header included; another seed gives other contents."""
    body = hashlib.shake_256(f"{seed} {kind}".encode()).digest(nbytes - HEADER_BYTES)
    return _HEADER.pack(_MAGIC, _tag(kind), nbytes, hashlib.sha256(body).digest()) + body


def nbytes_of(data: bytes) -> int:
    """How long a piece says that it is; 0 when it is none."""
    if len(data) < HEADER_BYTES:
        return 0
    magic, _, nbytes, _ = _HEADER.unpack_from(data)
    return int(nbytes) if magic == _MAGIC else 0


def wrong(data: bytes, *kinds: str) -> str:
    """Why a piece is not one of these kinds, or is not whole; "" when all is right."""
    nbytes = nbytes_of(data)
    if not nbytes:
        return "there is no header"
    _, tag, _, digest = _HEADER.unpack_from(data)
    if nbytes != len(data):
        return f"{len(data)} bytes, and the header says {nbytes}"
    if tag not in {_tag(kind) for kind in kinds}:
        return f"it is not for {' or '.join(kinds)}"
    if hashlib.sha256(data[HEADER_BYTES:]).digest() != digest:
        return "its contents do not have the digest of the header"
    return ""

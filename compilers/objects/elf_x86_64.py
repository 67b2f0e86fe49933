"""x86-64 relocations and jump stubs.  Source: psABI 1.0, section 4.4, table 4.9."""

from __future__ import annotations

import struct

from drivers.base.errors import MalformedInput

R_X86_64_64 = 1
R_X86_64_PC32 = 2
R_X86_64_PLT32 = 4
R_X86_64_GOTPCREL = 9
R_X86_64_32 = 10
R_X86_64_32S = 11
R_X86_64_PC64 = 24
R_X86_64_GOTPCRELX = 41
R_X86_64_REX_GOTPCRELX = 42

ABSOLUTE = R_X86_64_64
SLOTS = frozenset({R_X86_64_GOTPCREL, R_X86_64_GOTPCRELX, R_X86_64_REX_GOTPCRELX})
CALLS = frozenset({R_X86_64_PLT32})
STUB_BYTES = 8

_RELATIVE = SLOTS | {R_X86_64_PC32, R_X86_64_PLT32}
_JUMP_BYTES = 6


def patch(image: bytearray, place: int, kind: int, value: int) -> None:
    """Resolve the relocation `kind` at `place`: `value` is symbol (or slot) + addend."""
    if kind in (R_X86_64_32, R_X86_64_32S):
        raise MalformedInput(
            f"ELF: a 32-bit absolute address at {place:#x}",
            hint="Compile position-independent code",
        )
    if kind in _RELATIVE:
        code, bits = "<i", 32
    elif kind == R_X86_64_PC64:
        code, bits = "<q", 64
    else:
        raise MalformedInput(f"ELF: unknown x86-64 relocation {kind} at {place:#x}")
    distance = value - place
    if not -(1 << bits - 1) <= distance < 1 << bits - 1 or place + bits // 8 > len(image):
        raise MalformedInput(f"ELF: relocation {kind} at {place:#x} does not reach {value:#x}")
    struct.pack_into(code, image, place, distance)


def stub(at: int, slot: int) -> bytes:
    """`jmp *[rip + slot]`, padded with a trap."""
    return b"\xff\x25" + struct.pack("<i", slot - at - _JUMP_BYTES) + b"\xcc\xcc"

"""AArch64 relocations and jump stubs. Never run on silicon: checked by tests of the words only.

Source: ELF for the Arm 64-bit Architecture (AAELF64) 2024Q3, section 5.7.
"""

from __future__ import annotations

import struct

from drivers.base.errors import MalformedInput

R_AARCH64_ABS64 = 257
R_AARCH64_PREL64 = 260
R_AARCH64_PREL32 = 261
R_AARCH64_ADR_PREL_LO21 = 274
R_AARCH64_ADR_PREL_PG_HI21 = 275
R_AARCH64_ADD_ABS_LO12_NC = 277
R_AARCH64_LDST8_ABS_LO12_NC = 278
R_AARCH64_CONDBR19 = 280
R_AARCH64_JUMP26 = 282
R_AARCH64_CALL26 = 283
R_AARCH64_LDST16_ABS_LO12_NC = 284
R_AARCH64_LDST32_ABS_LO12_NC = 285
R_AARCH64_LDST64_ABS_LO12_NC = 286
R_AARCH64_LDST128_ABS_LO12_NC = 299
R_AARCH64_ADR_GOT_PAGE = 311
R_AARCH64_LD64_GOT_LO12_NC = 312

ABSOLUTE = R_AARCH64_ABS64
SLOTS = frozenset({R_AARCH64_ADR_GOT_PAGE, R_AARCH64_LD64_GOT_LO12_NC})
CALLS = frozenset({R_AARCH64_JUMP26, R_AARCH64_CALL26})
STUB_BYTES = 12

_PAGE_SHIFT = 12
_PAGES = frozenset({R_AARCH64_ADR_PREL_PG_HI21, R_AARCH64_ADR_GOT_PAGE})
_DATA_BITS = {R_AARCH64_PREL64: 64, R_AARCH64_PREL32: 32}
_LOW12_SHIFT = {
    R_AARCH64_ADD_ABS_LO12_NC: 0,
    R_AARCH64_LDST8_ABS_LO12_NC: 0,
    R_AARCH64_LDST16_ABS_LO12_NC: 1,
    R_AARCH64_LDST32_ABS_LO12_NC: 2,
    R_AARCH64_LDST64_ABS_LO12_NC: 3,
    R_AARCH64_LD64_GOT_LO12_NC: 3,
    R_AARCH64_LDST128_ABS_LO12_NC: 4,
}
_BRANCH = {R_AARCH64_JUMP26: (26, 0), R_AARCH64_CALL26: (26, 0), R_AARCH64_CONDBR19: (19, 5)}
"""Kind -> (bits of the word distance, its lowest bit in the instruction)."""


def patch(image: bytearray, place: int, kind: int, value: int) -> None:
    """Resolve the relocation `kind` at `place`: `value` is symbol (or slot) + addend."""
    if kind in _DATA_BITS:
        bits = _DATA_BITS[kind]
        if place + bits // 8 > len(image):
            raise MalformedInput(f"ELF: relocation {kind} at {place:#x} leaves the image")
        distance = _signed(value - place, bits, place)
        image[place : place + bits // 8] = distance.to_bytes(bits // 8, "little")
        return
    (word,) = struct.unpack_from("<I", image, place)
    if kind in _PAGES or kind == R_AARCH64_ADR_PREL_LO21:
        shift = _PAGE_SHIFT if kind in _PAGES else 0
        word = _adr(word, (value >> shift) - (place >> shift), place)
    elif kind in _LOW12_SHIFT:
        shift = _LOW12_SHIFT[kind]
        _aligned(value, shift, place)
        word = word & ~(0xFFF << 10) | ((value & 0xFFF) >> shift) << 10
    elif kind in _BRANCH:
        bits, low = _BRANCH[kind]
        _aligned(value - place, 2, place)
        distance = _signed(value - place >> 2, bits, place)
        word = word & ~(((1 << bits) - 1) << low) | distance << low
    else:
        raise MalformedInput(f"ELF: unknown AArch64 relocation {kind} at {place:#x}")
    struct.pack_into("<I", image, place, word)


def stub(at: int, slot: int) -> bytes:
    """`adrp x16, slot; ldr x16, [x16, slot]; br x16`."""
    page = _adr(0x90000010, (slot >> _PAGE_SHIFT) - (at >> _PAGE_SHIFT), at)
    return struct.pack("<3I", page, 0xF9400210 | (slot & 0xFFF) >> 3 << 10, 0xD61F0200)


def _adr(word: int, distance: int, place: int) -> int:
    field = _signed(distance, 21, place)
    return word & ~(3 << 29 | 0x7FFFF << 5) | (field & 3) << 29 | field >> 2 << 5


def _signed(distance: int, bits: int, place: int) -> int:
    """Two's complement of a distance that must fit in `bits`."""
    if not -(1 << bits - 1) <= distance < 1 << bits - 1:
        raise MalformedInput(f"ELF: the relocation at {place:#x} reaches {distance:#x} away")
    return distance & (1 << bits) - 1


def _aligned(value: int, shift: int, place: int) -> None:
    if value & (1 << shift) - 1:
        raise MalformedInput(f"ELF: the relocation at {place:#x} is misaligned")

"""How a number in an instruction word becomes text: registers, integers, floats.

A field's kind is a name of ``KINDS`` and, for scaled integers, a factor: ``hex*4``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

# Above this magnitude the tool writes the exponent form with 20 decimals, below the short one.
# measured: nvdisasm 13.5.37, FFMA and DADD immediates on both sides of 1e9
EXPONENT_FROM = 1e9

HALF_BITS = 16
SINGLE_BITS = 32
F32_FRACTION_BITS = 23
F16_FRACTION_BITS = 10
BF16_FRACTION_BITS = 7
F64_HIGH_FRACTION_BITS = 20


def _special(bits: int, width: int, fraction_bits: int) -> str | None:
    """INF, NaN and minus zero; the tool writes a blank after each."""
    sign = "-" if bits >> (width - 1) else "+"
    magnitude = bits & ((1 << (width - 1)) - 1)
    infinity = ((1 << (width - 1 - fraction_bits)) - 1) << fraction_bits
    if magnitude == infinity:
        return f"{sign}INF "
    if magnitude > infinity:
        quiet = bits >> (fraction_bits - 1) & 1
        return f"{sign}{'QNAN' if quiet else 'SNAN'} "
    return "-0.0 " if sign == "-" and not magnitude else None


def _plain(value: float) -> str:
    """A finite value with the digits of the tool."""
    return f"{value:.20e}" if math.fabs(value) >= EXPONENT_FROM else f"{value:.20g}"


def _f32(bits: int) -> str:
    special = _special(bits, SINGLE_BITS, F32_FRACTION_BITS)
    return special or _plain(struct.unpack("<f", struct.pack("<I", bits))[0])


def _f64_high(bits: int) -> str:
    special = _special(bits, SINGLE_BITS, F64_HIGH_FRACTION_BITS)
    return special or _plain(struct.unpack("<d", struct.pack("<II", 0, bits))[0])


def _f16(bits: int) -> str:
    special = _special(bits, HALF_BITS, F16_FRACTION_BITS)
    return special or _plain(struct.unpack("<e", struct.pack("<H", bits))[0])


def _bf16(bits: int) -> str:
    special = _special(bits, HALF_BITS, BF16_FRACTION_BITS)
    return special or _plain(struct.unpack("<f", struct.pack("<I", bits << HALF_BITS))[0])


def _index(prefix: str, zero: str, last: int) -> Callable[[int], str]:
    """A register's name: the last number of the file is the one that reads zero or true."""
    return lambda value: zero if value == last else f"{prefix}{value}"


# src: Mesa src/nouveau/compiler/nak/sm70_encode.rs: RZ is 255, URZ 63 (255 from sm_100), PT 7
PLAIN_KINDS: dict[str, Callable[[int], str]] = {
    "R": _index("R", "RZ", 255),
    "UR": _index("UR", "URZ", 63),
    "UR8": _index("UR", "URZ", 255),
    "P": _index("P", "PT", 7),
    "UP": _index("UP", "UPT", 7),
    "B": "B{}".format,
    "SB": "SB{}".format,
    "f32": _f32,
    "f64": _f64_high,
    "f16": _f16,
    "bf16": _bf16,
}


def _hex(value: int) -> str:
    return f"-{-value:#x}" if value < 0 else f"{value:#x}"


def kind_text(kind: str, value: int, width: int) -> str:
    """The text of ``value``, a field of ``width`` bits, as ``kind`` writes it.

    ``hex`` and ``dec`` take a factor after ``*``; a leading ``s`` reads two's complement, and
    ``+`` before all writes a plus, or nothing for zero.

    Raises: ValueError for a kind that is none of these.
    """
    if kind in PLAIN_KINDS:
        return PLAIN_KINDS[kind](value)
    name, _, factor = kind.partition("*")
    if name.startswith("+"):
        offset = kind_text(kind[1:], value, width)
        return f"+{offset}" if value else ""
    if name.startswith("s"):
        name = name[1:]
        value = signed(value, width)
    value *= int(factor or 1)
    if name == "hex":
        return _hex(value)
    if name == "dec":
        return str(value)
    raise ValueError(f"no field kind {kind!r}; regenerate the tables of boards/nv/isa")


def signed(value: int, width: int) -> int:
    """Two's complement of ``width`` bits."""
    return value - (1 << width) if value >> (width - 1) else value

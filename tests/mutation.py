"""Damage to bytes, repeatable by its seed, and limits for a reader of them."""

from __future__ import annotations

import random

from tests.share import part

MUTATIONS = part(20_000, 2_000)
CPU_LIMIT_S = 0.25
MEMORY_LIMIT_KIB = 64 << 10
EXTREMES = (0, 1, 2, 7, 24, 63, 64, 0x7F, 0xFF, 0xFFF, 0xFFFF, 1 << 31, (1 << 32) - 1, 1 << 63,
            (1 << 64) - 1)  # fmt: skip


def mutate(blob: bytes, rng: random.Random) -> bytes:
    """One to four changes: bits, bytes, extreme numbers, cuts, moved pieces."""
    data = bytearray(blob)
    for _ in range(rng.randint(1, 4)):
        at, kind = rng.randrange(max(1, len(data))), rng.randrange(6)
        if not data:
            break
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.randrange(256)
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            other = rng.randrange(len(data))
            data[at : at + 24] = data[other : other + 24]
        else:
            nbytes = rng.choice((1, 2, 4, 8))
            number = rng.choice(EXTREMES) & (1 << 8 * nbytes) - 1
            data[at : at + nbytes] = number.to_bytes(nbytes, "little")
    return bytes(data)

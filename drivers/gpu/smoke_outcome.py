"""Tests of a GPU's engines: what one found, and data whose bytes are all different."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from drivers.base.contracts import World
from drivers.base.errors import DeviceError

HINT: Final = "See the kernel log (dmesg) for what the GPU reported"
KIND: Final = "smoke"
"""The Firmware that is asked for: kernel(a, b, c, n), c[i] = a[i] + b[i] of 32-bit integers."""
ITEMS: Final = 1000
"""Of the kernel: not a multiple of a workgroup."""
COPY_BYTES: Final = (1, 3, 64, 4095, 4097, (1 << 20) + 13)
GUARD_BYTES: Final = 64
"""Behind everything that is written; they must stay as they were."""
_SHOWN_BYTES: Final = 8


class Wrong(DeviceError):
    """An engine answered, and the result is wrong."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One test: what it was, whether it passed, how long it took, and why not."""

    name: str
    ok: bool
    seconds: float
    detail: str = ""


Test = Callable[[], str]
"""Returns what there is to say of it. Raises: DeviceError."""


def timed(world: World, name: str, test: Test) -> Outcome:
    """Run a test."""
    start_s = world.monotonic_s()
    try:
        detail, ok = test(), True
    except DeviceError as error:
        detail, ok = f"{type(error).__name__}: {error}", False
    return Outcome(name, ok, world.monotonic_s() - start_s, detail)


def pattern(nbytes: int, seed: int) -> bytes:
    """Bytes in which neighbours and distant places differ."""
    made: bytes = np.random.default_rng(seed).bytes(nbytes)
    return made


def same(what: str, got: bytes | bytearray, want: bytes) -> None:
    """Raises: Wrong, with the first byte that differs."""
    if got == want:
        return
    pairs = enumerate(zip(got, want, strict=False))
    at = next((n for n, (a, b) in pairs if a != b), min(len(got), len(want)))
    is_, expected = (data[at : at + _SHOWN_BYTES].hex() for data in (got, want))
    raise Wrong(
        f"{what}: byte {at} of {len(want)} on is {is_}, not {expected}", hint=HINT
    )  # fmt: skip

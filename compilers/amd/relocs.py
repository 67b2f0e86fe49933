"""AMDGPU relocations. There are no external functions, hence no stubs.

Source: LLVM AMDGPUUsage, "Relocation Records"; numbers: llvm/BinaryFormat/ELFRelocs/AMDGPU.def.
"""

from __future__ import annotations

from drivers.base.errors import MalformedInput

R_AMDGPU_ABS32_LO = 1
R_AMDGPU_ABS32_HI = 2
R_AMDGPU_ABS64 = 3
R_AMDGPU_REL32 = 4
R_AMDGPU_REL64 = 5
R_AMDGPU_ABS32 = 6
R_AMDGPU_GOTPCREL = 7
R_AMDGPU_GOTPCREL32_LO = 8
R_AMDGPU_GOTPCREL32_HI = 9
R_AMDGPU_REL32_LO = 10
R_AMDGPU_REL32_HI = 11
R_AMDGPU_RELATIVE64 = 13
R_AMDGPU_REL16 = 14

ABSOLUTE = R_AMDGPU_ABS64
SLOTS = frozenset({R_AMDGPU_GOTPCREL, R_AMDGPU_GOTPCREL32_LO, R_AMDGPU_GOTPCREL32_HI})
CALLS: frozenset[int] = frozenset()
STUB_BYTES = 0

_ABSOLUTE32 = frozenset({R_AMDGPU_ABS32, R_AMDGPU_ABS32_LO, R_AMDGPU_ABS32_HI})
_WHOLE = {R_AMDGPU_REL32: 4, R_AMDGPU_GOTPCREL: 4, R_AMDGPU_REL64: 8}
"""Kind -> bytes of a signed distance that must fit."""
_HALF_SHIFT = {
    R_AMDGPU_REL32_LO: 0,
    R_AMDGPU_REL32_HI: 32,
    R_AMDGPU_GOTPCREL32_LO: 0,
    R_AMDGPU_GOTPCREL32_HI: 32,
}
_HALF_BYTES, _HALF_MASK = 4, (1 << 32) - 1
_WORD_BYTES, _BRANCH_BYTES = 4, 2


def patch(image: bytearray, place: int, kind: int, value: int) -> None:
    """Resolve the relocation `kind` at `place`: `value` is symbol (or slot) + addend."""
    if kind in _ABSOLUTE32:
        raise MalformedInput(
            f"ELF: a 32-bit absolute address at {place:#x}",
            hint="Compile position-independent code",
        )
    distance = value - place
    if kind in _WHOLE:
        _store(image, place, distance, _WHOLE[kind])
    elif kind in _HALF_SHIFT:
        half = distance >> _HALF_SHIFT[kind] & _HALF_MASK
        image[place : place + _HALF_BYTES] = half.to_bytes(_HALF_BYTES, "little")
    elif kind == R_AMDGPU_REL16:
        if distance % _WORD_BYTES:
            raise MalformedInput(f"ELF: the branch at {place:#x} goes to a misaligned place")
        _store(image, place, (distance - _WORD_BYTES) // _WORD_BYTES, _BRANCH_BYTES)
    else:
        raise MalformedInput(f"ELF: unknown AMDGPU relocation {kind} at {place:#x}")


def stub(at: int, slot: int) -> bytes:
    """Empty: no relocation is a call of external code."""
    return b""


def _store(image: bytearray, place: int, number: int, nbytes: int) -> None:
    limit = 1 << 8 * nbytes - 1
    if not -limit <= number < limit or place + nbytes > len(image):
        raise MalformedInput(f"ELF: the relocation at {place:#x} does not reach its goal")
    image[place : place + nbytes] = number.to_bytes(nbytes, "little", signed=True)

"""A kernel for libcuda: the whole cubin, which the library loads by itself.

`Binary.image` is the cubin; `Resources.args` says where arguments lie in its block of parameters.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

from drivers.base.contracts import Binary
from drivers.base.errors import MalformedInput

ARCH: Final = "cuda_sm_"
"""How names of architectures begin: "cuda_sm_86" is code for sm_86 as libcuda loads it."""
KNOWN: Final = (75, 80, 86, 89, 90, 100, 103, 110, 120, 121)
"""Compute capabilities that compilers know. A test compares them with `compilers.nv.targets`."""
SPECIFIC: Final = frozenset({90})
"""Those with an architecture of their own forms: "sm_90a". # src: PTX ISA, .target sm_90a"""
MAX_PARAM_BYTES: Final = 4096
_EM_CUDA: Final = 190
_HEADER: Final = struct.Struct("<6s12xH12xQQ6x4H2x")
"""Of an ELF64 file: magic, machine; places of the tables of segments and of sections, then size and
number of the entries of each."""
_SIZES: Final = frozenset({1, 2, 4, 8})


_DYNAMIC: Final = struct.Struct("<I")


def encode_dynamic(nbytes: int) -> bytes:
    """`Resources.vendor` of a kernel with so much shared memory that its code does not declare."""
    return _DYNAMIC.pack(nbytes) if nbytes else b""


def dynamic_bytes(binary: Binary) -> int:
    """Shared memory that a launch adds to what the code declares. Raises: MalformedInput."""
    record = binary.resources.vendor
    if not record:
        return 0
    if len(record) != _DYNAMIC.size:
        raise MalformedInput(
            f"{binary.name}: a record of {len(record)} bytes", hint="compile it anew"
        )
    nbytes: int = _DYNAMIC.unpack(record)[0]
    if not 0 < nbytes <= (binary.resources.shared_bytes or 0):
        raise MalformedInput(
            f"{binary.name}: {nbytes} bytes of shared memory are not declared, of "
            f"{binary.resources.shared_bytes}", hint="compile it anew",
        )  # fmt: skip
    return nbytes


@dataclass(frozen=True, slots=True)
class Params:
    """Where arguments lie in the block of parameters."""

    places: tuple[tuple[int, int], ...]
    """(offset, bytes) of each."""
    nbytes: int

    @classmethod
    def of(cls, binary: Binary) -> Self:
        """Raises: MalformedInput for arguments that no kernel has."""
        given = binary.resources.args
        if given is None:
            raise MalformedInput(f"{binary.name} has no list of arguments", hint="compile it anew")
        places = tuple((arg.offset, arg.nbytes) for arg in given)
        for offset, nbytes in places:
            if nbytes not in _SIZES or offset % nbytes or not 0 <= offset <= MAX_PARAM_BYTES:
                raise MalformedInput(
                    f"{binary.name}: an argument of {nbytes} bytes at {offset}",
                    hint="compile it anew",
                )
        _check_apart(binary.name, places)
        end = max((offset + nbytes for offset, nbytes in places), default=0)
        if end > MAX_PARAM_BYTES:
            raise MalformedInput(f"{binary.name}: {end} bytes of arguments", hint="pass fewer")
        return cls(places, end)


def check_cubin(name: str, image: bytes) -> None:
    """libcuda is given no size: it reads as far as the file's own headers say.

    Raises: MalformedInput for what is no cubin, or ends before its tables do.
    """
    rule = f"{len(image)} bytes are no ELF file"
    if len(image) >= _HEADER.size:
        magic, machine, segments, sections, *counts = _HEADER.unpack_from(image)
        end = max(segments + counts[0] * counts[1], sections + counts[2] * counts[3])
        if magic != b"\x7fELF\x02\x01" or machine != _EM_CUDA:
            rule = "it is no ELF file for NVIDIA GPUs"
        elif end > len(image):
            rule = f"its tables end at byte {end} of {len(image)}"
        else:
            return
    raise MalformedInput(f"{name} is not a cubin: {rule}", hint="compile it anew")


def _check_apart(name: str, places: Sequence[tuple[int, int]]) -> None:
    ends = sorted((offset, offset + nbytes) for offset, nbytes in places)
    if any(end > start for (_, end), (start, _) in pairwise(ends)):
        raise MalformedInput(f"{name}: arguments overlap", hint="compile it anew")

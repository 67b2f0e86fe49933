"""20,000 mutated code objects of both kinds: only MalformedInput, soon, with bounded memory."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Callable

import pytest

from compilers.amd import code_object as amd_object
from compilers.amd import llvm as amd_llvm
from drivers.base.errors import MalformedInput
from queues.amd.kernel_code import AmdCode
from tests import amd_kernels
from tests.amd_toolbox import POINTERS_LINKED
from tests.mutation import CPU_LIMIT_S, EXTREMES, MEMORY_LIMIT_KIB, MUTATIONS, mutate
from tests.support import check

ARCH = "gfx1100"


def relocatable() -> bytes:
    return amd_llvm.compile_object(amd_kernels.pointers(), ARCH, frozenset())


def fields(blob: bytes, rng: random.Random) -> bytes:
    """One number of the headers, tables, descriptor or metadata becomes an extreme one."""
    data = bytearray(blob)
    nbytes = rng.choice((2, 4, 8))
    at = rng.randrange(len(data) // nbytes) * nbytes
    number = rng.choice(EXTREMES) & (1 << 8 * nbytes) - 1
    data[at : at + nbytes] = number.to_bytes(nbytes, "little")
    return bytes(data)


def gnu_hash() -> bytes:
    """The linked one, without the tag of the hash table that is read first (at 0x880)."""
    blob = POINTERS_LINKED.read_bytes()
    return blob[:0x880] + (0x6FFFFFF0).to_bytes(8, "little") + blob[0x888:]


@pytest.mark.parametrize("seed_of", [relocatable, POINTERS_LINKED.read_bytes, gnu_hash])
def test_mutated_code_objects(seed_of: Callable[[], bytes]) -> None:
    seed = seed_of()
    amd_object.load(seed, "k", ARCH)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused, worst_s = 0, 0.0
    for number in range(MUTATIONS // 2):
        rng = random.Random(number)
        blob = (fields if number % 3 == 0 else mutate)(seed, rng)
        start_s = time.thread_time()
        try:
            found = amd_object.load(blob, "k", ARCH)
        except MalformedInput:
            refused += 1
        else:
            code = AmdCode.of(found).code_offset + AmdCode.of(found).code_bytes
            check(found.entry + 64 <= len(found.image), f"{number}: the descriptor")
            check(code <= found.data_offset, f"{number}: the code")
            check(all(f.offset + 8 <= len(found.image) for f in found.fixups), f"{number}: fixups")
        worst_s = max(worst_s, time.thread_time() - start_s)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    check(refused > MUTATIONS // 20, f"only {refused} refused: the mutations are too mild")
    check(refused < MUTATIONS // 2, "nothing was accepted: the mutations are too coarse")
    check(worst_s < CPU_LIMIT_S, f"the slowest took {worst_s} s of processor time")
    check(grown_kib < MEMORY_LIMIT_KIB + 4 * len(seed) // 1024, f"grew by {grown_kib} KiB")


# Of the linked file, src: llvm-readelf: program headers from 0x40; of data 4, dynamic 5, note 8.
DATA, DYNAMIC, NOTE = (0x40 + 56 * number for number in (4, 5, 8))
DATA_AT, HUGE = 0x38A8, 12 << 20
DT_SYMTAB_AT, DT_RELASZ_AT, HASH_AT = 0x838, 0x818, 0x4A8


def changed(changes: dict[int, int]) -> bytes:
    data = bytearray(POINTERS_LINKED.read_bytes())
    for at, value in changes.items():
        data[at : at + 8] = value.to_bytes(8, "little")
    return bytes(data)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({DATA + 40: HUGE, DYNAMIC + 16: DATA_AT + 16, DYNAMIC + 40: HUGE - 16}, "no "),
        ({DATA + 40: HUGE, HASH_AT: 1 | 400_000 << 32, DT_SYMTAB_AT: DATA_AT + 16}, "symbols"),
        ({DATA + 40: HUGE, DT_RELASZ_AT: 24 * 400_000}, "relocations"),
        ({DATA + 40: 1 << 40}, "segment"),
    ],
    ids=["dynamic", "symbols", "relocations", "image"],
)
def test_a_file_that_promises_far_more_than_it_holds(changes: dict[int, int], rule: str) -> None:
    start_s = time.thread_time()
    with pytest.raises(MalformedInput, match=rule):
        amd_object.load(changed(changes), "k", ARCH)
    check(time.thread_time() - start_s < CPU_LIMIT_S, "too slow")


def test_many_notes_over_the_same_bytes() -> None:
    data = bytearray(POINTERS_LINKED.read_bytes())
    note = bytearray(data[NOTE : NOTE + 56])
    note[8:16], note[32:40] = len(data).to_bytes(8, "little"), (12 << 17).to_bytes(8, "little")
    data[32:40], data[56:58] = (len(data) + (12 << 17)).to_bytes(8, "little"), b"\x40\0"
    heads = bytes(data[0x40 : 0x40 + 56 * 8]) + bytes(note) * 56
    start_s = time.thread_time()
    with pytest.raises(MalformedInput, match="0 metadata notes"):
        amd_object.load(bytes(data) + bytes(12 << 17) + heads, "k", ARCH)
    check(time.thread_time() - start_s < CPU_LIMIT_S, "too slow")


def test_the_largest_metadata() -> None:
    """As many values as a note may hold."""
    seed = relocatable()
    at = seed.index(b"AMDGPU\0")
    body = b"\xdd" + (65_531).to_bytes(4, "big") + bytes(65_531)
    head = len(body).to_bytes(4, "little")
    blob = bytearray(seed[: at - 8] + head + seed[at - 4 : at + 8] + body)
    blob += bytes(-len(blob) % 8)
    table, count = int.from_bytes(seed[40:48], "little"), int.from_bytes(seed[60:62], "little")
    moved = len(blob) - (at + 8)
    blob += seed[at + 8 :]
    for number in range(count):
        place = moved + table + 64 * number
        offset = int.from_bytes(blob[place + 24 : place + 32], "little")
        kind = int.from_bytes(blob[place + 4 : place + 8], "little")
        if kind == 7:  # SHT_NOTE
            blob[place + 32 : place + 40] = (20 + len(body)).to_bytes(8, "little")
        elif offset > at:
            blob[place + 24 : place + 32] = (offset + moved).to_bytes(8, "little")
    blob[40:48] = (table + moved).to_bytes(8, "little")
    start_s = time.thread_time()
    with pytest.raises(MalformedInput, match="metadata that is no map"):
        amd_object.load(bytes(blob), "k", ARCH)
    check(time.thread_time() - start_s < CPU_LIMIT_S, "too slow")

"""20,000 mutated cubins of four architectures: only MalformedInput, soon, with bounded memory."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from boards.cuda import cubin as board_cubin
from boards.nv import listing
from boards.nv.isa.table import NoTable
from compilers.nv import cubin
from drivers.base.errors import MalformedInput
from queues.nv.kernel_code import NvCode
from tests import nv_cubins
from tests.mutation import CPU_LIMIT_S, EXTREMES, MEMORY_LIMIT_KIB, MUTATIONS, mutate
from tests.share import part
from tests.support import check

LISTED = part(2000, 60)


def fields(blob: bytes, rng: random.Random) -> bytes:
    """One number of the headers, tables or attributes becomes an extreme one."""
    data = bytearray(blob)
    nbytes = rng.choice((1, 2, 4, 8))
    at = rng.randrange(len(data) // nbytes) * nbytes
    number = rng.choice(EXTREMES) & (1 << 8 * nbytes) - 1
    data[at : at + nbytes] = number.to_bytes(nbytes, "little")
    return bytes(data)


@pytest.mark.parametrize("arch", nv_cubins.ARCHES)
def test_mutated_cubins(arch: str) -> None:
    seed = nv_cubins.cubin(arch)
    cubin.load(seed, "k", arch)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused, worst_s, rounds = 0, 0.0, MUTATIONS // len(nv_cubins.ARCHES)
    for number in range(rounds):
        rng = random.Random(number)
        blob = (fields if number % 3 == 0 else mutate)(seed, rng)
        start_s = time.thread_time()
        try:
            found = cubin.load(blob, "k", arch)
        except MalformedInput:
            refused += 1
        else:
            code = NvCode.of(found)
            check(code.code_bytes <= found.data_offset, f"{number}: the code")
            check(all(f.offset + 8 <= len(found.image) for f in found.fixups), f"{number}: fixups")
        worst_s = max(worst_s, time.thread_time() - start_s)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    check(refused > rounds // 20, f"only {refused} refused: the mutations are too mild")
    check(refused < rounds, "nothing was accepted: the mutations are too coarse")
    check(worst_s < CPU_LIMIT_S, f"the slowest took {worst_s} s of processor time")
    check(grown_kib < MEMORY_LIMIT_KIB + 4 * len(seed) // 1024, f"grew by {grown_kib} KiB")


def listed(blob: bytes) -> None:
    """A damaged file as text, or a ValueError of ours."""
    with suppress(ValueError, NoTable):
        for _ in listing.listing(blob, "", ""):
            pass


def loaded(blob: bytes) -> None:
    with suppress(board_cubin.BadImage):
        board_cubin.load(blob)


@pytest.mark.parametrize("take", [listed, loaded])
def test_mutated_cubins_on_the_boards_side(take: Callable[[bytes], None]) -> None:
    """What lists a cubin, and what a made-up libcuda loads: pyelftools raised OverflowError."""
    seeds = [nv_cubins.cubin(arch) for arch in nv_cubins.ARCHES]
    worst_s = 0.0
    for number in range(LISTED if take is listed else MUTATIONS):
        rng = random.Random(number)
        blob = (fields if number % 2 else mutate)(rng.choice(seeds), rng)
        took_s = cost_s(take, blob)
        if took_s > CPU_LIMIT_S:  # a collection of Python's is not the file's cost
            took_s = min(cost_s(take, blob) for _ in range(3))
        worst_s = max(worst_s, took_s)
    check(worst_s < CPU_LIMIT_S, f"the slowest took {worst_s} s of processor time")


def cost_s(take: Callable[[bytes], None], blob: bytes) -> float:
    start_s = time.thread_time()
    take(blob)
    return time.thread_time() - start_s


@pytest.mark.parametrize("value", [1 << 63, (1 << 64) - 1, 1 << 32])
def test_sections_far_outside(
    value: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Offset and size of each section."""
    seed = nv_cubins.cubin("sm_86")
    heads, count = int.from_bytes(seed[40:48], "little"), int.from_bytes(seed[60:62], "little")
    file = tmp_path / "kernel.cubin"
    refused = 0
    for at in (heads + 64 * number + off for number in range(1, count) for off in (24, 32)):
        blob = seed[:at] + value.to_bytes(8, "little") + seed[at + 8 :]
        file.write_bytes(blob)
        refused += listing.main([str(file)])
        loaded(blob)
    check(refused >= count, f"{refused} of {2 * count - 2} refused")
    check("are outside of" in capsys.readouterr().err)


def test_names_cannot_command_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kernel.cubin"
    file.write_bytes(nv_cubins.cubin("sm_86").replace(b".text.second", b".text.\x1b[2Jnd"))
    check(listing.main([str(file)]) == 1)
    out, err = capsys.readouterr()
    check("\x1b" not in out + err and r".text.\x1b[2Jnd" in err, err)


def test_a_file_that_promises_far_more_than_it_holds() -> None:
    """Every section, made a table of relocations of the code, or as large as can be claimed."""
    seed = nv_cubins.cubin("sm_86")
    heads, count = int.from_bytes(seed[40:48], "little"), int.from_bytes(seed[60:62], "little")
    refused = 0
    for number in range(count):
        for at, value, nbytes in ((4, 9, 4), (4, 8, 4), (32, 1 << 40, 8), (32, 12 << 20, 8)):
            blob = bytearray(seed)
            place = heads + 64 * number + at
            blob[place : place + nbytes] = value.to_bytes(nbytes, "little")
            start_s = time.thread_time()
            try:
                cubin.load(bytes(blob), "k", "sm_86")
            except MalformedInput:
                refused += 1
            check(time.thread_time() - start_s < CPU_LIMIT_S, f"section {number}: too slow")
    check(refused > count, f"{refused} refused")

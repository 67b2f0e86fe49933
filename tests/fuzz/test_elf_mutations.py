"""20,000 mutated objects: only our own errors leave the loader, soon, with bounded memory."""

from __future__ import annotations

import random
import resource
import time

import pytest

from compilers.cpu import llvm
from compilers.objects import elf
from drivers.base.errors import DeviceError
from tests.mutation import CPU_LIMIT_S, EXTREMES, MEMORY_LIMIT_KIB, MUTATIONS, mutate
from tests.support import check

SOURCE = """
@count = internal global i64 40
@zeros = internal global [64 x i64] zeroinitializer
@table = internal constant [2 x ptr] [ptr @first, ptr @k]
declare float @sinf(float)
define internal i64 @first(i64 %a) noinline { ret i64 %a }
define i64 @k(i64 %which) {
  %c = load volatile i64, ptr @count
  %z = load volatile i64, ptr getelementptr (i64, ptr @zeros, i64 63)
  store volatile i64 %z, ptr @count
  %slot = getelementptr ptr, ptr @table, i64 %which
  %f = load ptr, ptr %slot
  %r = call i64 %f(i64 %c)
  %s = call float @sinf(float 2.5)
  %t = fptosi float %s to i64
  ret i64 %t
}"""


def headers(blob: bytes, rng: random.Random) -> bytes:
    """One field of the file header or of a section header becomes an extreme number."""
    data = bytearray(blob)
    table = int.from_bytes(data[40:48], "little")
    at = rng.choice((rng.randrange(64), table + rng.randrange(len(data) - table)))
    nbytes = rng.choice((2, 4, 8))
    number = rng.choice(EXTREMES) & (1 << 8 * nbytes) - 1
    data[at : at + nbytes] = number.to_bytes(nbytes, "little")
    return bytes(data)


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_mutated_objects(arch: str) -> None:
    seed = llvm.compile_object(SOURCE, arch, frozenset())
    elf.load(seed, "k", arch)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused, worst_s = 0, 0.0
    for number in range(MUTATIONS // 2):
        rng = random.Random(number)
        blob = (headers if number % 3 == 0 else mutate)(seed, rng)
        start_s = time.thread_time()
        try:
            elf.load(blob, "k", arch)
        except DeviceError:
            refused += 1
        worst_s = max(worst_s, time.thread_time() - start_s)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    check(refused > MUTATIONS // 20, f"only {refused} refused: the mutations are too mild")
    check(refused < MUTATIONS // 2, "nothing was accepted: the mutations are too coarse")
    check(worst_s < CPU_LIMIT_S, f"the slowest took {worst_s} s of processor time")
    check(grown_kib < MEMORY_LIMIT_KIB + 4 * len(seed) // 1024, f"grew by {grown_kib} KiB")


def test_a_file_that_promises_far_more_than_it_holds() -> None:
    """Many sections over the same bytes must not multiply time or memory."""
    seed = bytearray(llvm.compile_object(SOURCE, "x86_64", frozenset()))
    table, count = int.from_bytes(seed[40:48], "little"), int.from_bytes(seed[60:62], "little")
    heads = [bytes(seed[table + 64 * n : table + 64 * n + 64]) for n in range(count)]
    refused = []
    for head in heads[1:]:
        blob = bytearray(seed[:table]) + b"".join(heads) + head * (1024 - count)
        blob[40:48], blob[60:62] = table.to_bytes(8, "little"), (1024).to_bytes(2, "little")
        start_s = time.thread_time()
        try:
            elf.load(bytes(blob), "k", "x86_64")
        except DeviceError:
            refused.append(head)
        check(time.thread_time() - start_s < CPU_LIMIT_S, "too slow")
    check(refused, "repeated code and relocations are refused")

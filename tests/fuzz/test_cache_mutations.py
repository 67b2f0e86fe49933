"""20,000 damaged cache entries are misses; 20,000 damaged binaries raise only MalformedInput."""

from __future__ import annotations

import os
import random
import resource
import time
from pathlib import Path

from compilers import binary as codec
from compilers.cache import SUFFIX, Cache, key_of
from drivers.base.contracts import Binary, Fixup, Resources
from drivers.base.errors import MalformedInput
from tests.mutation import CPU_LIMIT_S, MEMORY_LIMIT_KIB, MUTATIONS, mutate
from tests.support import check

BINARY = Binary(
    "x86_64",
    "kernel",
    bytes(range(256)) * 4,
    16,
    (Fixup(512, "sinf", 0), Fixup(520, "", -64)),
    512,
    Resources(scratch_bytes=4096),
)


def test_damaged_entries_are_misses(tmp_path: Path) -> None:
    store, key = Cache(str(tmp_path / "kernels")), key_of(b"a")
    store.put(key, BINARY)
    path = os.path.join(store.directory, key + SUFFIX)
    seed = Path(path).read_bytes()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    hits, worst_s = 0, 0.0
    for number in range(MUTATIONS):
        blob = mutate(seed, random.Random(number))
        with open(path, "wb") as file:
            file.write(blob)
        store.forget_memory()
        start_s = time.thread_time()
        found = store.get(key)
        worst_s = max(worst_s, time.thread_time() - start_s)
        if blob == seed:
            hits += 1
            check(found == BINARY, "an untouched entry is a hit")
        else:
            check(found is None, f"mutation {number} was taken for an entry")
            check(not os.path.exists(path), f"mutation {number} stays in the way")
    store.put(key, BINARY)
    check(Cache(store.directory).get(key) == BINARY, "the cache still works")
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    check(hits < MUTATIONS // 2, "the mutations are too mild")
    check(worst_s < CPU_LIMIT_S, f"the slowest took {worst_s} s of processor time")
    check(grown_kib < MEMORY_LIMIT_KIB, f"grew by {grown_kib} KiB")


def test_damaged_binaries_raise_only_malformed_input() -> None:
    seed, refused, worst_s = codec.encode(BINARY), 0, 0.0
    for number in range(MUTATIONS):
        blob = mutate(seed, random.Random(number))
        start_s = time.thread_time()
        try:
            found = codec.decode(blob)
        except MalformedInput:
            refused += 1
        else:
            check(found.entry < len(found.image), "an entry outside of the image")
            inside = (fixup.offset + 8 <= len(found.image) for fixup in found.fixups)
            check(all(inside), "a fixup outside of the image")
        worst_s = max(worst_s, time.thread_time() - start_s)
    check(MUTATIONS // 10 < refused < MUTATIONS, f"{refused} refused")
    check(worst_s < CPU_LIMIT_S, f"the slowest took {worst_s} s of processor time")

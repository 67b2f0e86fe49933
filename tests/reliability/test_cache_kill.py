"""200 processes killed while they compile or write the cache: the next one is always correct.

170 of them only write, over and over, entries of 1 MiB: they start fast and are nearly always
killed inside of a write. 30 really compile with LLVM and are killed between the import and the
last write.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

from compilers import cache, toolchains
from compilers.cache import Cache, key_of
from drivers.base.contracts import Binary
from tests.share import part
from tests.support import check

ROOT = Path(__file__).parents[2]
WRITERS, COMPILERS = 170, part(30, 4)
ENOUGH_WRITERS = part(WRITERS, 20)
ENTRIES = 4
WRITE_S, COMPILE_S = 0.02, 0.4
IMAGE_BYTES = 1 << 20

WRITER = f"""
import sys
from compilers.cache import Cache, key_of
from drivers.base.contracts import Binary
print("ready", flush=True)
while True:
    store = Cache(sys.argv[1])
    for n in range({ENTRIES}):
        store.put(key_of(bytes([n])), Binary("x86_64", f"k{{n}}", bytes([n]) * {IMAGE_BYTES}, 0))
"""
COMPILER = """
import sys
from compilers import cache, toolchains
print("ready", flush=True)
number = 0
while True:
    for n in range(4):
        store = cache.Cache(sys.argv[1] if number < 4 else sys.argv[2])
        source = f"define i64 @k(i64 %a) {{ %b = add i64 %a, {n}\\n ret i64 %b }}"
        tail = f"\\n; {number}" if number >= 4 else ""
        toolchains.compile_source(source + tail, "k", "LLVM", "x86_64", frozenset(), store)
        number += 1
"""


def kill_at_random(script: str, arguments: list[str], longest_s: float, rng: random.Random) -> None:
    """Start a process, let it reach its work, and end it with SIGKILL at a random moment."""
    child = subprocess.Popen(
        [sys.executable, "-c", script, *arguments], cwd=ROOT, stdout=subprocess.PIPE
    )
    with child:
        check(child.stdout is not None and child.stdout.readline() == b"ready\n", "it started")
        time.sleep(rng.uniform(0, longest_s))
        check(child.poll() is None, "it works until it is killed")
        child.kill()


def expected(n: int) -> Binary:
    return Binary("x86_64", f"k{n}", bytes([n]) * IMAGE_BYTES, 0)


def leftovers(directory: str) -> list[str]:
    return [name for name in os.listdir(directory) if not name.endswith(cache.SUFFIX)]


def test_writers_killed_at_random(tmp_path: Path) -> None:
    rng, directory, torn = random.Random(1), str(tmp_path / "kernels"), 0
    for number in range(WRITERS):
        if number >= ENOUGH_WRITERS and torn:
            break
        before = set(leftovers(directory)) if os.path.isdir(directory) else set()
        kill_at_random(WRITER, [directory], WRITE_S, rng)
        fresh = Cache(directory)
        found = [(n, fresh.get(key_of(bytes([n])))) for n in range(ENTRIES)]
        check(all(entry in (None, expected(n)) for n, entry in found), "whole entries or none")
        torn += len(set(leftovers(directory)) - before)
        for name in leftovers(directory)[3:]:
            os.unlink(os.path.join(directory, name))
    check(torn, "no process was killed inside of a write: this test shows nothing")
    for n in range(ENTRIES):
        Cache(directory).put(key_of(bytes([n])), expected(n))
        check(Cache(directory).get(key_of(bytes([n]))) == expected(n), "nothing is locked")
    for name in leftovers(directory):
        os.utime(os.path.join(directory, name), (time.time() - 2 * cache.LEFTOVER_S,) * 2)
    Cache(directory).put(key_of(b"another"), expected(0))
    check(leftovers(directory) == [], "the next process that writes tidies up")


def test_compilers_killed_at_random(tmp_path: Path) -> None:
    rng, directory = random.Random(2), str(tmp_path / "kernels")
    fresh = Cache("")
    sources = [
        f"define i64 @k(i64 %a) {{ %b = add i64 %a, {n}\n ret i64 %b }}" for n in range(ENTRIES)
    ]
    compiled = [
        toolchains.compile_source(source, "k", "LLVM", "x86_64", frozenset(), fresh)
        for source in sources
    ]
    for number in range(COMPILERS):
        shared = directory if number % 2 else str(tmp_path / str(number))
        kill_at_random(COMPILER, [shared, str(tmp_path / "more")], COMPILE_S, rng)
        after = Cache(shared)
        for source, right in zip(sources, compiled, strict=True):
            found = toolchains.compile_source(source, "k", "LLVM", "x86_64", frozenset(), after)
            check(found == right, "the next process has the right code")

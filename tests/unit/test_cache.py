"""The kernel cache: hits, misses, damage, other users, other processes, no disk."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

from compilers import cache, toolchains
from compilers.cache import Cache, key_of
from drivers.base.contracts import Binary, Fixup, Resources
from drivers.base.errors import BadChoice
from tests.support import check, run_limited

ROOT = Path(__file__).parents[2]
BINARY = Binary(
    "x86_64", "k", b"\xc3" * 5000, 3, (Fixup(8, "sinf", -4),), 4096, Resources(scratch_bytes=64)
)
IR = "define i64 @k(i64 %a) { %b = add i64 %a, 1\n ret i64 %b }"


@pytest.fixture
def store(tmp_path: Path) -> Cache:
    return Cache(str(tmp_path / "deep" / "kernels"))


def files(store: Cache) -> list[str]:
    return sorted(os.listdir(store.directory))


def test_an_entry_survives_the_process(store: Cache) -> None:
    key = key_of(b"a")
    check(store.get(key) is None, "empty")
    store.put(key, BINARY)
    check(store.get(key) is BINARY, "from memory")
    check(Cache(store.directory).get(key) == BINARY, "from disk")
    check(files(store) == [key + cache.SUFFIX], "nothing else is left")
    check([found for found, _ in store.entries()] == [key], "listed")


def test_files_are_private(store: Cache) -> None:
    store.put(key_of(b"a"), BINARY)
    check(os.stat(store.directory).st_mode & 0o777 == 0o700, "directory")
    path = os.path.join(store.directory, files(store)[0])
    check(os.stat(path).st_mode & 0o777 == 0o600, "entry")


def test_keys_depend_on_every_part_and_its_end() -> None:
    keys = {key_of(b"a", b"b"), key_of(b"ab", b""), key_of(b"ab"), key_of(b"b", b"a"), key_of()}
    check(len(keys) == 5, "all differ")


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "grow"])
def test_a_damaged_entry_is_a_miss_and_heals(store: Cache, damage: str) -> None:
    key = key_of(b"a")
    store.put(key, BINARY)
    path = Path(store.directory, key + cache.SUFFIX)
    blob = path.read_bytes()
    flipped = blob[:700] + bytes([blob[700] ^ 1]) + blob[701:]
    damaged = {"truncate": blob[:300], "flip": flipped, "empty": b"", "grow": blob + b"x"}
    path.write_bytes(damaged[damage])
    fresh = Cache(store.directory)
    check(fresh.get(key) is None, "damaged")
    check(files(store) == [], "removed")
    fresh.put(key, BINARY)
    check(Cache(store.directory).get(key) == BINARY, "whole again")


def test_a_link_is_not_followed(store: Cache, tmp_path: Path) -> None:
    key = key_of(b"a")
    store.put(key, BINARY)
    path = Path(store.directory, key + cache.SUFFIX)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    fresh = Cache(store.directory)
    with pytest.warns(RuntimeWarning, match="UNBOUND_CACHE"):
        check(fresh.get(key) is None, "a link is no entry")


def test_an_entry_under_another_name_is_a_miss(store: Cache) -> None:
    store.put(key_of(b"a"), BINARY)
    other = key_of(b"b")
    os.rename(Path(store.directory, files(store)[0]), Path(store.directory, other + cache.SUFFIX))
    check(Cache(store.directory).get(other) is None, "its hash covers its name")


def use_twice(store: Cache) -> None:
    store.put(key_of(b"a"), BINARY)
    check(store.get(key_of(b"a")) is BINARY, "memory still serves")
    check(store.get(key_of(b"b")) is None, "nothing else")


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_directory_others_may_write_to_is_not_used(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    store = Cache(str(tmp_path))
    with pytest.warns(RuntimeWarning, match="others|other users") as caught:
        use_twice(store)
    check(len(caught) == 1, "one warning")
    check(os.listdir(tmp_path) == [], "nothing was written")


def test_no_directory_at_all() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = Cache("")
        store.put(key_of(b"a"), BINARY)
        check(store.get(key_of(b"a")) is BINARY, "memory")
        check(list(store.entries()) == [], "no disk")


def test_a_path_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Cache(str(tmp_path / "file" / "below"))
    with pytest.warns(RuntimeWarning, match="cannot use"):
        store.put(key_of(b"a"), BINARY)
    check(store.get(key_of(b"a")) is BINARY, "memory")


def test_old_leftovers_and_excess_are_removed(
    store: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in (b"a", b"b", b"c"):
        store.put(key_of(part), BINARY)
    names = {
        part: Path(store.directory, key_of(part) + cache.SUFFIX) for part in (b"a", b"b", b"c")
    }
    old, young = Path(store.directory, ".tmp-1"), Path(store.directory, ".tmp-2")
    for path in (old, young):
        path.write_bytes(b"half")
    now_s = time.time()
    os.utime(old, (now_s - 2 * cache.LEFTOVER_S,) * 2)
    os.utime(names[b"b"], (now_s - 100,) * 2)
    monkeypatch.setattr(cache, "DISK_LIMIT_BYTES", 2 * names[b"a"].stat().st_size)
    Cache(store.directory).put(key_of(b"d"), BINARY)
    check(Cache(store.directory).get(key_of(b"a")) == BINARY, "kept")
    check(not old.exists(), "an old leftover goes")
    check(young.exists(), "a young one may belong to a writer")
    check(not names[b"b"].exists() and names[b"c"].exists(), "the oldest entry goes")


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MEMORY_ENTRIES", 3)
    store = Cache("")
    for n in range(10):
        store.put(key_of(bytes([n])), BINARY)
    kept = [n for n in range(10) if store.get(key_of(bytes([n]))) is not None]
    check(kept == [7, 8, 9], "the last three")


def test_concurrent_writers_and_readers(store: Cache) -> None:
    key = key_of(b"a")
    wrong: list[Binary | None] = []
    store.put(key, BINARY)

    def write() -> None:
        for _ in range(100):
            Cache(store.directory).put(key, BINARY)

    def read() -> None:
        seen = [Cache(store.directory).get(key) for _ in range(200)]
        wrong.extend(found for found in seen if found != BINARY)

    threads = [threading.Thread(target=work) for work in (write, write, read, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(not wrong, f"{len(wrong)} wrong reads")
    check(files(store) == [key + cache.SUFFIX], "nothing is left behind")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"UNBOUND_CACHE": "/u", "XDG_CACHE_HOME": "/x"}, "/u/kernels"),
        ({"UNBOUND_CACHE": "~/u", "HOME": "/h"}, "/h/u/kernels"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/unbound/kernels"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/unbound/kernels"),
        ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/unbound/kernels"),
        ({"XDG_CACHE_HOME": "", "HOME": "nowhere"}, ""),
    ],
)
def test_default_directory(
    environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("UNBOUND_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    check(cache.default_directory() == expected, cache.default_directory())


def test_a_wrong_directory_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNBOUND_CACHE", "relative")
    with pytest.raises(BadChoice, match="UNBOUND_CACHE"):
        cache.default_directory()


def test_kernels_go_where_the_environment_says(tmp_path: Path) -> None:
    script = f"""
from compilers import toolchains
toolchains.compile_source({IR!r}, "k", "LLVM", "x86_64", frozenset())
"""
    chosen = tmp_path / "chosen"
    environ = {**os.environ, "UNBOUND_CACHE": str(chosen), "XDG_CACHE_HOME": str(tmp_path / "x")}
    run_limited([sys.executable, "-c", script], cwd=ROOT, env=environ, check=True, cpu_s=60)
    check(len(files(Cache(str(chosen / "kernels")))) == 1, "one kernel")
    check([path.name for path in tmp_path.iterdir()] == ["chosen"], "and nothing elsewhere")


def test_every_fact_is_in_the_key(store: Cache) -> None:
    for source, features in ((IR, set()), (IR, {"avx2"}), (IR + "\n", set())):
        toolchains.compile_source(source, "k", "LLVM", "x86_64", frozenset(features), store)
    toolchains.compile_source(IR, "k", "LLVM", "aarch64", frozenset(), store)
    check(len(files(store)) == 4, "four different entries")
    toolchains.compile_source(IR, "k", "LLVM", "x86_64", frozenset({"avx2"}), store)
    check(len(files(store)) == 4, "the fifth is a hit")


def test_a_warm_cache_imports_no_compiler(store: Cache) -> None:
    first = toolchains.compile_source(IR, "k", "LLVM", "x86_64", frozenset(), store)
    script = f"""
import sys
from compilers import cache, toolchains
found = toolchains.compile_source({IR!r}, "k", "LLVM", "x86_64", frozenset(),
                                  cache.Cache({store.directory!r}))
heavy = {{"llvmlite", "elftools", "capstone", "subprocess", "numpy"}} & set(sys.modules)
print(sorted(heavy), found.image.hex())
"""
    done = run_limited(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        cpu_s=60,
    )
    check(done.stdout.strip() == f"[] {first.image.hex()}", done.stdout[:200] + done.stderr)

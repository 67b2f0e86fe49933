"""Code that another user, or chance, put where compiled kernels are looked for never runs."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from compilers import binary as codec
from compilers import cache
from compilers.cache import Cache, key_of
from drivers.base.contracts import Binary
from drivers.world import owned
from tests.other_user import OTHER, as_user, needs_root, public
from tests.support import check, patience

__all__ = ["public"]
ROOT = Path(__file__).parents[2]
RAN = 77
EXITS = {  # exit_group(77). src: arch/x86/entry/syscalls/syscall_64.tbl, asm-generic/unistd.h
    "x86_64": "b8e7000000 bf4d000000 0f05",
    "aarch64": "a00980d2 c80b80d2 010000d4",
}
PROGRAM = """
import sys, threading
import numpy as np
import tensor as xp

def once(factor):
    try:
        x = xp.asarray(np.arange(5, dtype=np.float32))
        print((x * factor + 1).numpy()[4])
    except RuntimeWarning as error:
        print("warned", error)

first = [threading.Thread(target=once, args=(3,)) for _ in range(int(sys.argv[1]))]
for thread in first:
    thread.start()
for thread in first:
    thread.join()
input()
once(3)
once(4)
"""
KEY, BINARY = key_of(b"a"), Binary("x86_64", "k", b"\xc3" * 5000, 3)


def started(directory: Path, *options: str, threads: int = 1) -> subprocess.Popen[str]:
    environ = {**os.environ, "UNBOUND_CACHE": str(directory), "DEV": "CPU"}
    command = [sys.executable, *options, "-c", PROGRAM, str(threads)]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=ROOT, env=environ, text=True, stdin=pipe, stdout=pipe, stderr=pipe
    )


def ended(program: subprocess.Popen[str]) -> tuple[int, str, str]:
    output, errors = program.communicate("\n", timeout=patience(60))
    return program.returncode, output, errors


def blob(key: str, binary: Binary) -> bytes:
    payload = codec.encode(binary)
    digest = cache._digest(key, payload)
    return cache._HEAD.pack(cache.MAGIC, len(payload), digest) + payload


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The entries of PROGRAM, with other code in them."""
    if platform.machine() not in EXITS:
        pytest.skip(f"machine code that exits on {platform.machine()}")
    code = bytes.fromhex(EXITS[platform.machine()])
    room = tmp_path_factory.mktemp("own")
    status, output, _ = ended(started(room))
    check(status == 0 and output.split() == ["13.0", "13.0", "17.0"], f"{status}: {output}")
    found, names = {}, set()
    for key, binary in Cache(str(room / "kernels")).entries():
        image = bytearray(binary.image)
        image[binary.entry : binary.entry + len(code)] = code
        found[f"{key}.bin"] = blob(key, replace(binary, image=bytes(image)))
        names.add(binary.name)
    check("command_processor" in names and len(names) > 1, f"firmware and kernels: {names}")
    return found


def plant(kernels: Path, entries: dict[str, bytes]) -> None:
    kernels.mkdir(parents=True, mode=0o755)
    for name, data in entries.items():
        (kernels / name).write_bytes(data)
        (kernels / name).chmod(0o644)


def test_planted_code_would_run(tmp_path: Path, planted: dict[str, bytes]) -> None:
    """The attacks below show something: in a directory of our own the entries are taken."""
    plant(tmp_path / "kernels", planted)
    check(ended(started(tmp_path))[0] == RAN)


@pytest.fixture
def evil(public: Path, planted: dict[str, bytes]) -> Path:
    """A cache that another user made and filled."""
    (public / "all").mkdir()
    (public / "all").chmod(0o1777)
    as_user(OTHER, lambda: plant(public / "all" / "evil" / "kernels", planted))
    return public / "all" / "evil"


@needs_root
@pytest.mark.parametrize(
    ("options", "threads"), [((), 1), (("-W", "error"), 1), ((), 8), (("-W", "ignore"), 8)]
)
def test_a_directory_of_another_user(evil: Path, options: tuple[str, ...], threads: int) -> None:
    """Refused at the first use and at each one after it, warning or error, in every thread."""
    status, output, errors = ended(started(evil, *options, threads=threads))
    check(status == 0, f"{status}: {output}{errors}")
    shown = errors + output
    check(output.split()[-2:] == ["13.0", "17.0"], shown)
    check((f"belongs to user {OTHER}" in shown) == ("ignore" not in options), shown)


@needs_root
def test_the_parent_belongs_to_another_user(evil: Path, planted: dict[str, bytes]) -> None:
    """Our own directory in it is exchanged while the program runs."""
    shared = evil.parent / "shared"
    as_user(OTHER, lambda: (shared.mkdir(), shared.chmod(0o777)))
    program = started(shared)
    check(program.stdout is not None and program.stdout.readline() == "13.0\n")
    check(not list(shared.iterdir()), "nothing is made there")
    as_user(OTHER, lambda: plant(shared / "kernels", planted))
    status, output, errors = ended(program)
    check((status, output.split()) == (0, ["13.0", "17.0"]), f"{status}: {output}{errors}")


@needs_root
def test_the_home_of_another_user(evil: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HOME of a user, and root at work: `sudo` with the environment kept."""
    home = evil.parent / "home"
    as_user(OTHER, lambda: home.mkdir(mode=0o755))
    for name in ("UNBOUND_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    store = Cache(cache.default_directory())
    with pytest.warns(RuntimeWarning, match=rf"home belongs to user {OTHER}\..*UNBOUND_CACHE"):
        store.put(KEY, BINARY)
    check(store.get(KEY) is BINARY and not list(home.iterdir()), "in memory alone")


@needs_root
def test_a_second_thread_does_not_read_before_the_verdict(
    public: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first thread is held up in its look at the directory until the second has read."""
    plant(public / "kernels", {f"{KEY}.bin": blob(KEY, BINARY)})
    os.chown(public, OTHER, -1)
    store, walk = Cache(str(public / "kernels")), owned.open_directory
    begun, done, found = threading.Event(), threading.Event(), list[Binary | None]()

    def slow(path: str, *, make: bool = False) -> int:
        if threading.current_thread() is first:
            begun.set()
            done.wait(10)
        return walk(path, make=make)

    monkeypatch.setattr(owned, "open_directory", slow)
    first = threading.Thread(target=lambda: found.append(store.get(KEY)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first.start()
        begun.wait(10)
        found.append(store.get(KEY))
        done.set()
        first.join()
    check(found == [None, None], f"{found}")
    check(len(caught) == 1, "one warning")
    os.chown(public, 0, -1)
    check(Cache(store.directory or str(public / "kernels")).get(KEY) == BINARY, "else it is good")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Cache]:
    """A cache with one entry; whoever waits for a FIFO is woken."""
    made = Cache(str(tmp_path / "kernels"))
    made.put(KEY, BINARY)

    def late(number: int, frame: object) -> None:
        raise TimeoutError("it blocks")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield made
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _theirs(path: Path) -> None:
    if os.geteuid():
        pytest.skip("a second user id: only root can give a file away")
    path.write_bytes(blob(KEY, BINARY))
    os.chown(path, OTHER, -1)


def _linked(path: Path) -> None:
    path.with_name("other").write_bytes(blob(KEY, BINARY))
    path.hardlink_to(path.with_name("other"))


def _soft_linked(path: Path) -> None:
    path.with_name("other").write_bytes(blob(KEY, BINARY))
    path.symlink_to("other")


ODD: dict[str, Callable[[Path], None]] = {
    "FIFO": lambda path: os.mkfifo(path, 0o600),
    "directory": Path.mkdir,
    "link": _soft_linked,
    "second name": _linked,
    "other user": _theirs,
}


@pytest.mark.parametrize("kind", ODD)
def test_entries_that_are_no_plain_files(store: Cache, kind: str) -> None:
    path = Path(store.directory, f"{KEY}.bin")
    path.unlink()
    ODD[kind](path)
    fresh = Cache(store.directory)
    with pytest.warns(RuntimeWarning, match="is not a plain file of this user"):
        check(fresh.get(KEY) is None)
    plain = blob(key_of(b"b"), BINARY)
    path.with_name(f"{key_of(b'b')}.bin").write_bytes(plain)
    check(fresh.get(key_of(b"b")) is None, "the disk is left alone from now on")


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_an_entry_that_others_may_write(store: Cache, mode: int) -> None:
    """A copy of a cache may have any mode, and whoever may search the directory writes to it."""
    path = Path(store.directory, f"{KEY}.bin")
    path.write_bytes(blob(KEY, replace(BINARY, image=b"theirs")))
    path.chmod(mode)
    fresh = Cache(store.directory)
    with pytest.warns(RuntimeWarning, match=f"{KEY}.bin has mode {mode:04o}"):
        check(fresh.get(KEY) is None)


def test_an_exchanged_directory_is_not_walked_to_again(store: Cache, tmp_path: Path) -> None:
    (tmp_path / "kernels").rename(tmp_path / "moved")
    wrong = replace(BINARY, image=b"wrong")
    plant(tmp_path / "kernels", {f"{KEY}.bin": blob(KEY, wrong)})
    store.forget_memory()
    check(store.get(KEY) == BINARY, "from the directory that was judged")
    store.put(key_of(b"b"), BINARY)
    check((tmp_path / "moved" / f"{key_of(b'b')}.bin").exists())


def test_a_directory_that_is_removed_is_made_again(store: Cache, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "kernels")
    store.forget_memory()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(store.get(KEY) is None)
        store.put(KEY, BINARY)
    store.forget_memory()
    check(store.get(KEY) == BINARY)


def test_a_process_that_closed_all_descriptors(store: Cache, tmp_path: Path) -> None:
    """As daemons do after fork: the number is another directory's then, which stays as it is."""
    (tmp_path / "data").mkdir()

    def daemon() -> None:
        os.closerange(3, 256)
        taken = [os.open(tmp_path / "data", os.O_RDONLY) for _ in range(200)]
        warnings.simplefilter("error")
        store.forget_memory()
        check(store.get(KEY) == BINARY)
        store.put(key_of(b"b"), BINARY)
        store._folder = None
        for fd in taken:
            os.fstat(fd)
        os._exit(0)

    pid = os.fork()
    if pid == 0:
        try:
            daemon()
        finally:
            os._exit(1)
    check(os.waitpid(pid, 0)[1] == 0, "the child failed")
    check(not list((tmp_path / "data").iterdir()), "nothing was written elsewhere")
    check(Cache(store.directory).get(key_of(b"b")) == BINARY, "but where it belongs")
    store.forget_memory()
    check(store.get(KEY) == BINARY, "the parent's is untouched")


def test_no_descriptor_is_lost(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    for _ in range(20):
        one = Cache(str(tmp_path / "kernels"))
        one.put(KEY, BINARY)
        check(list(one.entries()) == [(KEY, BINARY)])
        shutil.rmtree(tmp_path / "kernels")
    del one
    check(os.listdir("/proc/self/fd") == before)


def test_a_hit_costs_one_open_and_no_walk(store: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[str]()

    def counted(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **named: object) -> object:
            calls.append(name)
            return real(*args, **named)

        return call

    store.forget_memory()
    for name in ("open", "fstat", "stat", "read", "close", "mkdir", "access", "dup"):
        monkeypatch.setattr(os, name, counted(name, getattr(os, name)))
    check(store.get(KEY) == BINARY)
    check(calls == ["fstat", "open", "fstat", "read", "close"], f"{calls}")


def test_control_characters_of_the_path_are_escaped(tmp_path: Path) -> None:
    odd = tmp_path / "\x1b[2J\x07\nok"
    odd.mkdir(mode=0o777)
    odd.chmod(0o777)
    with pytest.warns(RuntimeWarning, match=r"x1b\[2J") as caught:
        Cache(str(odd)).put(KEY, BINARY)
    check(str(caught[0].message).isprintable(), ascii(str(caught[0].message)))


def test_an_entry_that_is_replaced_while_it_is_read(
    store: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its opening and the look at it: a name less is no second name."""
    real, path = os.open, Path(store.directory, f"{KEY}.bin")

    def opened(name: str, *args: int, **named: int) -> int:
        fd = real(name, *args, **named)
        path.with_name("new").write_bytes(blob(KEY, BINARY))
        path.with_name("new").rename(path)
        return fd

    fresh = Cache(store.directory)
    check(fresh.get(KEY) == BINARY)
    fresh.forget_memory()
    monkeypatch.setattr(os, "open", opened)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(fresh.get(KEY) == BINARY)

"""A stranger's recording: it gives a program no arguments unasked, and a replay writes nothing."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from boards.front import Setup
from drivers import replay
from drivers import taped_program as taped
from drivers.base.errors import Busy
from drivers.claim import place
from drivers.world.memory_state import MemoryState
from tests.boards import recordings
from tests.support import check, run_limited

ROOT = Path(__file__).resolve().parents[2]
ADD = ROOT / "examples/add.py"
SHOWS = f"import sys\nprint(sys.argv[1:])\n{recordings.PROGRAM}"
WRITES = f"""
import os
import sys
seen = os.listdir()
with open("family.png", "w") as file:
    file.write("yours")
print(seen, sys.argv[1:])
{recordings.PROGRAM}"""
AUDIT = r"""
import json, os, sys
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGED = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.chmod",
           "os.chown", "os.truncate", "os.utime", "os.setxattr", "os.mknod", "shutil.")
seen, read = [], []

def hook(event, args):
    if event == "open" and isinstance(args[0], (str, bytes)):
        (seen if isinstance(args[2], int) and args[2] & WRITES else read).append(
            os.fsdecode(args[0]))
    elif event.startswith(CHANGED):
        seen.extend(os.fsdecode(one) for one in args if isinstance(one, (str, bytes)))

sys.addaudithook(hook)
from drivers.replay import main
status = main(sys.argv[1:])
print(json.dumps([status, seen, len(read)]))
"""


def with_arguments(data: bytes, *arguments: str) -> bytes:
    """A recording whose first line has other arguments."""
    first, _, rest = data.partition(b"\n")
    header = {**json.loads(first), "arguments": list(arguments)}
    return json.dumps(header).encode() + b"\n" + rest


@pytest.fixture(scope="module")
def added() -> bytes:
    return recordings.record(Setup("gfx1100"), ADD)


@pytest.fixture
def shows(tmp_path: Path) -> tuple[Path, bytes]:
    """A program that prints its arguments, and a recording of it that has some."""
    program = tmp_path / "program.py"
    program.write_text(SHOWS)
    data = recordings.record(Setup("gfx1100"), program)
    return program, with_arguments(data, "--out", "/home/u/family.png")


def played(tmp_path: Path, data: bytes, *more: str) -> int:
    """The status of the command on a file."""
    file = tmp_path / "recording.jsonl"
    file.write_bytes(data)
    return replay.main([str(file), *more])


def test_arguments_of_a_file_are_shown_and_asked_for(
    shows: tuple[Path, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, data = shows
    capsys.readouterr()
    check(played(tmp_path, data, str(program)) == 2, "refused")
    out, err = capsys.readouterr()
    check("--out /home/u/family.png" in err and "--arguments" in err and "[" not in out, err)
    check(played(tmp_path, data, "--arguments", str(program)) == 0)
    check("['--out', '/home/u/family.png']" in capsys.readouterr().out, "the user asked for them")
    check(played(tmp_path, data, str(program), "--mine", "2", "--board") == 0)
    check("['--mine', '2', '--board']" in capsys.readouterr().out, "the user's own")
    odd = with_arguments(data, "\x1b[2J", "\0")
    check(played(tmp_path, odd, str(program)) == 2)
    err = capsys.readouterr().err
    check("\x1b" not in err and r"\x1b[2J" in err, err)


@pytest.mark.parametrize(
    "value",
    ["/etc/passwd", "a/b", "--out=/x", "..", "--out=..", "~", "~root", "a\\b", "a\0b", "file:///x"],
)
def test_no_example_gets_a_path_from_a_file(
    value: str, added: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = with_arguments(added, "-k", value)
    for more in ([], [str(ADD)]):
        check(played(tmp_path, data, "--arguments", *more) == 2, "refused")
        check("may be a path" in capsys.readouterr().err)


def test_an_example_takes_plain_arguments(
    added: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = with_arguments(added, "-k", "3", "x.png")
    check(played(tmp_path, data) == 2 and "-k 3 x.png" in capsys.readouterr().err)
    check(played(tmp_path, data, "--arguments") == 0, "add.py takes no notice of them")
    check(" 0 differences" in capsys.readouterr().out)


def test_an_example_runs_in_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it writes by a relative name is not in the user's folder, and it finds nothing there."""
    example = tmp_path / "writes.py"
    example.write_text(WRITES)
    made = tmp_path / "made"
    made.mkdir()
    monkeypatch.chdir(made)
    data = with_arguments(recordings.record(Setup("gfx1100"), example), "family.png")
    monkeypatch.setattr(taped, "example", lambda name, sha256: example)
    monkeypatch.setattr(taped, "is_example", lambda program: program.resolve() == example)
    here = tmp_path / "here"
    here.mkdir()
    (here / "family.png").write_text("mine")
    monkeypatch.chdir(here)
    for more in ([], [os.path.relpath(example)]):
        capsys.readouterr()
        check(played(tmp_path, data, "--arguments", *more) == 0)
        out = capsys.readouterr().out
        check("[] ['family.png']" in out and "note: family.png: written to a temp" in out, out)
    check((here / "family.png").read_text() == "mine", "the user's file is as it was")
    check(os.listdir() == ["family.png"] and Path.cwd() == here, "and so is the folder")


def test_a_replay_opens_nothing_for_writing(tmp_path: Path) -> None:
    """But for the cache of compiled kernels, and the empty folder, which is made and removed.

    Recorded by a process of its own, as it is replayed: what this one still has in memory decides
    when memory of a device is free again.
    """
    file = tmp_path / "recording.jsonl"
    command = [sys.executable, "-m", "drivers.record", "-o", str(file), "--board", "gfx1100"]
    run_limited([*command, str(ADD)], cwd=ROOT, capture_output=True, check=True, cpu_s=120)
    places = {name: tmp_path / name for name in ("tmp", "cache", "home", "here", "run")}
    for path in places.values():
        path.mkdir(mode=0o700)
    environ = {
        "PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(ROOT), "HOME": str(places["home"]),
        "XDG_CACHE_HOME": str(places["cache"]), "TMPDIR": str(places["tmp"]),
        "XDG_RUNTIME_DIR": str(places["run"]), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    done = run_limited(
        [sys.executable, "-c", AUDIT, str(file)], env=environ, cwd=places["here"],
        capture_output=True, text=True, check=False, cpu_s=300,
    )  # fmt: skip
    check(done.returncode == 0, done.stderr[-2000:])
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    status, written, read = found
    check(status == 0 and read > 0 and " 0 differences" in done.stdout, done.stdout)
    kept = [path for path in written if path.startswith("/") and
            not path.startswith((f"{places['cache']}/", "/dev/null"))]  # fmt: skip
    check(all(path.startswith(f"{places['tmp']}/") for path in kept), f"written: {kept}")
    cached = {path.name for path in places["cache"].rglob("*")}
    relative = {path for path in written if not path.startswith("/")}
    check(all(name in cached or name.startswith(".tmp-") for name in relative), f"{relative}")
    for name in ("tmp", "home", "here", "run"):
        check(not list(places[name].iterdir()), f"something was left in {name}")


def test_over_usb_locks_are_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = recordings.record(Setup("gfx1100", iface="USB"), ADD)
    monkeypatch.delattr(place, "open_state")
    check(played(tmp_path, data) == 0)
    check(" 0 differences" in capsys.readouterr().out)


def test_a_state_in_memory() -> None:
    state = MemoryState()
    lock = state.lock("usb-1")
    with pytest.raises(Busy):
        state.lock("usb-1")
    lock.release()
    lock.release()
    state.lock("usb-1")
    state.write("b", b"1")
    state.write("a", b"2")
    check(state.names() == ["a", "b"] and state.read("b") == b"1" and state.read("c") is None)
    state.remove("b")
    state.remove("b")
    check(state.names() == ["a"])


@pytest.mark.parametrize("text", ["", "root:x:0:0:root:/root:/bin/bash\n", "[]", "{}", "\x7fELF",
                                  '{"op": "X"}', '{"board": "gfx1100"}'])  # fmt: skip
def test_what_is_neither_a_recording_nor_a_trace(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "passwd"
    file.write_text(text)
    check(replay.main([str(file)]) == 2)
    err = capsys.readouterr().err
    check("is neither a recording nor a trace" in err and "--board" not in err, err)

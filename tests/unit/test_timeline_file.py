"""A timeline's file: complete JSON at any moment, one process's, and nothing but a plain file."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import drivers
from drivers.base.errors import BadArgument, Denied
from drivers.timeline import file as timeline
from drivers.timeline.file import Event, TimelineFile, complete, titled
from tests.support import check

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.json"


@pytest.fixture
def file(path: Path) -> Iterator[TimelineFile]:
    made = TimelineFile(str(path))
    yield made
    made.close()


def events(path: Path) -> list[Any]:
    found = json.loads(path.read_text())
    check(isinstance(found, list), "an array of events")
    return list(found)


def event(number: int) -> Event:
    return complete(f"kernel {number}", "kernel", {}, (1, 1), (number * 1000, number * 1000 + 500))


def test_it_is_whole_after_every_write(file: TimelineFile, path: Path) -> None:
    check(events(path) == [], "nothing yet")
    for number in range(5):
        file.write([event(number), titled("thread_name", (1, 1), 'a "track"')])
        check(len(events(path)) == 2 * (number + 1), path.read_text())
    file.write([])
    wanted = {"name": "kernel 3", "cat": "kernel", "ph": "X", "ts": 3.0, "dur": 0.5, "pid": 1,
              "tid": 1, "args": {}}  # fmt: skip
    check(events(path)[6] == wanted, f"{events(path)[6]}: the format counts microseconds")


def test_a_longer_file_of_before_is_cut(path: Path) -> None:
    path.write_text("x" * 5000)
    made = TimelineFile(str(path))
    made.write([event(1)])
    check(len(events(path)) == 1, path.read_text())
    made.close()


def test_a_second_process_writes_beside_it(file: TimelineFile, path: Path) -> None:
    file.write([event(1)])
    second = TimelineFile(str(path))
    check(second.path == str(path.with_name(f"out.{os.getpid()}.json")), second.path)
    second.write([event(2), event(3)])
    check((len(events(path)), len(events(Path(second.path)))) == (1, 2), "each its own")
    with pytest.raises(BadArgument, match="another process"):
        TimelineFile(str(path))
    second.close()


def test_what_is_no_plain_file_is_refused(tmp_path: Path, path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    path.symlink_to(victim)
    with pytest.raises(Denied, match="plain file"):
        TimelineFile(str(path))
    path.unlink()
    os.link(victim, path)
    with pytest.raises(Denied, match="plain file"):
        TimelineFile(str(path))
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(Denied, match="plain file"):
        TimelineFile(str(path))
    with pytest.raises(BadArgument, match="No such file"):
        TimelineFile(str(tmp_path / "nowhere" / "out.json"))
    check(victim.read_text() == "kept", "nothing was written through a link")


@pytest.mark.parametrize("failure", ["raises", "short"])
def test_a_full_disk_ends_the_timeline_and_not_the_program(
    file: TimelineFile, path: Path, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    file.write([event(1)])
    own = os.pwrite

    def full(fd: int, data: bytes, at: int) -> int:
        if failure == "raises":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return own(fd, data[:10], at)

    monkeypatch.setattr(timeline.os, "pwrite", full)
    with pytest.warns(RuntimeWarning, match="UNBOUND_TRACE ends here"):
        file.write([event(2)])
    file.write([event(3)])
    check(not file.open and path.stat().st_size < 1000, "nothing more is written")


def test_a_file_has_a_most(file: TimelineFile, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MAX_BYTES", 1000)
    for number in range(5):
        file.write([event(number)])
    with pytest.warns(RuntimeWarning, match="1000 bytes"):
        file.write([event(number) for number in range(100)])
    file.write([event(7)])
    check(len(events(path)) == 5 and path.stat().st_size <= 1003, "whole, and no longer")


def test_a_child_writes_nothing(file: TimelineFile, path: Path) -> None:
    file.write([event(1)])
    child = os.fork()
    if not child:
        file.write([event(2)])
        os._exit(1 if file.open else 0)
    _, status = os.waitpid(child, 0)
    file.write([event(3)])
    check(status == 0 and [one["name"] for one in events(path)] == ["kernel 1", "kernel 3"], "")


KILLED = """
import os, signal
import numpy as np
import tensor as xp
from tensor import engine

step = xp.jit(lambda x: xp.exp(x) + 1)
x = xp.asarray(np.ones(1000, np.float32), device="CPU")
for _ in range(200):
    step(x)
    (x * 2).realize()
engine.synchronize("CPU")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_a_whole_file(path: Path) -> None:
    chosen = {"UNBOUND_TRACE": path.name, "DEV": "CPU", "PYTHONPATH": str(ROOT)}
    environ = {**os.environ, **chosen}
    done = subprocess.run(
        [sys.executable, "-c", KILLED], cwd=path.parent, env=environ, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    check(done.returncode == -signal.SIGKILL, done.stderr)
    slices = [one for one in events(path) if one["ph"] == "X"]
    graphed = [one for one in slices if "graph" in one["args"]]
    # the first call of a jitted function runs its kernels one by one
    check((len(graphed), len(slices)) == (199, 400), f"{len(graphed)} of {len(slices)}")


def test_a_device_is_only_traced_where_it_is_asked(path: Path) -> None:
    replaced = {"launch", "compute_queue", "copy_queue", "copy_in", "copy_out", "synchronize",
                "close"}  # fmt: skip
    with drivers.open("CPU", environ={"CPU_THREADS": "1"}) as device:
        check(not replaced & set(vars(device)), "each method is its class's: launches cost nothing")
    with drivers.open("CPU", environ={"UNBOUND_TRACE": str(path), "CPU_THREADS": "1"}) as device:
        check(replaced <= set(vars(device)), f"{vars(device).keys()}")
    check({one["name"] for one in events(path)} == {"process_name", "thread_name"}, "its tracks")


def test_a_file_that_is_refused_leaves_no_device_open(path: Path) -> None:
    path.symlink_to("/dev/null")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(Denied):
        drivers.open("CPU", environ={"UNBOUND_TRACE": str(path)})
    check(len(os.listdir("/proc/self/fd")) == before, "a descriptor is left")

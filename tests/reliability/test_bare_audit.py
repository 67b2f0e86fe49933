"""What a program with a bare GPU does to the machine, as Python's audit events tell it.

A fresh interpreter opens a board's GPU, compiles, works, and ends without closing it. The board
is made of memory: whatever is written, started or connected to is the product's doing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import check, run_limited

ROOT = Path(__file__).resolve().parents[2]
STATE, CACHE = "run", "cache"
LONG_S = 60
PROGRAM = r"""
import atexit, json, os, sys

STARTED = ("subprocess.", "socket.", "os.system", "os.exec", "os.fork", "os.posix_spawn",
           "os.spawn", "os.startfile", "pty.", "urllib.", "http.", "smtplib.", "ftplib.")
CHANGED = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.chmod",
           "os.chown", "os.truncate", "os.utime", "os.setxattr", "os.mknod", "shutil.")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
found = {"started": [], "written": [], "masks": [], "read": 0}

def hook(event, args):
    if event == "open":
        path, mode, flags = args
        if isinstance(flags, int) and flags & WRITES and isinstance(path, (str, bytes)):
            found["written"].append(os.fsdecode(path))
        else:
            found["read"] += 1
    elif event.startswith(STARTED):
        found["started"].append([event, repr(args)[:200]])
    elif event.startswith(CHANGED):
        found["written"] += [os.fsdecode(one) for one in args if isinstance(one, (str, bytes))]

def masked(value):
    found["masks"].append(value)
    return real_umask(value)

real_umask, os.umask = os.umask, masked
sys.addaudithook(hook)

def end():
    slot = board.machine.slot(0)
    found["driver"] = board.readlink(f"/sys/bus/pci/devices/{slot.address}/driver")
    found["violations"] = [str(one) for one in board.violations]
    os.write(1, (json.dumps(found) + "\n").encode())

atexit.register(end)  # before the product's own, so that it runs after them

import numpy as np
from boards.amd.pci_machine import MachineOptions, open_pci_board
from compilers.toolchains import compile_source
from drivers.amd.opening import open_amd
from drivers.choice import choose
from drivers.world.foreign import ForeignWorld
from drivers.world.state import LinuxState
from tests import amd_kernels

iommu, way = sys.argv[1] == "IOMMU", sys.argv[2]
board = open_pci_board("gfx1100", options=MachineOptions(
    iommu=iommu, vram_bytes=256 << 20, amdgpu=True))
environ = {"DEV": "AMD", "AMD_IFACE": "PCI", "UNBOUND_FIRMWARE_MANIFEST": board.firmware}
base = os.environ["XDG_RUNTIME_DIR"]
device = open_amd(ForeignWorld(board), choose(environ), state=LinuxState.open(base))
program = device.load(compile_source(amd_kernels.add(64), "k", "LLVM", "gfx1100", frozenset()))
a = np.arange(64, dtype=np.float32)
x, y = device.alloc(a.nbytes), device.alloc(a.nbytes)
device.copy_in(x, memoryview(a).cast("B"))
device.launch(program, [x, x, y, 64], 1)
b = np.empty_like(a)
device.copy_out(memoryview(b).cast("B"), y)
found["right"] = bool((b == 2 * a).all())
found["held"] = sorted(os.listdir(base + "/unbound"))
if way == "exception":
    raise ValueError("the program is wrong")
if way == "interrupt":
    import signal
    os.kill(os.getpid(), signal.SIGINT)
"""
ENDS = {("IOMMU", "end"): 0, ("VRAM", "exception"): 1, ("IOMMU", "interrupt"): -2}
"""How a program ends, and its exit status."""


def ran(room: Path, grade: str, way: str) -> tuple[int, dict[str, Any]]:
    """Exit status, and what the audit hook saw."""
    places = {name: room / name for name in (STATE, CACHE, "home", "here")}
    for path in places.values():
        path.mkdir(mode=0o700)
    environ = {
        "PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(ROOT), "HOME": str(places["home"]),
        "XDG_RUNTIME_DIR": str(places[STATE]), "XDG_CACHE_HOME": str(places[CACHE]),
        "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": sys.pycache_prefix or "",
    }  # fmt: skip
    command = [sys.executable, *(["-O"] if sys.flags.optimize else []), "-c", PROGRAM, grade, way]
    done = run_limited(
        command, env=environ, cwd=places["here"], capture_output=True, text=True, cpu_s=LONG_S,
        check=False,
    )  # fmt: skip
    check(done.stdout.count("\n") == 1, f"{done.returncode}: {done.stdout}{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    found["reported"] = done.stderr[-2000:]
    return done.returncode, found


@pytest.mark.parametrize(("grade", "way"), ENDS)
def test_a_whole_program(grade: str, way: str, tmp_path: Path) -> None:
    """It starts nothing, connects to nothing, writes to its two places, gives the GPU back."""
    status, found = ran(tmp_path, grade, way)
    check(status == ENDS[grade, way], f"{status}: {found}")
    check(found["right"] and not found["violations"], f"{found['violations']}")
    check(found["started"] == [] and found["masks"] == [], f"{found['started']} {found['masks']}")
    check(found["driver"].endswith("/amdgpu"), f"at the end {found['driver']} has the GPU")
    own = tuple(f"{tmp_path / name}/" for name in (STATE, CACHE))
    absolute = {path for path in found["written"] if path.startswith("/")}
    outside = {path for path in absolute if not path.startswith((*own, "/dev/null"))}
    check(not outside, f"written: {sorted(outside)}")
    relative = set(found["written"]) - absolute
    names = set(found["held"]) | {name for name in relative if name.startswith(("pci-", ".tmp-"))}
    check(relative - {"unbound"} <= names | cached(tmp_path), f"written: {sorted(relative)}")
    check(any(name.endswith(".claim") for name in found["held"]), "there was a record")
    check(found["read"] > 0 and found["written"] != [], "the hook saw nothing")
    check(not list((tmp_path / "here").iterdir()), "something was written where it ran")
    check(not list((tmp_path / "home").iterdir()), "something was written at home")
    left = [path.name for path in (tmp_path / STATE).rglob("*") if path.is_file()]
    check(all(name.endswith(".lock") for name in left), f"left: {left}")


def cached(room: Path) -> set[str]:
    """Names below the cache."""
    return {path.name for path in (room / CACHE).rglob("*")}


def test_the_hook_sees_what_must_not_be(tmp_path: Path) -> None:
    """The same net around a program that does it all."""
    text = PROGRAM[: PROGRAM.index("def end():")] + (
        "import os, socket, subprocess\n"
        "subprocess.run(['true']); os.system('true'); os.umask(0o22)\n"
        "socket.socket(socket.AF_UNIX).close()\n"
        "open('here', 'w').close(); os.mkdir('there'); os.chmod('there', 0o700)\n"
        "print(json.dumps(found))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    started = {event for event, _ in found["started"]}
    check({"subprocess.Popen", "os.system", "socket.__new__"} <= started, f"{started}")
    check(found["masks"] == [0o22] and {"here", "there"} <= set(found["written"]), f"{found}")

"""Damaged sysfs and /proc under a claim's plan: our errors, refusals or a plan, nothing else."""

from __future__ import annotations

import errno
import os
import random
import time
from pathlib import Path

from boards.amd.pci.firmware_set import MANIFEST, world_files
from drivers.amd.opening import open_amd
from drivers.base.errors import DeviceError
from drivers.choice import choose
from drivers.claim.claim import plan
from drivers.claim.report import plan_lines
from drivers.pci.functions import gpus
from drivers.world.state import LinuxState
from tests.fake_machine import FakeMachine
from tests.mutation import CPU_LIMIT_S, MUTATIONS
from tests.pci_tree import GPU, PciTree, desktop
from tests.support import check

WORDS = (
    b"",
    b"\n",
    b"-1",
    b"0x",
    b"99999999999999999999",
    b"../../..",
    b"\0",
    b"\xff\xfe",
    b"a" * 300,
)
INSERTED = b"0123456789abcdefx:.-/ \n\0\xff"


class Memory(FakeMachine):
    """A tree of files held in memory, whose directories are known beforehand."""

    def __init__(self, files: dict[str, bytes | str], folders: dict[str, list[str]]) -> None:
        super().__init__(files)
        self.folders = folders

    def listdir(self, path: str) -> list[str]:
        if path not in self.folders:
            raise self._fail(errno.ENOENT, f"list {path}")
        return self.folders[path]

    def readlink(self, path: str) -> str:
        if path not in self.files:
            raise self._fail(errno.ENOENT, f"readlink {path}")
        return super().readlink(path)


def loaded(root: Path) -> tuple[dict[str, bytes | str], dict[str, list[str]]]:
    """The files and directories of a made-up machine."""
    files: dict[str, bytes | str] = {}
    folders: dict[str, list[str]] = {}
    for folder, inside, names in os.walk(root):
        shown = folder.removeprefix(str(root)) or "/"
        folders[shown] = sorted([*inside, *names])
        for name in [*names, *inside]:
            path = Path(folder) / name
            if path.is_symlink():
                files[f"{shown}/{name}"] = os.readlink(path)
            elif path.is_file():
                files[f"{shown}/{name}"] = path.read_bytes()
    return files, folders


def damaged(chance: random.Random, data: bytes) -> bytes:
    """Something else than `data`."""
    how = chance.randrange(4)
    at = chance.randrange(len(data) + 1)
    if how == 0:
        return chance.choice(WORDS)
    if how == 1:
        return data[:at]
    if how == 2:
        return data[:at] + bytes([chance.choice(INSERTED)]) + data[at:]
    return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]


def machine(root: Path) -> PciTree:
    """A free GPU, and more files that are looked at."""
    tree = desktop(root)
    tree.put("/proc/iomem", f"80-8f : PCI\n  80-83 : {GPU}\n    80-81 : amdgpu\n")
    tree.put("/sys/class/vtconsole/vtcon1/name", "(M) frame buffer device")
    tree.put("/sys/class/vtconsole/vtcon1/bind", "0")
    tree.put(f"/sys/bus/pci/devices/{GPU}/graphics/fb1/name", "amdgpudrmfb")
    tree.put(f"/sys/bus/pci/devices/{GPU}/revision", "0xc8")
    return tree


def changed(chance: random.Random, data: bytes | str) -> bytes | str:
    """A damaged file, or a link that leads elsewhere."""
    if isinstance(data, bytes):
        return damaged(chance, data)
    return damaged(chance, data.encode()).decode("latin-1")


def test_only_our_errors_escape_a_plan(tmp_path: Path) -> None:
    machine(tmp_path)
    files, folders = loaded(tmp_path)
    kept = [path for path in files if GPU in path or path.startswith(("/proc", "/sys/class"))]
    check(len(kept) > 20 and not plan(Memory(files, folders), GPU, lambda _: True).refusals)
    chance, outcomes = random.Random(7), {"error": 0, "refused": 0, "planned": 0}
    for _ in range(MUTATIONS):
        path = chance.choice(kept)
        before = files[path]
        files[path] = changed(chance, before)
        world, started = Memory(files, folders), time.process_time()
        try:
            found = plan(world, GPU, lambda _: True)
            plan_lines(found)
            gpus(world)
            outcomes["refused" if found.refusals else "planned"] += 1
        except DeviceError:
            outcomes["error"] += 1
        check(time.process_time() - started < CPU_LIMIT_S, path)
        check(not world.touched, path)
        files[path] = before
    check(min(outcomes.values()) > MUTATIONS // 100, str(outcomes))


def test_only_our_errors_escape_an_opening(tmp_path: Path) -> None:
    """AMD_IFACE=PCI, up to the first write; 20,000 were run by hand."""
    machine(tmp_path / "machine")
    files, folders = loaded(tmp_path / "machine")
    kept = [path for path in files if GPU in path or path.startswith(("/proc", "/sys/class"))]
    files |= world_files(["gfx1100"])
    choice = choose({"DEV": "AMD", "AMD_IFACE": "PCI", "UNBOUND_FIRMWARE_MANIFEST": MANIFEST})
    chance, state = random.Random(8), LinuxState.open(str(tmp_path))
    errors = writes = 0
    for _ in range(MUTATIONS // 20):
        path = chance.choice(kept)
        before, files[path] = files[path], changed(chance, files[path])
        world, started = Memory(files, folders), time.process_time()
        try:
            open_amd(world, choice, state=state)
        except DeviceError:
            errors += 1
        except AssertionError:  # where the machine would be changed: it was not refused
            writes += 1
            check(len(world.touched) > 0, path)
        check(time.process_time() - started < CPU_LIMIT_S, path)
        files[path] = before
        state.remove(f"pci-{GPU}.claim")
    check(min(errors, writes) > MUTATIONS // 800, f"{errors} errors, {writes} would have gone on")

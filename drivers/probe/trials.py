"""Whether kernels can be built and run on devices behind libraries; what worked is remembered.

In the user's cache, below "tried", an empty file stands for one device on which a kernel ran. Its
name is a hash of all that it depends on: the library's file, the device's title with the driver's
version, the processor, the kernel and this stack. A failure is tried anew each time.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from drivers.base.answers import Ask
from drivers.base.contracts import World
from drivers.base.errors import BadChoice, Denied
from drivers.choice import choose
from drivers.machine.checks import Packages
from drivers.machine.text import fields, first_line
from drivers.world import owned

FOLDER: Final = "tried"
MOST: Final = 256
"""Files; beyond that all begin anew."""
SURVEY: Final = "drivers.probe.trial:survey"
_CPUINFO_BYTES: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class Trials:
    """A `drivers.machine.checks.Trial` of this machine."""

    world: World
    environ: Mapping[str, str]
    packages: Packages
    ask: Ask

    def __call__(self, kind: str, devices: Sequence[tuple[str, str]]) -> dict[int, tuple[str, str]]:
        """Try those that are not remembered. Raises: DeviceError."""
        folder = self._folder()
        keys = [self._key(kind, title, library) for title, library in devices]
        known = set(folder.names()) if folder is not None else set()
        found = {number: ("", "") for number, key in enumerate(keys) if key in known}
        names = {f"{kind}:{number}": number for number in range(len(keys)) if number not in found}
        if not names:
            return found
        answers = self.ask(SURVEY, {"names": list(names)})
        for one in answers.facts:
            number, why = names.get(one.get("name", "")), one.get("why", "it does not say why")
            if number is None:
                continue
            found[number] = why, one.get("hint", "")
            if folder is not None and not why:
                _remember(folder, keys[number])
        for lost in answers.lost:
            if lost.name in names:
                found[names[lost.name]] = str(lost), "update its driver, or choose another device"
        return found

    def _folder(self) -> owned.Folder | None:
        """Where it is remembered; None where this user has no such place (the doctor says why)."""
        try:
            cache = choose(self.environ).cache_dir
            return owned.Folder(os.path.join(cache, FOLDER)) if cache else None
        except (OSError, Denied, BadChoice):
            return None

    def _key(self, kind: str, title: str, library: str) -> str:
        parts = [
            kind, title, library, *_file(library), _processor(self.world),
            first_line(self.world, "/proc/sys/kernel/osrelease"),
            self.packages("unbound") or "", self.packages("numpy") or "", sys.version,
        ]  # fmt: skip
        return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()


def _file(path: str) -> tuple[str, str]:
    """Size and time of a library; empty for one that only the loader finds."""
    try:
        facts = os.stat(path)
    except OSError:
        return "", ""
    return str(facts.st_size), str(facts.st_mtime_ns)


def _processor(world: World) -> str:
    """The processor's name: runtimes for processors depend on it."""
    text = world.read("/proc/cpuinfo", _CPUINFO_BYTES) if world.exists("/proc/cpuinfo") else b""
    return dict(fields(text.partition(b"\n\n")[0].decode(errors="replace"))).get("model name", "")


def _remember(folder: owned.Folder, key: str) -> None:
    """Make the file. Where that fails, the next command tries once more."""
    try:
        names = folder.names()
        for name in names if len(names) >= MOST else ():
            os.unlink(name, dir_fd=folder.fd)
        fd, _ = owned.open_file(key, os.O_WRONLY | os.O_CREAT, folder.fd, folder.path)
        os.close(fd)
    except (OSError, Denied):
        return

"""Debian packages without being root: apt with directories of its own, on the machine's mirror.

apt checks the archive's signature and every file's hash; packages are unpacked, not installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

from tests.support import run_limited

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
TIME_LIMIT_S = 300
CONTENTS = "packages"
"""File in a fetched folder: its day, and each package with its version."""
_BELOW = {"experimental": ("sid",)}
"""Suites that others need to be whole."""


class CannotRun(Exception):
    """This machine lacks a requirement of the virtual machine; the message names it."""


def command(
    arguments: Sequence[str],
    environ: dict[str, str] | None = None,
    folder: Path | None = None,
    *,
    limit_s: float = TIME_LIMIT_S,
) -> str:
    """Run a program. Raises: CannotRun with the end of its output."""
    try:
        done = run_limited(
            arguments, env=environ, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, cpu_s=limit_s, check=False,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise CannotRun(f"there is no program {arguments[0]!r}") from error
    except subprocess.TimeoutExpired as error:
        raise CannotRun(f"{arguments[0]} took more than {limit_s:.0f} s") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise CannotRun(f"{' '.join(arguments[:3])} failed: {' / '.join(said)}")
    return done.stdout


def mirror() -> str:
    """The Debian mirror that this machine's own apt sources name. Raises: CannotRun."""
    listed = command(["apt-get", "indextargets", "--format", "$(REPO_URI)"]).split()
    for uri in listed:
        if uri.rstrip("/").rsplit("/", 1)[-1] == "debian":
            return uri.rstrip("/")
    raise CannotRun("the apt sources of this machine name no Debian mirror: run it on Debian")


class Archive:
    """One suite of the mirror: its main component, or another one.

    Of `experimental`, which is not whole, packages are taken first, and the rest from sid.
    """

    def __init__(self, folder: Path, suite: str, component: str = "main") -> None:
        self.folder, self.suite, self.component = folder, suite, component
        self._environ = {**os.environ, "APT_CONFIG": str(folder / "apt.conf"), "LC_ALL": "C"}

    def update(self) -> None:
        """Fetch and check the suite's lists. Raises: CannotRun."""
        if not KEYRING.exists():
            raise CannotRun(f"no {KEYRING}: install debian-archive-keyring")
        for name in ("state/lists/partial", "cache/archives/partial"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "status").touch()
        form = f"deb [signed-by={KEYRING} arch=amd64] {mirror()} {{}} {self.component}\n"
        suites = [self.suite, *_BELOW.get(self.suite, ())]
        (self.folder / "sources.list").write_text("".join(map(form.format, suites)))
        settings = {
            "Dir::State": self.folder / "state",
            "Dir::State::status": self.folder / "status",
            "Dir::Cache": self.folder / "cache",
            "Dir::Etc::sourcelist": self.folder / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "APT::Architecture": "amd64",
            "APT::Default-Release": self.suite,
            "APT::Sandbox::User": "",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
        }
        lines = [f'{name} "{value}";\n' for name, value in settings.items()]
        (self.folder / "apt.conf").write_text("".join(lines))
        self._apt("apt-get", "-qq", "update")

    def _apt(self, *arguments: str, folder: Path | None = None) -> str:
        return command(arguments, self._environ, folder)

    def fetch_whole(self, package: str, into: Path, *more: str) -> list[str]:
        """A package, and more, with everything they depend on, unpacked; names and versions.

        Raises: CannotRun.
        """
        cache = self.folder / "cache" / "archives"
        for old in cache.glob("*.deb"):
            old.unlink()
        options = ["-qq", "-y", "-d", "--no-install-recommends"]
        self._apt("apt-get", *options, "install", package, *more)
        return self._unpack(sorted(cache.glob("*.deb")), into)

    def fetch_alone(self, packages: Sequence[str], into: Path) -> list[str]:
        """Packages without what they depend on, unpacked; names and versions. Raises: CannotRun."""
        found: list[str] = []
        for package in packages:
            folder = self.folder / "alone" / package
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            self._apt("apt-get", "-qq", "download", package, folder=folder)
            found += self._unpack(sorted(folder.glob("*.deb")), into)
        return found

    def fetch_source(self, package: str, into: Path) -> list[str]:
        """A source package as packed; name and version. Raises: CannotRun."""
        sources = self.folder / "sources.list"
        sources.write_text(sources.read_text().replace("deb [", "deb-src [", 1))
        self._apt("apt-get", "-qq", "update")
        into.mkdir(parents=True, exist_ok=True)
        self._apt("apt-get", "-qq", "source", "--download-only", package, folder=into)
        (described,) = into.glob("*.dsc")
        lines = described.read_text().splitlines()
        (version,) = {line.split()[1] for line in lines if line.startswith("Version: ")}
        return [f"{package} {version} (source)"]

    def depends(self, package: str, prefix: str) -> list[str]:
        """What a package depends on, of a certain name."""
        lines = self._apt("apt-cache", "depends", package).splitlines()
        named = [line.split(":", 1)[1].strip() for line in lines if "Depends:" in line]
        return [name for name in named if name.startswith(prefix)]

    def _unpack(self, packages: Sequence[Path], into: Path) -> list[str]:
        into.mkdir(parents=True, exist_ok=True)
        for package in packages:
            command(["dpkg-deb", "-x", str(package), str(into)])
        form = ["-W", "--showformat=${Package} ${Version}"]
        return [command(["dpkg-deb", *form, str(package)]).strip() for package in packages]


def fetched(
    folder: Path,
    suite: str,
    fetch: Callable[[Archive, Path], list[str]],
    *,
    component: str = "main",
    refresh: bool = False,
) -> list[str]:
    """A folder with packages, complete or absent; the packages, each with version and day.

    Raises: CannotRun, with the old folder unchanged.
    """
    contents = folder / CONTENTS
    if refresh or not contents.exists():
        print(f"fetching {folder.name} from Debian {suite}", file=sys.stderr, flush=True)
        fresh = folder.with_name(f"{folder.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        archive = Archive(folder.with_name(f"apt-{folder.name}"), suite, component)
        archive.update()
        packages = fetch(archive, fresh)
        (fresh / CONTENTS).write_text("\n".join([date.today().isoformat(), *packages]))
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
        shutil.rmtree(archive.folder, ignore_errors=True)
    day, *packages = contents.read_text().splitlines()
    return [f"{package}, fetched on {day}" for package in packages]

"""Debian's ROCr and rocminfo in front of the KFD board, chip by chip."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.witness import build
from tests.witness.expected import Expected, surprises
from tests.witness.roots import Root, cache_folder, open_root
from tests.witness.session import Run, Setup, run

SUITES = {"gfx1030": "bookworm", "gfx1100": "trixie", "gfx942": "trixie", "gfx1201": "sid"}
"""Which Debian's ROCr meets which chip: 5.2.3 knows none of the later ones, 6.1.2 no gfx12."""
_PACKAGES = ("rocminfo", "libhsa-runtime-dev")
_RUNTIME, _ROCMINFO = "libhsa-runtime64-1", "rocminfo"
_COMPUTE_UNITS = {"gfx1030": 80, "gfx1100": 96, "gfx942": 304, "gfx1201": 64}
"""src: AMD's data sheets of the RX 6900 XT, RX 7900 XTX, MI300X and RX 9070 XT"""
CHECKS, PEER_CHECKS = 30, 32
"""Results that the client prints, of which each has to be right; two rounds, or two GPUs."""


@dataclass
class Result:
    """One run and what was wrong with it."""

    name: str
    run: Run
    wrong: list[str] = field(default_factory=list)
    checks: int | None = None
    """Of a program that does not print "ok" for each."""

    def __str__(self) -> str:
        count = len(self.run.said("ok")) if self.checks is None else self.checks
        outcome = f"WRONG: {'; '.join(self.wrong)}" if self.wrong else "right"
        return f"{self.name:28} {self.run.seconds:6.1f} s  {count:3} checks  {outcome}"


@dataclass(frozen=True)
class Client:
    """What runs in front of one chip."""

    setup: Setup
    program: Path
    kernels: Path

    @property
    def version(self) -> str:
        """Of the runtime."""
        return self.setup.root.version(_RUNTIME)

    @property
    def words(self) -> str:
        """Versions, for the report."""
        root = self.setup.root
        info = root.version(_ROCMINFO)
        return f"{self.setup.chip}: ROCr {self.version}, rocminfo {info} of Debian {root.suite}"

    def go(self, mode: str, gpus: int = 1, limit_s: float = 300) -> Run:
        """Our client in one of its modes."""
        words = mode, str(self.kernels)
        return run(self.setup, self.program, *words, gpus=gpus, limit_s=limit_s)


def prepare(chip: str, *, refresh: bool = False) -> Client:
    """Fetch and build what a chip needs. Raises: CannotRun."""
    root = open_root("rocr", SUITES[chip], _PACKAGES, refresh=refresh)
    folder = cache_folder() / "build"
    folder.mkdir(parents=True, exist_ok=True)
    program = build.client(folder, root.folder, _runtime_folder(root))
    setup = Setup(root, chip, build.shim(folder), cache_folder() / f"run-{chip}")
    return Client(setup, program, build.kernels(folder, chip))


def _runtime_folder(root: Root) -> Path:
    return next(path for path in root.libraries if (path / "libhsa-runtime64.so.1").exists())


def results(client: Client) -> Iterator[Result]:
    """rocminfo, one GPU, two GPUs."""
    yield _rocminfo(client)
    yield checked("one GPU, twice", client.go("all"), CHECKS)
    yield checked("two GPUs", client.go("peers", gpus=2), PEER_CHECKS)


def checked(name: str, done: Run, wanted: int, own: Iterable[Expected] = ()) -> Result:
    """A run of a client that prints that many results."""
    result = Result(name, done)
    result.wrong += done.said("WRONG")
    right = len(done.said("ok"))
    if right != wanted:
        result.wrong.append(f"{right} results of {wanted}")
    settle(result, own)
    return result


def settle(result: Result, own: Iterable[Expected] = ()) -> None:
    """What holds for every run: exit status, no queue stopped, nothing unexplained."""
    done = result.run
    if done.code:
        result.wrong.append(f"exit status {done.code}: {' / '.join(done.lines[-3:])}")
    result.wrong += [f"queue stopped: {text}" for text in done.report.faults]
    result.wrong += surprises(done.report, own)


def _rocminfo(client: Client) -> Result:
    setup = client.setup
    done = run(setup, setup.root.folder / "usr/bin/rocminfo")
    result = Result("rocminfo", done, wrong_agent(setup.chip, "\n".join(done.lines)))
    settle(result)
    return result


def wrong_agent(chip: str, text: str) -> list[str]:
    """What is wrong with the agent of a chip in what rocminfo printed."""
    agent = re.search(rf"\n  Name: +{chip}\s.*?(?=\n\*+\s*\nAgent|\Z)", text, re.DOTALL)
    if agent is None:
        return [f"no agent {chip}"]
    units = re.search(r"Compute Unit: +(\d+)", agent[0])
    if units is None or int(units[1]) != _COMPUTE_UNITS[chip]:
        return [f"compute units: {units and units[1]}"]
    return []

"""`python -m drivers.probe` beside libraries that abort, exit, crash or hang, and kernels tried."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from drivers.base.answers import Answers, Begun, Fact, Lost
from drivers.base.contracts import World
from drivers.base.errors import DeviceError
from drivers.cl.checks import opencl
from drivers.cl.libraries import LOADER
from drivers.cl.survey import survey
from drivers.machine.checks import Machine, Result
from drivers.probe.__main__ import this_machine
from drivers.probe.trial import _compute
from drivers.probe.trials import MOST, SURVEY, Trials
from drivers.world import child
from drivers.world.linux import LinuxWorld
from tests.c_compiler import any_compiler
from tests.fake_machine import X86, FakeMachine
from tests.support import check

ROOT = Path(__file__).resolve().parents[2]
SHORT_S = 3.0
BAD = """
char *getenv(const char *); void abort(void); void exit(int);
__attribute__((constructor)) static void ends(void) {
    const char *how = getenv("BAD");
    if (!how) return;
    if (*how == 'a') abort();
    if (*how == 'e') exit(3);
    if (*how == 's') *(volatile int *)0 = 1;
    if (*how == 'h') for (;;);
}
"""
ENDS = {
    "abort": "ended the process that loaded it (SIGABRT)",
    "exit": "ended the process that loaded it (exit status 3)",
    "segv": "ended the process that loaded it (SIGSEGV)",
    "hang": f"did not answer in {SHORT_S:g} s when it was loaded",
}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages with one vendor's library, as PoCL's wheel has it."""
    folder = tmp_path_factory.mktemp("bad")
    library = folder / "libbad.so"
    options = ("-shared", "-fPIC", "-O1", "-nostdlib")  # the process has a C library already
    any_compiler().run(BAD, folder, *options, "-o", str(library))
    icd = folder / "x-packages/pyopencl/.libs/bad.icd"
    icd.parent.mkdir(parents=True)
    icd.write_text(str(library))
    return folder / "x-packages"


@pytest.mark.parametrize("how", ENDS)
def test_a_library_that_ends_its_process_is_named(
    how: str, packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAD", how)
    monkeypatch.setattr(sys, "path", [*sys.path, str(packages)])
    ask = partial(child.ask, patience_s=SHORT_S if how == "hang" else None)
    found = opencl(Machine(LinuxWorld(), os.environ, lambda name: None, ask))
    library = str(packages.parent / "libbad.so")
    check(not found.ready and f"{library} {ENDS[how]}" in found.reason, str(found))
    fix = f"update or remove {library}: a program with CL=1 loads it, too"
    check(found.advice == fix, found.advice)


def test_the_command_goes_on(packages: Path) -> None:
    code = (
        f"import runpy, sys; sys.path.append({str(packages)!r}); sys.argv = ['x', '--json']; "
        "runpy.run_module('drivers.probe', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "BAD": "abort"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    check((done.returncode, done.stderr) == (0, ""), done.stderr)
    rows = {row["kind"]: row for row in json.loads(done.stdout)["devices"]}
    check(rows["CPU"]["usable"] and not rows["CL"]["usable"], str(rows))
    check("libbad.so ended the process that loaded it (SIGABRT)" in rows["CL"]["reason"])


def test_where_the_loader_ends_its_process_each_vendor_is_asked() -> None:
    files = {
        **X86, "/etc/OpenCL/vendors/a.icd": b"liba.so.1\n", "/etc/OpenCL/vendors/b.icd": b"/b.so",
        "/etc/OpenCL/vendors/readme.txt": b"no", "/etc/OpenCL/vendors/c.icd": b"x" * 5000,
    }  # fmt: skip
    world = FakeMachine(files)
    begun = [[step.name for step in survey(world, {"skip": lost, "lost": lost})
              if isinstance(step, Begun)] for lost in ([], [LOADER])]  # fmt: skip
    check(LOADER in begun[0] and "liba.so.1" not in begun[0], str(begun))
    check(LOADER not in begun[1] and begun[1][-2:] == ["liba.so.1", "/b.so"], str(begun))
    facts = [step for step in survey(world, {"skip": [], "lost": [LOADER]})
             if isinstance(step, Fact) and "c.icd is longer" in step.values["missing"]]  # fmt: skip
    check(len(facts) == 1, "the file that cannot be read is named")


class Asked:
    """Answers that are given, and what was asked for."""

    def __init__(self, *answers: Answers) -> None:
        self.answers, self.names = list(answers), list[list[str]]()

    def __call__(self, survey: str, request: Mapping[str, Any]) -> Answers:
        check(survey == SURVEY, survey)
        self.names.append(request["names"])
        return self.answers.pop(0)


def trials(ask: Any, cache: Path | None, world: World | None = None) -> Trials:
    environ = {"UNBOUND_CACHE": str(cache)} if cache else {}
    return Trials(world or FakeMachine(X86), environ, {"unbound": "1"}.get, ask)


def ran(name: str, why: str = "") -> dict[str, str]:
    return {"name": name, "why": why, "hint": "do this" if why else ""}


DEVICES: Sequence[tuple[str, str]] = [("one", "/lib/a.so"), ("two", "/lib/a.so")]


def test_what_worked_is_remembered_and_a_failure_is_tried_again(tmp_path: Path) -> None:
    ask = Asked(
        Answers([ran("CL:0"), ran("CL:1", "no compiler")]), Answers([ran("CL:1")]), Answers()
    )
    found = trials(ask, tmp_path)("CL", DEVICES)
    check(found == {0: ("", ""), 1: ("no compiler", "do this")}, str(found))
    found = trials(ask, tmp_path)("CL", DEVICES)
    check(found == {0: ("", ""), 1: ("", "")}, str(found))
    trials(ask, tmp_path)("CL", DEVICES)
    check(ask.names == [["CL:0", "CL:1"], ["CL:1"]], str(ask.names))


def test_each_thing_that_a_trial_depends_on_makes_it_anew(tmp_path: Path) -> None:
    library = tmp_path / "lib.so"
    library.write_bytes(b"1")
    cpu = {**X86, "/proc/cpuinfo": b"model name\t: another\nflags\t: lm\n"}
    kernel = {**X86, "/proc/sys/kernel/osrelease": b"6.13.0\n"}
    makes = [
        lambda: ("CL", [("one", str(library))], X86),
        lambda: ("WEBGPU", [("one", str(library))], X86),
        lambda: ("CL", [("one, driver 2", str(library))], X86),
        lambda: ("CL", [("one", "/lib/b.so")], X86),
        lambda: ("CL", [("one", str(library))], cpu),
        lambda: ("CL", [("one", str(library))], kernel),
    ]
    ask = Asked(*(Answers([ran(f"{make()[0]}:0")]) for make in makes), Answers([ran("CL:0")]))
    for make in makes:
        kind, devices, files = make()
        trials(ask, tmp_path / "cache", FakeMachine(files))(kind, devices)
    library.write_bytes(b"22")
    trials(ask, tmp_path / "cache")("CL", [("one", str(library))])
    check(not ask.answers, f"{len(ask.names)} of {len(makes) + 1} were tried")
    check(len(list((tmp_path / "cache/tried").iterdir())) == len(makes) + 1, "one file each")


def test_there_is_a_limit_to_what_is_remembered(tmp_path: Path) -> None:
    (tmp_path / "tried").mkdir(mode=0o700)
    for number in range(MOST):
        (tmp_path / "tried" / str(number)).touch(0o600)
    trials(Asked(Answers([ran("CL:0")])), tmp_path)("CL", DEVICES[:1])
    check(len(list((tmp_path / "tried").iterdir())) == 1, "all begin anew")


def test_without_a_place_to_remember_each_time_is_a_trial(tmp_path: Path) -> None:
    loose = tmp_path / "loose"
    loose.mkdir()
    loose.chmod(0o777)
    for cache in (None, loose, Path("/proc/nowhere")):
        ask = Asked(Answers([ran("CL:0")]), Answers([ran("CL:0")]))
        for _ in range(2):
            check(trials(ask, cache)("CL", DEVICES[:1]) == {0: ("", "")})
        check(len(ask.names) == 2, str(cache))


def judged(answers: Answers, *outcomes: tuple[str, str]) -> Result:
    """The CL row of a machine with a loader, where trials end so."""
    files = {**X86, "/usr/lib/libOpenCL.so.1": b"", "/etc/OpenCL/vendors/x.icd": b""}
    tried = dict(enumerate(outcomes))
    return opencl(Machine(
        FakeMachine(files), {}, {}.get, lambda survey, request: answers, lambda kind, seen: tried
    ))  # fmt: skip


def device(title: str, library: str = "libOpenCL.so.1") -> dict[str, str]:
    return {"library": library, "title": title, "platform": "P", "version": "3.0"}


def test_usable_means_that_a_kernel_ran() -> None:
    both = [device("one"), device("two"), device("two, too", "/lib/vendor.so")]
    found = judged(Answers(both), ("", ""), ("no compiler", "update it"))
    check(found.ready and found.reason == "one; two: no compiler", str(found))
    check(found.details["tried"] == {"one": "a kernel was built and run", "two": "no compiler"})
    found = judged(Answers(both), ("rejected", "update it"), ("no compiler", "or that"))
    check(not found.ready and found.advice == "update it", str(found))
    lost = Answers(both, [Lost("/lib/x.so", "ended it")], "last words")
    found = judged(lost, ("", ""))
    check(not found.ready and found.reason == "/lib/x.so ended it; one; two", str(found))
    check((found.details["lost"], found.details["said"]) == (["/lib/x.so ended it"], "last words"))


def test_a_trial_computes() -> None:
    _compute("CPU")
    with pytest.raises(DeviceError):
        _compute("CL:99")


def test_a_trial_that_ends_its_process_is_of_that_device_alone() -> None:
    lost = Answers([ran("CL:1")], [Lost("CL:0", "ended the process that computed on it (SIGSEGV)")])
    found = trials(Asked(lost), None)("CL", DEVICES)
    check(found[0][0] == "CL:0 ended the process that computed on it (SIGSEGV)", str(found))
    check(found[1] == ("", ""), str(found))


def test_this_machine_asks_in_processes_of_their_own() -> None:
    machine = this_machine({})
    check(machine.ask is child.ask and machine.trial is not None)

"""The console scripts of an installation, and that a wheel has every file that code reads."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path

import pytest

from tests.support import check
from unbound import scripts

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SCRIPTS = PROJECT["project"]["scripts"]


def test_every_command_has_its_script() -> None:
    wanted = {f"unbound-{name}" for name in [*scripts.COMMANDS, scripts.SMI]}
    check(set(SCRIPTS) == wanted, str(set(SCRIPTS) ^ wanted))
    check(set(SCRIPTS.values()) == {"unbound.scripts:main"})


@pytest.mark.parametrize("name", [*scripts.COMMANDS, scripts.SMI])
def test_a_script_is_its_module(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", [f"/usr/bin/unbound-{name}", "--help"])
    monkeypatch.setattr("sys.excepthook", None)
    with pytest.raises(SystemExit, match="0"):
        scripts.main()
    check(capsys.readouterr().out.startswith("usage: "))
    if name != scripts.SMI:
        module = scripts.COMMANDS[name].partition(":")[0]
        check(import_module(module).__file__ is not None)


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modules whose command was called, from now on."""
    asked: list[str] = []

    def replace(module: str) -> None:
        def command(words: list[str]) -> int:
            asked.append(module)
            return 0

        monkeypatch.setattr(import_module(module), "command", command)

    for module in ("drivers.amd.smi", "drivers.nv.smi"):
        replace(module)
    return asked


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["--board", "ga102"], "drivers.nv.smi"),
        (["--json", "--board=gfx1100"], "drivers.amd.smi"),
        (["--vendor", "nv", "--json"], "drivers.nv.smi"),
        (["--vendor", "AMD"], "drivers.amd.smi"),
    ],
)
def test_smi_is_of_the_vendor_that_is_asked_for(
    arguments: list[str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = recorded(monkeypatch)
    check(scripts.smi(arguments) == 0 and asked == [place], str(asked))


def test_smi_of_the_gpus_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = recorded(monkeypatch)
    for nodes, expected in (
        ({"/dev/nvidiactl"}, ["drivers.nv.smi"]),
        ({"/dev/kfd"}, ["drivers.amd.smi"]),
        (set(), ["drivers.amd.smi", "drivers.nv.smi"]),
    ):
        monkeypatch.setattr(scripts, "_is_there", nodes.__contains__)
        asked.clear()
        check(scripts.smi([]) == 0 and asked == expected, f"{nodes}: {asked}")


def test_smi_of_a_vendor_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        scripts.smi(["--vendor", "XYZ"])
    error = capsys.readouterr().err  # Python 3.12 quotes the names no longer
    check("AMD" in error and "NV" in error, error)


def test_a_wheel_has_every_data_file_of_its_packages() -> None:
    """What git has beside Python code in a package is in package-data, so that it is installed."""
    tool = PROJECT["tool"]["setuptools"]
    tops = [pattern.removesuffix("*") for pattern in tool["packages"]["find"]["include"]]
    found = None
    if shutil.which("git") is not None:
        command = ["git", "ls-files", "--", *tops]
        found = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if found is None or found.returncode:  # also in a checkout that belongs to another user
        pytest.skip("no git, or not a checkout of it")
    listed = found.stdout.splitlines()
    data = [name for name in listed if not name.endswith(".py")]
    check(len(data) > 20, f"{len(data)} data files")
    lost = [name for name in data if not _packaged(name, tool["package-data"])]
    check(not lost, f"not in package-data: {lost}")


def _packaged(name: str, kept: dict[str, list[str]]) -> bool:
    for package, patterns in kept.items():
        if package == "*":
            if any(fnmatch(Path(name).name, pattern) for pattern in patterns):
                return True
            continue
        start = package.replace(".", "/") + "/"
        rest = name.removeprefix(start)
        if name.startswith(start) and any(_matches(rest, pattern) for pattern in patterns):
            return True
    return False


def _matches(rest: str, pattern: str) -> bool:
    """As setuptools reads it: a star does not cross folders."""
    parts, wanted = rest.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatch, parts, wanted))

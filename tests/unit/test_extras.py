"""Hints that say how to install what is optional, in a checkout and from a wheel."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from tests.support import check
from unbound import extras

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL = PROJECT["optional-dependencies"]


def named() -> set[str]:
    """Extras that code names: install("cl") and the table of modules."""
    found = set(extras.MODULES.values()) - {""}
    for package in ("tensor", "compilers", "queues", "drivers", "boards", "benchmarks"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "install":
                    found |= {arg.value for arg in node.args if isinstance(arg, ast.Constant)}
    return found


def test_what_code_names_is_there() -> None:
    check(named() >= {"cl", "webgpu", "nv", "plot"}, str(named()))
    check(named() <= OPTIONAL.keys(), str(named() - OPTIONAL.keys()))


def test_modules_are_of_their_extras() -> None:
    """Each module of the table comes with a distribution that its extra lists."""
    distributions = metadata.packages_distributions()
    for module, extra in extras.MODULES.items():
        listed = OPTIONAL[extra] if extra else PROJECT["dependencies"]
        names = {re.split(r"[<>=]", line)[0].lower() for line in listed}
        known = {name.lower() for name in distributions.get(module, names)}
        check(bool(known & names), f"{module}: {known} is not of {names}")


@pytest.mark.parametrize("extra", ["cl", "plot", ""])
def test_a_checkout_installs_its_own_extra(extra: str) -> None:
    check(
        extras.install(extra) == (f"pip install -e '.[{extra}]'" if extra else "pip install -e .")
    )


def test_a_wheel_installs_the_packages_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"Requires-Dist: {one}" for one in PROJECT["dependencies"]]
    for extra, listed in OPTIONAL.items():
        for one in listed:
            name, _, marker = one.partition("; ")
            condition = f"{marker} and " if marker else ""
            lines.append(f'Requires-Dist: {name}; {condition}extra == "{extra}"')
    folder = tmp_path / "unbound-0.1.0.dist-info"
    folder.mkdir()
    head = "Metadata-Version: 2.4\nName: unbound\nVersion: 0.1.0\n"
    (folder / "METADATA").write_text(head + "\n".join(lines) + "\n")
    found = metadata.PathDistribution(folder)
    monkeypatch.setattr(extras, "in_checkout", lambda: False)
    monkeypatch.setattr(metadata, "requires", lambda name: found.requires)
    for extra, wanted in {
        "cl": "'intel-opencl-rt>=2026.0' 'intel-cmplr-lib-rt>=2026.0'",
        "cl-intel": "'intel-opencl-rt>=2026.0' 'intel-cmplr-lib-rt>=2026.0'",
        "plot": "'matplotlib>=3.9'",
        "torch": "'torch>=2.4'",
    }.items():
        check(extras.install(extra) == f"pip install {wanted}", extras.install(extra))
    for extra in OPTIONAL:
        check("unbound" not in extras.install(extra), extras.install(extra))
    check(extras.of_module("drivers") == "" and "llvmlite" in extras.of_module("llvmlite"))

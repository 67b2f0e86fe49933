"""What `import tensor` shows: public names, typed, with one version."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from pathlib import Path

import pytest

import tensor as xp
import unbound
from tests.support import check

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(path.stem for path in (ROOT / "tensor").glob("*.py") if path.stem != "__init__")
SPECIAL = re.compile(r"__\w+__")


def test_dir_shows_the_public_names_alone() -> None:
    shown = dir(xp)
    check(set(xp.__all__) <= set(shown))
    extra = {name for name in set(shown) - set(xp.__all__) if not SPECIAL.fullmatch(name)}
    check(not extra, str(extra))
    check(not {"core", "engine", "annotations", "executable", "strides"} & set(shown), str(shown))
    check(all(hasattr(xp, name) for name in shown), str(shown))


def test_random_shows_what_its_page_has() -> None:
    public = {"bits", "fold_in", "key", "normal", "permutation", "randint", "split", "uniform"}
    check(set(dir(xp.random)) == public, str(dir(xp.random)))


@pytest.mark.parametrize("name", MODULES)
def test_every_module_lists_its_public_names(name: str) -> None:
    module = importlib.import_module(f"tensor.{name}")
    check(all(hasattr(module, one) for one in module.__all__))
    tree = ast.parse((ROOT / "tensor" / f"{name}.py").read_text())
    own = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    hidden = {one for one in own - set(module.__all__) if not one.startswith("_")}
    check(hidden <= {"threefry2x32"}, f"neither public nor with an underscore: {hidden}")


def test_the_version_is_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    check(xp.__version__ == unbound.__version__)
    check(bool(re.fullmatch(r"\d+\.\d+\.\d+", xp.__version__)), xp.__version__)
    check(project["project"]["dynamic"] == ["version"])
    check(project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "unbound.__version__"})
    check(f"version {xp.__version__} is the main branch" in (ROOT / "CHANGELOG.md").read_text())


def test_every_package_of_the_wheel_is_typed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    for pattern in project["packages"]["find"]["include"]:
        package = pattern.removesuffix("*")
        check((ROOT / package / "py.typed").is_file(), f"{package}/py.typed")
    check("py.typed" in project["package-data"]["*"])

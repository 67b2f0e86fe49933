"""The project's own promises: what its documents name exists, and its layers are written down."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from tests.support import check

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
PACKAGES = (
    "tensor", "compilers", "queues", "drivers", "boards", "tests", "benchmarks", "examples",
    "generators", "unbound",
)  # fmt: skip
MOST_LINES = 400
SUSPECT = re.compile(r"^\s*assert\b|;\s*assert\b|__debug__", re.MULTILINE)


def product_files():
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_a_document_names_exist(document):
    text = document.read_text()
    named = set(re.findall(rf"`((?:{'|'.join(PACKAGES)})/[\w/]+\.py)(?:::\w+)?`", text))
    linked = set(re.findall(r"\]\((?!https?:)([^)#]+)\)", text))
    missing = [name for name in named if not (ROOT / name).exists()]
    missing += [name for name in linked if not (document.parent / name).exists()]
    check(not missing, str(missing))


def test_tests_that_safety_names_exist():
    text = (ROOT / "docs" / "safety.md").read_text()
    for file, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text):
        check(f"def {name}(" in (ROOT / file).read_text(), f"{file}::{name}")


def test_no_file_is_longer_than_the_limit():
    long = {
        str(path.relative_to(ROOT)): n
        for path in product_files()
        if (n := len(path.read_text().splitlines())) > MOST_LINES
    }
    check(not long, str(long))


def test_no_check_is_suppressed_in_code():
    pattern = re.compile("# *(no" + "qa|type: *ignore|pragma: *no|mypy: )")
    found = [
        str(path.relative_to(ROOT)) for path in product_files() if pattern.search(path.read_text())
    ]
    check(not found, str(found))


def test_nothing_depends_on_optimisation():
    """`python -O` drops asserts and answers __debug__: without either, it changes nothing."""
    files = [*product_files(), *ROOT.glob("*.py")]
    suspects = {path: text for path in files if SUSPECT.search(text := path.read_text())}
    nodes = [(path, node) for path, text in suspects.items() for node in ast.walk(ast.parse(text))]
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, node in nodes
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Name) and node.id == "__debug__")
    ]
    check(len(files) > 500 and not found, str(found))


def test_every_package_is_under_the_layer_rule():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    layers, *_ = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    named = set(re.findall(r"[\w.]+", " ".join(layers)))
    drivers = {
        f"drivers.{path.stem}"
        for path in (ROOT / "drivers").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    missing = {"tensor", "compilers", "queues"} | drivers - {"drivers.__init__"}
    check(not missing - named, str(missing - named))

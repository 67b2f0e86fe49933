"""The documents: columns, an index that lists them all, names of code and errors that exist."""

from __future__ import annotations

import ast
import inspect
import io
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tensor as xp
from boards.vendors import VENDORS
from drivers.base import errors
from drivers.base.errors import DeviceError
from drivers.claim import refusal
from drivers.gpu import smoke_outcome
from drivers.world import replay
from tests.support import check

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
COLUMNS = 100
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")
ERRORS = sorted(
    {
        found
        for module in (errors, refusal, replay, smoke_outcome)
        for _, found in inspect.getmembers(module, inspect.isclass)
        if issubclass(found, DeviceError)
    },
    key=lambda found: found.__name__,
)


def too_wide(text: str) -> Iterator[str]:
    """Lines over the limit. One word that is longer than a line may stand alone in one."""
    for number, line in enumerate(text.split("\n"), 1):
        words = line.strip().removeprefix("* ").split()
        if len(line) > COLUMNS and len(words) > 1:
            yield f"{number}: {line[:60]}..."


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_lines_have_at_most_100_columns(document: Path) -> None:
    found = list(too_wide(document.read_text()))
    check(not found, "\n".join(found))


def test_wide_lines_are_found() -> None:
    check(len(list(too_wide("word " * 30 + "\nshort\n" + "x" * 120))) == 1)


def test_code_that_a_document_names_is_there() -> None:
    """`file.py::name` is a function, a class or a constant of that file."""
    missing = []
    named = [found for path in DOCUMENTS for found in NAMED.findall(path.read_text())]
    for file, name in named:
        path = ROOT / file
        text = path.read_text() if path.is_file() else ""
        if not re.search(rf"^\s*(?:def|class) {name}\b|^{name}\b", text, re.MULTILINE):
            missing.append(f"{file}::{name}")
    check(len(named) > 100, f"only {len(named)} names")
    check(not missing, str(missing))


def test_the_index_lists_every_document() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    linked = {(ROOT / "docs" / name).resolve() for name in re.findall(r"\]\(([^)#]+)\)", index)}
    own = {ROOT / "README.md", ROOT / "docs" / "README.md"}
    missing = [path.name for path in DOCUMENTS if path not in own and path not in linked]
    check(not missing, str(missing))


def test_the_status_page_has_every_board() -> None:
    text = (ROOT / "docs" / "status.md").read_text()
    boards = [name for vendor in VENDORS for name in vendor.names]
    check(len(boards) >= 30, f"only {len(boards)} boards")
    missing = [name for name in boards if not re.search(rf"\b{re.escape(name)}\b", text)]
    check(not missing, str(missing))


def test_the_status_page_has_the_notes_that_its_table_names() -> None:
    text = (ROOT / "docs" / "status.md").read_text()
    rows = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    named = {int(number) for number in re.findall(r"\((\d+)\)", rows)}
    notes = [int(number) for number in re.findall(r"^(\d+)\. ", text, re.MULTILINE)]
    check(notes == sorted(named), f"notes {notes}, named {sorted(named)}")


def test_what_the_readme_says_is_missing_is_missing() -> None:
    """The section "What this is not"; weights come from numpy's files by asarray."""
    there = {"grad", "value_and_grad", "backward", "linalg", "fft", "save", "load"} & set(dir(xp))
    check(not there and not hasattr(xp.Tensor, "backward"), str(there))
    dtypes = xp.__array_namespace_info__().dtypes()
    check(not [name for name in dtypes if "complex" in name or "float8" in name], str(dtypes))
    file = io.BytesIO()
    np.savez(file, w=np.eye(2, dtype=np.float32))
    file.seek(0)
    np.testing.assert_array_equal(xp.asarray(np.load(file)["w"]).numpy(), np.eye(2))


def test_the_readme_counts_the_files() -> None:
    """ "20 of more than N files": N holds, and is within a quarter of the product's size."""
    claimed = re.search(r"of\smore\sthan\s(\d+)\sfiles", (ROOT / "README.md").read_text())
    count = sum(
        1
        for part in ("tensor", "compilers", "drivers", "queues")
        for _ in (ROOT / part).rglob("*.py")
    )
    check(claimed and int(claimed[1]) < count < 1.25 * int(claimed[1]), f"{count} files")


def fields(error: type[DeviceError]) -> set[str]:
    """Attributes that its own __init__ sets, and properties."""
    tree = ast.parse(inspect.getsource(error))
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    } | {name for name, value in vars(error).items() if isinstance(value, property)}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_every_error_has_its_section_with_its_fields(error: type[DeviceError]) -> None:
    text = (ROOT / "docs" / "errors.md").read_text()
    sections = dict(re.findall(r"^## `(\w+)`\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    check(error.__name__ in sections, f"docs/errors.md has no section {error.__name__}")
    section = sections[error.__name__]
    missing = {name for name in fields(error) - {"args"} if f"`{name}`" not in section}
    check(not missing, f"{error.__name__} has fields that docs/errors.md lacks: {missing}")


def test_no_section_is_of_an_error_that_does_not_exist() -> None:
    text = (ROOT / "docs" / "errors.md").read_text()
    named = set(re.findall(r"^## `(\w+)`", text, re.MULTILINE))
    check(named == {error.__name__ for error in ERRORS}, str(named))

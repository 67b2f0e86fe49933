"""docs/architecture.md: its table of folders is the tree, its list of layers is pyproject's."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from compilers import graph
from tests.support import check

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture.md"
ROW = re.compile(r"^\| `([\w/]+)/` \| (.+) \|$", re.MULTILINE)
COVERS = "and the folders below"
"""What a row says that stands for the folders in its folder, too."""
NAMES = re.compile(r"([\w.]+)(?:\{([\w,]+)\})?")


def packages() -> set[str]:
    """Every folder with Python code, as far as git would see it."""
    tops = {path.parent for path in ROOT.glob("*/__init__.py")} | {ROOT / "tests"}
    return {
        str(path.parent.relative_to(ROOT))
        for top in tops
        for path in top.rglob("*.py")
        if "__pycache__" not in path.parts
    }


def missing(rows: dict[str, str], folders: set[str]) -> Iterator[str]:
    """Folders without a row of their own, whose nearest row does not cover them."""
    for folder in sorted(folders - rows.keys()):
        above = [str(path) for path in Path(folder).parents if str(path) in rows]
        if not above or COVERS not in rows[above[0]]:
            yield folder


def layers(page: str) -> list[set[str]]:
    """The indented list under "The layers": a{b,c} is a.b and a.c."""
    block = page.partition("## The layers")[2].split("\n\n")[1]
    return [
        {
            f"{start}{end}"
            for start, ends in NAMES.findall(line)
            for end in (ends.split(",") if ends else [""])
        }
        for line in block.splitlines()
    ]


def test_every_folder_of_code_has_its_row() -> None:
    rows = dict(ROW.findall(PAGE.read_text()))
    check(len(packages()) > 90, f"only {len(packages())} folders were seen")
    check(not list(missing(rows, packages())), str(list(missing(rows, packages()))))


def test_no_row_is_of_a_folder_that_is_not_there() -> None:
    rows = [folder for folder, _ in ROW.findall(PAGE.read_text())]
    absent = [folder for folder in rows if not (ROOT / folder).is_dir()]
    check(not absent, str(absent))
    check(len(rows) == len(set(rows)), "a folder has two rows")


def test_a_folder_without_a_row_is_found() -> None:
    rows = {"a": "code", "t": f"tests {COVERS}"}
    found = list(missing(rows, {"a", "a/b", "t", "t/b/c", "new"}))
    check(found == ["a/b", "new"], str(found))


def test_the_layers_are_those_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract = next(
        found for found in project["tool"]["importlinter"]["contracts"] if found["type"] == "layers"
    )
    real = [set(re.split(r"\s*[|:]\s*", layer)) for layer in contract["layers"]]
    check(layers(PAGE.read_text()) == real, f"{layers(PAGE.read_text())} != {real}")


def test_the_primitives_are_counted() -> None:
    """The others: movement, and what the docstring of compilers/graph.py lists besides."""
    names = "buffer|const|iota|reduce|scan|argsort|gather|contiguous"
    others = re.findall(rf"^    ({names}) ", graph.__doc__ or "", re.MULTILINE)
    counts = (len(graph.ELEMENTWISE), len(graph.MOVEMENT) + len(others))
    text = " ".join(PAGE.read_text().split())
    check(f"{counts[0]} elementwise primitives and {counts[1]} others" in text, str(counts))


def test_the_examples_are_counted() -> None:
    counted = re.search(r"`examples/` \| (\w+) programs", PAGE.read_text())
    examples = len(list((ROOT / "examples").glob("[!_]*.py")))
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    check(counted and words.index(counted[1]) == examples, f"there are {examples} examples")

"""docs/environment.md is what its program makes, and names the variables that are read."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from drivers.choice import choose, state_bases
from drivers.settings import SETTINGS, main, shown
from tests.settings import PAGE, TESTS, page
from tests.support import check

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("tensor", "compilers", "queues", "drivers", "boards", "benchmarks", "examples", "tests")
METHODS = ("get", "pop", "setdefault")


class Asked(dict[str, str]):
    """An environment with nothing in it, and the names that were asked for."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def get(self, key: str, default: object = None) -> object:
        self.names.add(key)
        return default

    def __contains__(self, key: object) -> bool:
        self.names.add(str(key))
        return False


def reads(tree: ast.Module) -> Iterator[str]:
    """Names of variables that a file asks an `environ` for, also by a constant of the file."""
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        key: ast.expr | None = None
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("environ"):
            key = node.slice
        elif isinstance(node, ast.Call) and node.args:
            called, first = ast.unparse(node.func), node.args[0]
            if re.search(rf"environ\.({'|'.join(METHODS)})$", called) or "getenv" in called:
                key = first
            elif ast.unparse(first).endswith("environ") and len(node.args) > 1:
                key = node.args[1]
        value = getattr(key, "value", constants.get(getattr(key, "id", "")))
        if isinstance(value, str):
            yield value


def read_names() -> set[str]:
    """Every variable that the product, the bench, the tests or the Makefile read."""
    asked = Asked()
    choose(asked)
    state_bases(asked)
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    for path in [*files, *ROOT.glob("*.py")]:
        text = path.read_text()
        if "environ" in text or "getenv" in text:  # the others have nothing that `reads` finds
            asked.names |= set(reads(ast.parse(text)))
    makefile = (ROOT / "Makefile").read_text()
    return asked.names | set(re.findall(r"^(\w+) \?=", makefile, re.MULTILINE))


def described() -> list[str]:
    return [setting.name for group in (*SETTINGS, TESTS) for setting in group.settings]


def test_the_page_is_what_its_program_makes() -> None:
    check(PAGE.read_text() == page().rstrip("\n") + "\n", "run: python -m tests.settings")


def test_every_variable_that_is_read_is_described_and_no_other() -> None:
    read, named = read_names(), described()
    check(len(read) > 40 and "AMD_TRACE" in read and "UNBOUND_SEED" in read, str(sorted(read)))
    check(len(named) == len(set(named)), "a variable is described twice")
    check(read == set(named), f"read and described differ: {sorted(read ^ set(named))}")


def test_reads_are_recognised() -> None:
    code = (
        'C = "NAMED"\nimport os\nos.environ.get("A")\nenviron["B"]\n_flag(environ, "D")\n'
        'os.environ.get(C)\nos.getenv("E")\nother.get("F")\nos.environ.setdefault("G", "1")\n'
    )
    check(set(reads(ast.parse(code))) == {"A", "B", "D", "NAMED", "E", "G"})


def test_the_command_shows_values_that_are_set() -> None:
    lines = list(shown({"AMD_HANG_S": "90", "OTHER": "x"}))
    check("  AMD_HANG_S = 90" in lines and not any("OTHER" in line for line in lines))


def test_the_command_is_as_wide_as_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for columns in ("60", "100"):
        monkeypatch.setenv("COLUMNS", columns)
        check(main([]) == 0)
        shown_lines = capsys.readouterr().out.splitlines()
        lines = [line for line in shown_lines if " = " not in line]  # a value of the user's
        check(max(map(len, lines)) <= int(columns), str(max(lines, key=len)))


def test_the_command_has_json_and_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CPU_THREADS", "3")
    check(main(["--json"]) == 0)
    rows = json.loads(capsys.readouterr().out)["settings"]
    check([row["value"] for row in rows if row["name"] == "CPU_THREADS"] == ["3"])
    names = {one.name for group in SETTINGS for one in group.settings}
    check({row["name"] for row in rows} == names)
    for wrong in ("--nonsense", "DEV"):
        with pytest.raises(SystemExit, match="2"):
            main([wrong])
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])

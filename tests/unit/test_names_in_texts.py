"""What messages and documents tell the user to type exists: options, modules, variables, files.

Texts are the string literals of the product (errors, hints, docstrings, help) and the documents.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from drivers.base.errors import BadChoice
from drivers.choice import choose
from drivers.settings import SETTINGS
from tests.settings import TESTS
from tests.support import check

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = (
    "tensor", "compilers", "queues", "drivers", "boards", "benchmarks", "examples", "generators",
    "unbound",
)  # fmt: skip
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]*)")
COMMAND = re.compile(r"python3? -m ([\w.]*\w)([^\n`;|()#]*)")
SETTING = re.compile(r"(?<![\w$])([A-Z][A-Z0-9_]+)=([\w:]*)")
VARIABLE = re.compile(r"\b(?:UNBOUND_\w+|\w+_IFACE)\b")
TARGET = re.compile(r"(?:`|^ {4})make ([a-z][\w-]*)", re.MULTILINE)
FILE = re.compile(
    r"(?<![\w/.])(?:docs|tensor|compilers|queues|drivers|boards|generators|tests)/[\w/.-]*\.(?:py|md|toml)\b"
)
BARE_FILE = re.compile(r"(?<![\w/.*<-])[\w-]+\.(?:py|md|toml)\b(?!/)")
"""A file without its folder, as `choose.py`: one of that name is somewhere in the tree."""
OTHER_FILES = {
    "test_tiny.py": "tinygrad's", "ops_amd.py": "tinygrad's", "ops_nv.py": "tinygrad's",
    "ops_qcom.py": "tinygrad's", "ip.py": "tinygrad's", "amdev.py": "tinygrad's",
    "pm4_nv.py": "tinygrad's", "freedreno_devices.py": "Mesa's",
    "flash.py": "the bridge's firmware's", "USBGPU.md": "the bridge's firmware's",
    "_version.py": "llvmlite's", "my_program.py": "the user's", "differences.toml": "the user's",
    "matmul.py": "bench.py's own, in a temporary folder",
}  # fmt: skip
EXTRA = re.compile(r"install [^\n]*\.\[([\w,-]+)\]")
ADDS = re.compile(r"\badd_?(argument|option)\(")
FORMATTED = "\0"
"""What an f-string formats, which is not known here."""
OTHER_PROGRAMS = {
    "device": "docker's", "group-add": "docker's", "target": "clang's", "help": "of every parser",
}  # fmt: skip
NOT_OURS = {"pytest": "tests/conftest.py"}
"""Modules of others, and where their options of ours are."""
COMPUTED = {"queues/decode.py": {"pm4", "sdma", "aql", "nv", "qmd"}}
"""Options whose names are no literals."""
SHARED = {"drivers/board_option.py", "drivers/machine/smi.py"}
"""Where several commands have options from."""


def literals(path: Path) -> Iterator[tuple[str, str]]:
    """(place, text) of every string literal."""
    place = path.relative_to(ROOT)
    nodes = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.JoinedStr | ast.Constant)
    ]
    formatted = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in formatted for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            shown = [getattr(part, "value", "") for part in node.values]
            text = "".join(part if isinstance(part, str) else FORMATTED for part in shown)
        elif isinstance(node.value, str):
            text = "" if id(node) in parts else node.value
        else:
            continue
        yield f"{place}:{node.lineno}", text


def texts() -> Iterator[tuple[str, str]]:
    files = [path for part in PRODUCT for path in sorted((ROOT / part).rglob("*.py"))]
    for path in [*files, ROOT / "bench.py"]:
        yield from literals(path)
    for path in DOCUMENTS:
        yield str(path.relative_to(ROOT)), path.read_text()


@cache
def options_of(file: str) -> frozenset[str]:
    """The options that a file adds to a parser."""
    return frozenset(
        argument.value[2:]
        for node in ast.walk(ast.parse((ROOT / file).read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("add_argument", "addoption")
        for argument in node.args
        if isinstance(argument, ast.Constant) and str(argument.value).startswith("--")
    ) | COMPUTED.get(file, set())


@cache
def options() -> frozenset[str]:
    """Every option of every command here."""
    files = [path for part in (*PRODUCT, "tests") for path in (ROOT / part).rglob("*.py")]
    named = [str(path.relative_to(ROOT)) for path in files if ADDS.search(path.read_text())]
    return frozenset[str]().union(*map(options_of, [*named, "bench.py"]))


@cache
def variables() -> frozenset[str]:
    """Every environment variable: docs/environment.md has those that are read, and no other."""
    return frozenset(setting.name for group in (*SETTINGS, TESTS) for setting in group.settings)


@cache
def targets() -> frozenset[str]:
    found = re.findall(r"^([\w -]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return frozenset(" ".join(found).split())


@cache
def extras() -> frozenset[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return frozenset(project["optional-dependencies"])


@cache
def file_names() -> frozenset[str]:
    """Names of all files of the tree, without their folders."""
    folders = (*PRODUCT, "tests", "docs", "firmware_manifests")
    inside = (path for part in folders for path in (ROOT / part).rglob("*.*"))
    return frozenset(path.name for path in (*inside, *ROOT.glob("*.*")))


def command_file(module: str) -> str | None:
    """The file that `python -m module` runs, None where there is none."""
    path = module.replace(".", "/")
    for name in (NOT_OURS.get(module, ""), f"{path}/__main__.py", f"{path}.py"):
        if name and (ROOT / name).is_file():
            text = (ROOT / name).read_text()
            return name if module in NOT_OURS or '__name__ == "__main__"' in text else None
    return None


def wrong_commands(text: str) -> Iterator[str]:
    for module, rest in COMMAND.findall(text):
        file = command_file(module)
        if file is None:
            yield f"python -m {module}"
            continue
        has = options_of(file).union(OTHER_PROGRAMS, *map(options_of, SHARED))
        yield from (f"{module} --{name}" for name in OPTION.findall(rest) if name not in has)


def wrong_settings(text: str) -> Iterator[str]:
    for name, value in SETTING.findall(text):
        if name not in variables():
            yield f"{name}="
        elif value:
            try:
                choose({name: value.rstrip(":")})
            except BadChoice as error:
                yield str(error)
    yield from (name for name in VARIABLE.findall(text) if name not in variables())


def wrong(text: str) -> list[str]:
    """Everything that a text names and that does not exist."""
    known = options().union(OTHER_PROGRAMS)
    found = [f"--{name}" for name in OPTION.findall(text) if name not in known]
    found += [*wrong_commands(text), *wrong_settings(text)]
    found += [f"make {name}" for name in TARGET.findall(text) if name not in targets()]
    found += [name for name in FILE.findall(text) if not (ROOT / name).is_file()]
    known = file_names().union(OTHER_FILES)
    found += [name for name in BARE_FILE.findall(text) if name not in known]
    named = [name for names in EXTRA.findall(text) for name in names.split(",")]
    found += [f".[{name}]" for name in named if name not in extras()]
    return found + re.findall(r"install '?unbound\[", text)  # no index has it


def test_what_texts_name_exists() -> None:
    every = list(texts())
    check(len(every) > 5000, f"only {len(every)} texts")
    found = [f"{place}: {', '.join(names)}" for place, text in every if (names := wrong(text))]
    check(not found, "\n".join(found))


@pytest.mark.parametrize(
    "text",
    [
        "ask for it, each time (--unsafe-physical-dma)",
        "see `python -m drivers.nothing`",
        "python -m drivers.choice is no command",
        "python -m drivers.probe --smoke is another probe's",
        "set AMD_DMA=yes",
        "set AMD_DMB=physical",
        "unset UNBOUND_NOTHING",
        "NV_IFACE=KFD",
        "DEV=VOODOO",
        "run `make everything`",
        "see docs/nothing.md",
        "`amd_lanes.py` says which lane",
        "see nothing-at-all.md",
        "pip install -e '.[everything]'",
        "pip install -e '.[dev,nothing]'",
        "pip install 'unbound[cl]'",
    ],
)
def test_what_does_not_exist_is_found(text: str) -> None:
    check(len(wrong(text)) >= 1, text)


@pytest.mark.parametrize(
    "text",
    [
        "AMD_DMA=physical: asked for", "DEV=AMD:1", "AMD_AQL=1/0", "UNBOUND_FIRMWARE=/x",
        "python -m boards run gfx1100 --aql program.py", "python bench.py --quick", "make check",
        "python -m drivers.amd.probe --smoke --board gfx942 # --nothing is a comment",
        "drivers/pci/pci.c is the kernel's", "a--b and ---", f"DEV={FORMATTED}",
    ],
)  # fmt: skip
def test_what_exists_is_left_alone(text: str) -> None:
    check(wrong(text.partition(" #")[0]) == [], str(wrong(text)))

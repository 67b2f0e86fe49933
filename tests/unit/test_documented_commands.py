"""Commands in documents: their options and targets exist, and those that can run here do."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from compilers.amd import disasm
from drivers.base.errors import NotFound
from tests.command_runner import PARSED
from tests.documented_commands import DOCUMENTS, Command, command, in_blocks, in_texts
from tests.share import part
from tests.support import check

ROOT = Path(__file__).resolve().parents[2]
NOT_RUN = {
    r"^make ": "takes minutes or installs; `make -n` shows that it exists",
    r"^pip ": "installs from the network",
    r"\bpytest\b": "tests run by themselves",
    r" \.\.\.$": "stands for a program of the reader's",
    r"\b(PROGRAM|FILE|DUMP|PATH|FOLDER|recording\.jsonl|trace\.jsonl|kernel\.cubin|A\.trace)\b":
        "reads a file of the reader's",
    r"\$L\b|Metal\.hpp": "reads the vendor's headers",
    r"ring\.bin|add_8": "one needs what the one before wrote: tests/boards/test_tour.py",
    r"bench\.py": "minutes; tests/boards/test_bench_board.py",
    r"regs GRBM_STATUS|drivers\.nv\.probe --smoke$|--iface USB --smoke$": "needs a GPU",
    r"\b(AMD_IFACE|CUDA|METAL|CL|WEBGPU)=\S+ python": "needs a GPU or a library of its vendor",
    r"digits\.py": "needs scikit-learn; tests/unit/test_examples.py",
    r"--watch": "runs until Ctrl-C",
    r"--restore": "binds a GPU of the machine to its driver",
    r"record examples/": "needs a GPU",
}  # fmt: skip
"""Pattern of a command that the test does not run, and why."""
FOLDERS = ("unbound-vm", "unbound-witness", "unbound-references")
"""Folders of caches, which are no console scripts."""
WITHOUT_LIBLLVM = {r"compilers\.(?:report|disasm)": "lists AMD's machine code by libLLVM"}
MAY_BE_1 = {
    r"drivers\.firmware": "a file is missing, which the page says",
    r"drivers\.\w+\.smi": "there is no such GPU",
}
"""Commands whose exit status of 1 is right on a machine without what they look for."""


def run(jobs: Sequence[tuple[Command, bool]]) -> list[dict[str, Any]]:
    """Results of the runner, in one process: commands, and whether they are only parsed."""
    words = [
        {"words": each.words[1:], "settings": dict(each.settings), "parse": parse}
        for each, parse in jobs
    ]
    environ = {name: value for name, value in os.environ.items() if name not in ("DEV", "CPU")}
    with tempfile.TemporaryDirectory() as folder:  # what they write goes there
        for name in ("examples", "bench.py"):
            (Path(folder) / name).symlink_to(ROOT / name)
        done = subprocess.run(
            [sys.executable, "-m", "tests.command_runner"],
            input=json.dumps(words), capture_output=True, text=True, check=False, cwd=folder,
            env={**environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    check(done.returncode == 0, done.stderr)
    results: list[dict[str, Any]] = json.loads(done.stdout)
    return results


@cache
def has_libllvm() -> bool:
    try:
        disasm.find()
    except NotFound:
        return False
    return True


@cache
def distinct(blocks_only: bool) -> tuple[Command, ...]:
    found = in_blocks() if blocks_only else [*in_blocks(), *in_texts()]
    return tuple({(each.settings, each.words): each for each in found}.values())


def chosen(commands: Iterable[Command], of_a_share: int) -> list[Command]:
    """All of them, or so many under `--share`, other ones each day."""
    found = sorted(commands, key=lambda each: each.text)
    count = min(len(found), part(len(found), of_a_share))
    return random.Random(date.today().toordinal()).sample(found, count)


def file_of(words: Sequence[str]) -> Path | None:
    """The source that `python WORDS` runs, None where it is not of this tree."""
    if words[:1] != ("-m",):
        return ROOT / words[0] if words[:1] and words[0].endswith(".py") else None
    path = words[1].replace(".", "/")
    names = (f"{path}/__main__.py", f"{path}.py")
    return next((ROOT / name for name in names if (ROOT / name).is_file()), None)


def parsed_here(each: Command) -> bool:
    """Whether a parser of ours reads its arguments, in its file or where its `main` comes from."""
    file = file_of(tuple(each.words[1:])) if "python" in each.words[0] else None
    text = file.read_text() if file is not None else ""
    if elsewhere := re.search(r"^from ([\w.]+) import main\b", text, re.MULTILINE):
        text += (ROOT / f"{elsewhere[1].replace('.', '/')}.py").read_text()
    return any(name in text for name in ("ArgumentParser", "parse_args", "generators.command"))


WRONG = (
    "python -m drivers.probe --nothing",
    "python -m drivers.amd.probe --iface FIREWIRE",
    "python -m drivers.probe what is usable",
)


def handed_on_by_make() -> list[Command]:
    """`make -n vm ARGS='...'` prints commands of ours; those that take what it hands on."""
    asked = [each for each in distinct(blocks_only=True) if any("ARGS=" in w for w in each.words)]
    found = []
    for each in chosen(asked, 4):
        shown = subprocess.run(
            ["make", "-n", *each.words[1:]], cwd=ROOT, capture_output=True, text=True, check=True,
            env={name: value for name, value in os.environ.items() if "MAKE" not in name},
        ).stdout  # fmt: skip
        lines = [line for line in shown.splitlines() if re.match(r"\S*python -m tests", line)]
        made = [command(f"{each.place}: {each.text}", line) for line in lines]
        found += [one for one in made if parsed_here(one) and len(one.words) > 3]
    check(len(found) >= 4, str(found))
    return found


def test_command_lines_parse() -> None:
    """In blocks as they stand; between backticks a command may be named without its arguments."""
    blocks = set(distinct(blocks_only=True))
    whole = [each for each in blocks if parsed_here(each)]
    named = [each for each in distinct(blocks_only=False) if each not in blocks]
    named = [each for each in named if parsed_here(each) and len(each.words) > 3]
    check(len(whole) > 30 and len(named) > 10, f"{len(whole)} and {len(named)} commands")
    ours = [*chosen(whole, 12), *(handed_on_by_make() if shutil.which("make") else ())]
    loose = chosen(named, 6)
    wrong = [command("wrong", line) for line in WRONG]
    everything = [*ours, *loose, *wrong]
    results = run([(each, True) for each in everything])
    refused = {
        each: result["output"][-300:]
        for each, result in zip(everything, results, strict=True)
        if result["status"] != PARSED
    }
    found = [
        f"{each.place}: {each.text}: {output}"
        for each, output in refused.items()
        if each not in wrong and not (each in loose and "arguments are required" in output)
    ]
    check(not found, "\n".join(found))
    check(all(each in refused for each in wrong), f"of {wrong} only {list(refused)} were refused")


def test_what_has_no_parser_gets_no_arguments() -> None:
    commands = [each for each in distinct(blocks_only=False) if "python" in each.words[0]]
    missing = [
        f"{each.place}: {each.text}"
        for each in commands
        if len(each.words) > 1 and each.words[1] != "-O" and "pytest" not in each.words
        and file_of(tuple(each.words[1:])) is None
    ]  # fmt: skip
    check(not missing, "\n".join(missing))
    loose = [
        f"{each.place}: {each.text}"
        for each in distinct(blocks_only=True)
        if (file := file_of(tuple(each.words[1:]))) and "python" in each.words[0]
        and not parsed_here(each) and "sys.argv" not in file.read_text()
        and len(each.words) > (3 if each.words[1] == "-m" else 2)
    ]  # fmt: skip
    check(not loose, "\n".join(loose))


def test_files_that_tests_are_run_from_exist() -> None:
    for each in distinct(blocks_only=True):
        for word in each.words if "pytest" in each.words else ():
            if word.startswith("tests/"):
                check(any(ROOT.glob(word)), f"{each.place}: {word}")


def test_targets_of_make_exist_and_take_nothing_but_variables() -> None:
    """Prose behind `make x` without a # would be more targets."""
    text = (ROOT / "Makefile").read_text()
    targets = set(" ".join(re.findall(r"^([\w -]+):", text, re.MULTILINE)).split())
    wrong = [
        f"{each.place}: {each.text}"
        for each in distinct(blocks_only=False)
        if each.words[0] == "make"
        and not all(word in targets or re.match(r"[A-Z]+=", word) for word in each.words[1:])
    ]
    check(not wrong, "\n".join(wrong))


def test_console_scripts_that_documents_name_exist() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    for path in DOCUMENTS:
        for name in re.findall(r"`(unbound-[a-z]+)\b[^`]*`", path.read_text()):
            check(name in {*scripts, *FOLDERS}, f"{path.name}: {name}")


def why_not(each: Command) -> str:
    text = each.text.removeprefix(".venv/bin/")
    reasons = NOT_RUN if has_libllvm() else {**NOT_RUN, **WITHOUT_LIBLLVM}
    return next((why for pattern, why in reasons.items() if re.search(pattern, text)), "")


def test_what_can_run_here_runs() -> None:
    commands = chosen((each for each in distinct(blocks_only=True) if not why_not(each)), 6)
    results = run([(each, False) for each in commands])
    wrong = [
        f"{each.place}: {each.text}: exit status {result['status']}\n{result['output'][-1000:]}"
        for each, result in zip(commands, results, strict=True)
        if result["status"] not in (0, *(1 for name in MAY_BE_1 if re.search(name, each.text)))
        or "Traceback" in result["output"]
    ]
    check(not wrong, "\n".join(wrong))


def test_every_reason_not_to_run_is_of_a_command() -> None:
    texts = [each.text.removeprefix(".venv/bin/") for each in distinct(blocks_only=True)]
    unused = [name for name in NOT_RUN if not any(re.search(name, text) for text in texts)]
    check(not unused, str(unused))

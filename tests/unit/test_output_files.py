"""Files that a user names to be written: plain ones of this user, never through a link."""

from __future__ import annotations

import ast
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from boards import __main__ as boards_command
from boards.output import new_text
from boards.vfio_user.command import serve
from drivers.base.errors import BadArgument, Denied
from drivers.world.owned import new_file, write_text
from tests.boards.vfu_toy import Toy
from tests.support import check

ROOT = Path(__file__).resolve().parents[2]
MINE = "a file of mine"


def link(room: Path) -> Path:
    (room / "mine").write_text(MINE)
    (room / "named").symlink_to("mine")
    return room / "named"


def dangling(room: Path) -> Path:
    (room / "named").symlink_to("nothing")
    return room / "named"


def second_name(room: Path) -> Path:
    (room / "mine").write_text(MINE)
    (room / "named").hardlink_to(room / "mine")
    return room / "named"


def fifo(room: Path) -> Path:
    os.mkfifo(room / "named")
    return room / "named"


ODD: list[Callable[[Path], Path]] = [link, dangling, second_name, fifo]


@pytest.mark.parametrize("odd", ODD)
def test_what_is_no_plain_file_is_left_alone(odd: Callable[[Path], Path], tmp_path: Path) -> None:
    named = odd(tmp_path)
    with pytest.raises(OSError, match=r"plain file .*name a new file"):
        new_text(named)
    with pytest.raises(Denied, match=r"plain file .*Name a new file"):
        new_file(str(named))
    with pytest.raises(Denied):
        write_text(str(named), "x")
    mine = tmp_path / "mine"
    check(not mine.exists() or mine.read_text() == MINE)
    check(not (tmp_path / "nothing").exists())


def test_a_plain_file_is_made_or_cut(tmp_path: Path) -> None:
    for number in range(2):
        with new_text(tmp_path / "a") as file:
            file.write(f"{number}\n")
            check((tmp_path / "a").read_text() == f"{number}\n", "each line at once")
        with new_file(str(tmp_path / "b")) as raw:
            raw.write(b"x" * (3 - number))
        write_text(str(tmp_path / "c"), "y" * (3 - number))
    check((tmp_path / "b").read_bytes() == b"xx" and (tmp_path / "c").read_text() == "yy")
    check(all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in tmp_path.iterdir()))
    for bad in (tmp_path, tmp_path / "no" / "folder"):
        with pytest.raises(OSError, match=str(bad)):
            new_text(bad)
        with pytest.raises(BadArgument, match="Name a file to write"):
            new_file(str(bad))


def test_a_full_disk_is_said() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    with pytest.raises(Denied):
        write_text("/dev/full", "x")


def test_a_trace_of_a_board(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused before the program runs."""
    monkeypatch.setattr(os, "environ", dict(os.environ))  # the command chooses its board there
    program = tmp_path / "program.py"
    program.write_text("raise SystemExit(9)")
    named = link(tmp_path)
    command = ["trace", "gfx1100", str(program), "-o", str(named)]
    check(boards_command.main(command) == 1)
    check("name a new file" in capsys.readouterr().err and named.read_text() == MINE)


def test_a_journal_of_a_board(tmp_path: Path) -> None:
    made: Any = (None, Toy())
    with pytest.raises(OSError, match="name a new file"):
        serve("toy", tmp_path / "socket", made, lambda *_: None, once=True, journal=link(tmp_path))
    check((tmp_path / "mine").read_text() == MINE and not (tmp_path / "socket").exists())


WAYS = {
    "benchmarks/inference.py": "a file of a temporary folder",
    "benchmarks/peer.py": "files of a temporary folder",
    "benchmarks/process.py": "a file of a temporary folder",
}
"""Files that write by a path all the same."""


def writes(tree: ast.AST) -> Iterator[int]:
    """Lines that open a path to write it."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        opens = name == "open" or (isinstance(node.func, ast.Name) and node.func.id == "open")
        modes = [
            one.value for one in [*node.args, *(k.value for k in node.keywords if k.arg == "mode")]
            if isinstance(one, ast.Constant) and isinstance(one.value, str)
        ]  # fmt: skip
        mode = any(text.strip("b+t") in ("w", "a", "x") for text in modes)
        of_fd = bool(node.args) and isinstance(node.args[0], ast.Name) and node.args[0].id == "fd"
        if name == "write_text" or (opens and mode and not of_fd):
            yield node.lineno


def test_nothing_else_writes_by_a_path() -> None:
    found: set[str] = set()
    packages = ("drivers", "queues", "compilers", "tensor", "boards", "unbound", "benchmarks")
    paths = [path for name in (*packages, "examples") for path in (ROOT / name).rglob("*.py")]
    for path in [*paths, ROOT / "bench.py"]:
        text = path.read_text()
        if "open(" in text or ".write_text" in text:  # it takes seconds to parse all
            found |= {str(path.relative_to(ROOT)) for _ in writes(ast.parse(text))}
    check(len(paths) > 500, f"only {len(paths)} files were searched")
    check(found == set(WAYS), f"{found ^ set(WAYS)}: use drivers.world.owned.new_file")


@pytest.mark.parametrize(
    "text",
    ["open(p, 'w')", "open(p, mode='wb')", "p.open('a')", "p.write_text('x')", "io.open(p, 'x')"],
)
def test_the_search_finds_it(text: str) -> None:
    check(list(writes(ast.parse(text))) == [1], text)

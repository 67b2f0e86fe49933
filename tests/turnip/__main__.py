"""Mesa's Turnip runs WGSL kernels on boards: `python -m tests.turnip [--chip a630] [KERNEL ...]`.

Exit status 0: every result is lavapipe's, and no board complained; 1: not so, and the lines say
what; 77: this machine lacks a requirement.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import numpy as np

from boards.qcom.machine import NAMES
from tests.debian import CannotRun
from tests.references import LAVAPIPE, LAVAPIPE_MANIFEST, find
from tests.turnip import report as reports
from tests.turnip.build import Turnip, build, compile_c
from tests.turnip.kernel import Kernel, Words
from tests.turnip.kernels import KERNELS
from unbound import terminal

CHIPS: Final = ("a630", "a660", "a740", "x1-85")
"""Those that it runs on unless others are named."""
IFACES: Final = ("KGSL", "MSM")
DONE, FAILED, NOT_HERE = 0, 1, 77
_PRELOAD: Final = "LD_PRELOAD"
"""# src: ld.so(8)"""
_LIMIT_S: Final = 600
_SHOWN: Final = 3000


class Died(Exception):
    """A session ended without a report."""


def same(kernel: Kernel, got: Words, expected: Words) -> bool:
    """Whether a result is right."""
    if not kernel.close:
        return bool(np.array_equal(got, expected))
    kind = np.float16 if "f16" in kernel.o else np.float32
    return bool(
        np.allclose(got.view(kind), expected.view(kind), rtol=kernel.close, atol=kernel.close)
    )


def _session(
    folder: Path, board: tuple[str, str], environ: dict[str, str], names: list[str]
) -> None:
    """A chip over an interface. Raises: Died with the beginning of its output."""
    chip, iface = board
    shim = environ[_PRELOAD]
    folder.mkdir()
    words = [sys.executable, "-m", "tests.turnip.session", str(folder), chip, iface, shim, *names]
    done = subprocess.run(
        words, env={**os.environ, **environ}, capture_output=True, text=True, timeout=_LIMIT_S,
        check=False,
    )  # fmt: skip
    if not (folder / reports.REPORT).exists():
        raise Died(f"{chip} ended with {done.returncode}: {done.stderr[:_SHOWN]}")


def _expected(folder: Path, names: list[str]) -> dict[str, Words]:
    """What lavapipe makes of the kernels, or what they say themselves. Raises: CannotRun."""
    found = find(LAVAPIPE)
    if found is None:
        raise CannotRun("no lavapipe: run `make references`")
    icd = {_PRELOAD: "", "VK_ICD_FILENAMES": str(found / LAVAPIPE_MANIFEST)}
    try:
        _session(folder, (reports.LAVAPIPE, ""), icd, names)
    except Died as died:
        raise CannotRun(str(died)) from died
    error = reports.read(folder).error
    if error:
        raise CannotRun(f"lavapipe: {error}")
    with np.load(folder / reports.RESULTS) as loaded:
        results = {name: loaded[name] for name in loaded.files}
    own = {name: kernel.expected(kernel) for name, kernel in KERNELS.items() if kernel.expected}
    return {**results, **{name: words for name, words in own.items() if name in results}}


def _environ(turnip: Turnip, folder: Path) -> dict[str, str]:
    """What makes a process meet Turnip alone, in front of a board. Raises: CannotRun."""
    here = Path(__file__).parent
    shim, icd = folder / "shim.so", folder / "icd.so"
    compile_c(here / "shim.c", shim)
    compile_c(here / "icd.c", icd)
    manifest = folder / "icd.json"
    manifest.write_text(json.dumps({
        "file_format_version": "1.0.0",
        "ICD": {"library_path": str(icd), "api_version": "1.3.0"},
    }))  # fmt: skip
    return {
        _PRELOAD: str(shim), "VK_ICD_FILENAMES": str(manifest),
        "TURNIP_LIBRARY": str(turnip.driver), "MESA_SHADER_CACHE_DISABLE": "1",
        "TU_DEBUG": "noubwc",
    }  # fmt: skip


def _judge(board: tuple[str, str], folder: Path, expected: dict[str, Words]) -> int:
    """Prints what came of a chip; how many things were wrong."""
    report = reports.read(folder)
    with np.load(folder / reports.RESULTS) as loaded:
        results = {name: loaded[name] for name in loaded.files}
    wrong = 0
    for name in expected:
        if name in report.missing:
            print(f"  {name}: not run: the driver has no {report.missing[name]}")
        elif name not in results:
            wrong += 1
            print(f"  {name}: WRONG: it did not run")
        elif not same(KERNELS[name], results[name], expected[name]):
            wrong += 1
            print(f"  {name}: WRONG: {results[name][:4]} ..., not {expected[name][:4]} ...")
        for violation in report.violations.get(name, ()):
            wrong += 1
            print(f"  {name}: VIOLATION: {violation}")
    for text in [*report.unexplained(), *report.log, *filter(None, [report.error])]:
        wrong += 1
        print(f"  WRONG: {text}")
    ran = f"{len(results)} kernels ran, {len(report.missing)} did not"
    print(f"{' over '.join(board)}: {report.device}: {ran}; {wrong} wrong")
    return wrong


def _witness(boards: list[tuple[str, str]], names: list[str], folder: Path) -> int:
    turnip = build()
    expected = _expected(folder / "expected", names)
    environ, wrong = _environ(turnip, folder), 0
    for board in boards:
        began, own = time.monotonic(), folder / "-".join(board)
        try:
            _session(own, board, environ, list(expected))
            wrong += _judge(board, own, expected)
        except Died as error:
            wrong += 1
            print(f"{' over '.join(board)}: WRONG: {error}")
        print(f"  {time.monotonic() - began:.0f} s", flush=True)
    return wrong


def main() -> int:
    """The whole run."""
    parser = argparse.ArgumentParser(prog="python -m tests.turnip", description=__doc__)
    parser.add_argument("--chip", action="append", choices=NAMES)
    parser.add_argument("--iface", action="append", choices=IFACES)
    parser.add_argument("kernel", nargs="*", help="one of those in tests/turnip; none: all")
    asked = parser.parse_args()
    unknown = [name for name in asked.kernel if name not in KERNELS]
    if unknown:
        parser.error(f"no kernel {', '.join(unknown)}")
    try:
        with tempfile.TemporaryDirectory(prefix="turnip-") as folder:
            boards = [
                (chip, iface) for chip in asked.chip or CHIPS for iface in asked.iface or IFACES
            ]
            wrong = _witness(boards, asked.kernel or list(KERNELS), Path(folder))
    except CannotRun as error:
        print(f"witness: not run: {error}", file=sys.stderr)
        return NOT_HERE
    return FAILED if wrong else DONE


if __name__ == "__main__":
    terminal.run(lambda _: main())

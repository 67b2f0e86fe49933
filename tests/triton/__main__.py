"""Triton's compilers, our loader and driver, the boards: `python -m tests.triton [--chip gfx1100]`.

Exit status 0: every result was right; 1: one was not; 77: this machine lacks a requirement.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from boards.front import Setup, power_on
from compilers.amd import code_object
from compilers.nv import cubin, nvjitlink
from drivers.base.binary import Binary
from drivers.base.errors import DeviceError
from tests.debian import CannotRun, command
from tests.triton import all_cases, wheel
from tests.triton.case import Case, raw
from unbound import terminal

DONE, FAILED, NOT_HERE = 0, 1, 77
CHIPS: Final = {
    "gfx1100": "gfx1100", "gfx1201": "gfx1201", "gfx942": "gfx942", "gfx950": "gfx950",
    "ga102": "sm_86", "gh100": "sm_90a",
}  # fmt: skip
"""Boards, and the architecture that Triton compiles for."""
CARELESS: Final = {
    "register that was never written": "LLVM pads vectors; ptxas computes with what pads them",
    "lanes store different values to one shared address": "with products fused into sums, lanes of "
    "a butterfly differ by a unit in the last place, and Triton has all of them store the sum",
}
"""What boards report of right code by these compilers, and why: either result is one of those that
the source allows."""
_TREE: Final = Path(__file__).parents[2]
_LIMIT_S: Final = 600


def compiled(folder: Path, archs: list[str]) -> dict[str, dict[str, dict[str, Any]]]:
    """The code of each case for each architecture, by Triton in a process of its own.

    Raises: CannotRun.
    """
    environ = {
        **os.environ, "PYTHONPATH": f"{wheel.packages()}:{_TREE}",
        "TRITON_CACHE_DIR": str(folder / "cache"), "TRITON_DEFAULT_FP_FUSION": "1",
    }  # fmt: skip
    words = [sys.executable, "-m", "tests.triton.compiled", str(folder), *archs]
    command(words, environ, _TREE, limit_s=_LIMIT_S)
    index: dict[str, dict[str, dict[str, Any]]] = json.loads((folder / "index.json").read_text())
    return index


def loaded(path: Path, symbol: str, arch: str) -> Binary:
    """The kernel as our loader reads it. Raises: DeviceError."""
    code = path.read_bytes()
    if path.suffix == ".hsaco":
        return code_object.load(code, symbol, arch)
    return cubin.load(nvjitlink.assembled(code.decode(), arch), symbol, arch)


def run(device: Any, case: Case, binary: Binary, about: dict[str, Any]) -> list[str]:
    """What is wrong with the results of a launch. Raises: DeviceError."""
    buffers, words = {}, []
    program = device.load(binary)
    for name, value in case.args.items():
        if isinstance(value, int):
            words.append(value)
            continue
        buffers[name] = device.alloc(max(raw(value).nbytes, 1))
        device.copy_in(buffers[name], memoryview(np.ascontiguousarray(raw(value))).cast("B"))
        words.append(buffers[name])
    words += [0] * (len(binary.resources.args) - len(words))  # scratch that none of them asks for
    queue = device.compute_queue()
    queue.exec(program, words, case.grid, (about["lanes"], 1, 1), shared_bytes=about["shared"])
    queue.submit()
    device.synchronize()
    wrong = []
    for name, wanted in case.wanted.items():
        given = raw(case.args[name])
        found = np.empty_like(given)
        device.copy_out(memoryview(found).cast("B"), buffers[name])
        if count := wanted.wrong(found):
            wrong.append(f"{name}: {count} of {found.size} wrong")
    return wrong


def outcome(chip: str, case: Case, path: Path, about: dict[str, Any]) -> str:
    """ "right", or what is wrong, on a board of its own: a fault ends none of the others."""
    front = power_on(Setup(chip))
    try:
        with front.open() as device:
            wrong = run(device, case, loaded(path, about["symbol"], CHIPS[chip]), about)
    except DeviceError as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    found = [one for one in front.board.violations if one.kind not in CARELESS]
    violations = [f"{one.kind}: {one.what}" for one in found]
    return "; ".join([*wrong, *violations[:3]]) or "right"


def one_chip(
    chip: str, index: dict[str, dict[str, Any]], folder: Path, only: list[str] | None
) -> int:
    """Every case, or those named; how many are not right."""
    began_s, outcomes = time.process_time(), Counter[str]()
    for case in all_cases.every():
        if only and case.title not in only:
            continue
        about = index[case.title]
        if "refused" in about:
            outcomes["not compiled"] += 1
            print(f"  {chip} {case.title}: Triton: {about['refused']}", flush=True)
            continue
        said = outcome(chip, case, folder / about["file"], about)
        outcomes["right" if said == "right" else "wrong"] += 1
        if said != "right":
            print(f"  {chip} {case.title}: WRONG: {said}", flush=True)
    counts = ", ".join(f"{count} {what}" for what, count in outcomes.items())
    print(f"{chip} ({CHIPS[chip]}): {counts}; {time.process_time() - began_s:.0f} s of processor")
    return outcomes["wrong"]


def main() -> int:
    """The whole run."""
    parser = argparse.ArgumentParser(prog="python -m tests.triton", description=__doc__)
    parser.add_argument("--chip", action="append", choices=tuple(CHIPS), help="again: more")
    parser.add_argument("--case", action="append", metavar="NAME", help="of a kernel; again: more")
    given = parser.parse_args()
    chips = given.chip or list(CHIPS)
    try:
        with TemporaryDirectory() as made:
            folder = Path(made)
            index = compiled(folder, [CHIPS[chip] for chip in chips])
            print(f"Triton {wheel.VERSION}, {len(index[CHIPS[chips[0]]])} kernels", flush=True)
            wrong = sum(one_chip(chip, index[CHIPS[chip]], folder, given.case) for chip in chips)
    except CannotRun as error:
        print(f"triton: not run: {error}", file=sys.stderr)
        return NOT_HERE
    print(f"triton: {len(chips)} chips, {wrong} results wrong")
    return FAILED if wrong else DONE


if __name__ == "__main__":
    terminal.run(lambda _: main())

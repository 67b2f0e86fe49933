"""`python -m tests.hardware.nv_visit FOLDER`: ten minutes with an NVIDIA GPU, the best first.

Each step is a program of its own with a time limit; what it prints, and the files that it makes,
are in FOLDER, with `steps.json` (each step's status and seconds). --board ga102 rehearses it on a
software GPU; steps that need silicon are left out then.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from unbound import terminal

ROOT = Path(__file__).resolve().parents[2]
MINUTES = 10.0
RECORDED = ("add", "digits")
"""Examples whose recordings come home."""
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "-rs")


@dataclass(frozen=True, slots=True)
class Step:
    """One program."""

    name: str
    arguments: tuple[str, ...]
    seconds: float
    board: bool = True
    """Whether it runs on a board, too."""
    environ: dict[str, str] = field(default_factory=dict)


def steps(folder: Path, board: str) -> list[Step]:
    """In the order of their worth: a visit may end at any moment."""
    on = ("--board", board) if board else ()
    nv = {} if board else {"DEV": "NV"}
    hardware = str(ROOT / "tests/hardware/test_nv_gpu.py")
    here = "board" if board else "this machine"
    found = [
        Step("probe", ("-m", "drivers.nv.probe", "--json", *on), 30),
        Step("smi", ("-m", "drivers.nv.smi", "--json", *on), 30),
        Step("smoke", ("-m", "drivers.nv.probe", "--smoke", "--json", *on), 60),
    ]
    for name in RECORDED:
        file, program = str(folder / f"{name}.jsonl.gz"), f"examples/{name}.py"
        record = ("-m", "drivers.record", "-o", file, *on, program)
        found.append(Step(f"record {name}", record, 60, environ=nv))
    found += [
        Step("suite", (*PYTEST, hardware, "-k", f"{here} and not fault"), 90),
        Step("faults", (*PYTEST, hardware, "-s", "-k", f"{here} and fault"), 90),
        Step("contract", (*PYTEST, "tests/contract", "-k", "NVIDIA"), 120, board=False),
        Step("tensors", (*PYTEST, "--device", "nv", "tests/array_api",
                         "tests/unit/test_tensor_edges.py"), 90,
             board=False),
        Step("bench NV", ("bench.py", "--quick", "--device", "NV",
                          "--json", str(folder / "bench-nv.json")), 90, board=False),
        Step("bench CUDA", ("bench.py", "--quick", "--device", "CUDA",
                            "--json", str(folder / "bench-cuda.json")), 90, board=False),
        Step("torch", ("-m", "tests.hardware.torch_bench", str(folder / "bench-torch.json")), 60,
             board=False),
        Step("doctor", ("-m", "drivers.doctor", "--json"), 30),
    ]  # fmt: skip
    return [step for step in found if step.board or not board]


def run(step: Step, folder: Path, left_s: float) -> dict[str, object]:
    """Run one; what came of it."""
    limit_s = min(step.seconds, left_s)
    began = time.monotonic()
    environ = {**os.environ, **step.environ}
    with open(folder / f"{step.name.replace(' ', '-')}.txt", "wb") as out:
        try:
            status: int | str = subprocess.run(
                [sys.executable, *step.arguments], cwd=ROOT, env=environ, stdout=out,
                stderr=subprocess.STDOUT, timeout=limit_s, check=False,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            status = f"ended after {limit_s:.0f} s"
    seconds = round(time.monotonic() - began, 1)
    return {"step": step.name, "status": status, "seconds": seconds}


def visit(folder: Path, board: str, minutes: float) -> int:
    """Every step that there is time for; how many failed."""
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * minutes
    done: list[dict[str, object]] = []
    for step in steps(folder, board):
        left_s = end - time.monotonic()
        if left_s < 1:
            done.append({"step": step.name, "status": "no time was left", "seconds": 0.0})
        else:
            done.append(run(step, folder, left_s))
        print(f"{done[-1]['step']:<16}{done[-1]['status']!s:<24}{done[-1]['seconds']} s")
        (folder / "steps.json").write_text(json.dumps(done, indent=2) + "\n")
    return sum(one["status"] != 0 for one in done)


def main(arguments: Sequence[str]) -> int:
    """The command line; 1 where a step failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.hardware.nv_visit", description=__doc__)
    parser.add_argument("folder", type=Path, help="where everything goes")
    parser.add_argument("--board", default="", metavar="CHIP", help="rehearse on a software GPU")
    parser.add_argument("--minutes", type=float, default=MINUTES)
    chosen = parser.parse_args(arguments)
    return int(visit(chosen.folder.resolve(), chosen.board, chosen.minutes) > 0)


if __name__ == "__main__":
    terminal.run(main)

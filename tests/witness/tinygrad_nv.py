"""Stock tinygrad's NVK interface on NVIDIA's boards: opens, copies, launches, names a fault.

python -m tests.witness.tinygrad_nv [CHIP ...]        # ga102, ad102, gb202

Part of `make witness-tinygrad`; docs/board-nv.md says what is replaced. Kernels are compiled only
where NVRTC_PATH names libnvrtc, or the wheel nvidia-cuda-nvrtc is installed; else tinygrad has a
compiled kernel in its own cache, or that check is left out, by name.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.debian import CannotRun
from tests.witness.tinygrad_wheel import VERSION, wheel
from unbound import terminal

CHIPS = ("ga102", "ad102", "gb202")
"""Those that tinygrad knows; of GH100 and TU102 it has no classes."""
DONE, FAILED, NOT_HERE = 0, 1, 77
_LIMIT_S = 300
_FAULT = "MMU fault: 0x3300000000 | NV_PFAULT_FAULT_TYPE_PTE | WRITE"
"""What the client makes of the error registers after the store that it is led to."""


def _nvrtc() -> str:
    """A path for the client; "" where there is none."""
    found = os.environ.get("NVRTC_PATH", "")
    for folder in map(Path, sys.path):
        for path in sorted(folder.glob("nvidia/*/lib/libnvrtc.so.*")):
            found = found or str(path)
    return found


def run(packages: Path, chip: str, nvrtc: str) -> dict[str, object]:
    """What the client said, all its lines together. Raises: subprocess.TimeoutExpired."""
    words = [sys.executable, "-m", "tests.witness.tinygrad_nv_client", str(packages), chip]
    environment = {**os.environ, "NVRTC_PATH": nvrtc}
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=_LIMIT_S, check=False
    )
    facts: dict[str, object] = {"status": done.returncode, "noise": done.stderr[-2000:]}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            facts |= json.loads(line)
    return facts


def trouble(facts: dict[str, object], nvrtc: str) -> list[str]:
    """What is not as it should be."""
    found = [] if facts["status"] == 0 else [f"it ended with {facts['status']}: {facts['noise']}"]
    if facts.get("interface") != "NVKIface":
        found.append(f"it opened {facts.get('interface')}")
    if facts.get("copies") is not True:
        found.append("a copy there and back is not the same")
    if facts.get("launch") is not True and (nvrtc or facts.get("launch") is False):
        found.append(f"launch: {facts.get('launch')} {facts.get('why', '')}")
    if facts.get("launch") is True and facts.get("executed") is not True:
        found.append("the board did not execute the kernel's own code")
    if facts.get("launch") is True and facts.get("fault") != _FAULT:
        found.append(f"the fault is called {facts.get('fault')!r}")
    violations = facts.get("violations", [])
    return found + [f"violation: {one}" for one in violations if isinstance(violations, list)]


def _total(facts: dict[str, object]) -> int:
    """Requests of all kinds."""
    counts = facts.get("requests")
    return sum(counts.values()) if isinstance(counts, dict) else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """0: everything is as it should be; 77: tinygrad cannot be had here."""
    parser = argparse.ArgumentParser(prog="python -m tests.witness.tinygrad_nv")
    parser.add_argument("chip", nargs="*", default=CHIPS, help="by default all of them")
    asked, failed = parser.parse_args(arguments), False
    try:
        packages = wheel().packages
    except CannotRun as error:
        print(f"tinygrad cannot run here: {error}")
        return NOT_HERE
    nvrtc = _nvrtc()
    for chip in asked.chip:
        facts = run(packages, chip, nvrtc)
        wrong = trouble(facts, nvrtc)
        failed = failed or bool(wrong)
        print(f"{'FAIL' if wrong else 'PASS'}  tinygrad {VERSION} NVK on {chip}: "
              f"{facts.get('open')}, {_total(facts)} requests; its kernel's code is "
              f"{'executed' if facts.get('executed') else 'not executed'}")  # fmt: skip
        if facts.get("launch") == "not run":
            print(f"      no launch: {facts.get('why')}")
        for line in wrong:
            print(f"      {line}")
        sys.stdout.flush()
    return FAILED if failed else DONE


if __name__ == "__main__":
    terminal.run(main)

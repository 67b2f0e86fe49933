"""The made-up vendor is registered by one record: name, variables, probe and opening follow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support import check

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import json
import drivers.kinds as kinds
from tests.contract.null_vendor.registration import KIND

kinds.BEST_FIRST = (*kinds.BEST_FIRST[:-1], KIND, kinds.BEST_FIRST[-1])
kinds.BY_NAME = {kind.name: kind for kind in kinds.BEST_FIRST}
kinds.NAMES = tuple(kinds.BY_NAME)

import drivers
from drivers.choice import choose
from drivers.probe.__main__ import main

with drivers.open(environ={"NULL": "1"}) as device:
    opened = device.name, device.arch
rows = json.loads(main(["--json"], environ={}))["devices"]
row = next(row for row in rows if row["kind"] == "NULL")
print(json.dumps([opened, choose({"DEV": "NULL:3"}).index, row["state"], row["reason"]]))
"""


def test_one_record_is_enough() -> None:
    """In a process of its own: the record is there before anything else is imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False
    )
    check(done.returncode == 0, done.stderr)
    check(json.loads(done.stdout) == [["NULL:0", "null1"], 3, "usable", "made up"], done.stdout)

"""Programs whose cache cannot be written are right, and the warning has the hint of its reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support import check

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import resource
import numpy as np
import tensor as xp
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
found = (xp.asarray(np.arange(5, dtype=np.float32)) * 7 + 3).numpy()
print(found.tolist() == [3, 10, 17, 24, 31])
"""


def test_files_that_may_not_grow(tmp_path: Path) -> None:
    environ = {**os.environ, "UNBOUND_CACHE": str(tmp_path / "cache"), "CPU": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=environ, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    check((done.returncode, done.stdout) == (0, "True\n"), done.stderr)
    check("ulimit -f" in done.stderr and "only you" not in done.stderr, done.stderr)
    check(not list((tmp_path / "cache").rglob("*.bin")), "no half entry is left")

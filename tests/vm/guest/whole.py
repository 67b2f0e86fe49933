"""Checks of what a user runs: the command lines and tensor programs."""

from __future__ import annotations

import subprocess
import sys

from hardware import FIRST_DRIVER, driver, expect

TIME_LIMIT_S = 100


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run this Python; what it says is in the log."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False,
        timeout=TIME_LIMIT_S,
    )  # fmt: skip
    print(f"$ python {' '.join(arguments)}\n{done.stdout}{done.stderr}", flush=True)
    return done


def dry_run() -> str:
    """Every step that claiming would take is told, and none is taken."""
    done = python("-m", "drivers.amd.probe", "--iface", "PCI", "--dry-run")
    expect("its status", done.returncode, 0)
    expect("a last line", "nothing was changed" in done.stdout, True)
    expect("the unbinding told of", f"{FIRST_DRIVER}/unbind" in done.stdout, True)
    expect("the driver", driver(), FIRST_DRIVER)
    return f"{len(done.stdout.splitlines())} lines; still bound to {FIRST_DRIVER}"


def doctor() -> str:
    """The doctor looks at a machine that has a GPU and no amdgpu."""
    done = python("-m", "drivers.doctor")
    expect("a traceback", "Traceback" in done.stdout + done.stderr, False)
    return f"status {done.returncode}, {len(done.stdout.splitlines())} lines"

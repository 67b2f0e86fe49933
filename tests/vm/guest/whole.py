"""Checks of what a user runs: the command lines and tensor programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from hardware import FIRST_DRIVER, Wrong, driver, expect

TIME_LIMIT_S = 200
WORK = os.path.join(os.path.dirname(__file__), "work.py")


def python(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run this Python; what it says is in the log."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False,
        timeout=TIME_LIMIT_S, env={**os.environ, **environ},
    )  # fmt: skip
    print(f"$ python {' '.join(arguments)}\n{done.stdout}{done.stderr}", flush=True)
    return done


def succeeded(done: subprocess.CompletedProcess[str]) -> None:
    """Raises: Wrong with the end of what it said."""
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise Wrong(f"status {done.returncode}: {' '.join(said)}")


def dry_run() -> str:
    """Every step that claiming would take is told, and none is taken."""
    done = python("-m", "drivers.amd.probe", "--iface", "PCI", "--dry-run")
    succeeded(done)
    expect("a last line", "nothing was changed" in done.stdout, True)
    expect("the unbinding told of", f"{FIRST_DRIVER}/unbind" in done.stdout, True)
    expect("the driver", driver(), FIRST_DRIVER)
    return f"{len(done.stdout.splitlines())} lines; still bound to {FIRST_DRIVER}"


def doctor() -> str:
    """The doctor looks at a machine that has a GPU and no amdgpu."""
    done = python("-m", "drivers.doctor")
    expect("a traceback", "Traceback" in done.stdout + done.stderr, False)
    return f"status {done.returncode}, {len(done.stdout.splitlines())} lines"


def firmware_listed() -> str:
    """Every file that the GPU needs is there and known."""
    done = python("-m", "drivers.firmware")
    succeeded(done)
    return f"{len(done.stdout.splitlines())} lines"


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    succeeded(done)
    expect("the driver afterwards", driver(), FIRST_DRIVER)
    return done.stdout.splitlines()[-1]


def tensor_program() -> str:
    """Boot, a sum and a matrix product that agree with numpy, and the GPU goes back."""
    return _last_line(python(WORK))


def tensor_program_with_physical_dma() -> str:
    """The same with host memory by physical address, which is asked for each time."""
    return _last_line(python(WORK, AMD_DMA="physical"))


def tensor_program_over_vfio() -> str:
    """The same behind an IOMMU, with interrupts that reach the process."""
    said = _last_line(python(WORK))
    expect("interrupts that came", " 0 interrupts" in said, False)
    return said


def smoke() -> str:
    """Every engine of the GPU does what it should."""
    done = python("-m", "drivers.amd.probe", "--iface", "PCI", "--smoke")
    _last_line(done)
    passed = done.stdout.count(" ok ")
    expect("whether any test passed", passed > 0, True)
    return f"{passed} tests passed"


def _killed_at_work() -> str:
    """Start a program that works without end, kill it; the driver that is left."""
    worker = subprocess.Popen(
        [sys.executable, WORK, "--forever"], stdout=subprocess.PIPE, text=True
    )
    lines = worker.stdout or []
    for line in lines:
        if line.startswith("working"):
            break
    else:
        raise Wrong(f"the worker ended with {worker.wait(10)}")
    time.sleep(0.5)
    worker.send_signal(signal.SIGKILL)
    worker.wait(10)
    left = driver()
    if left == FIRST_DRIVER:
        raise Wrong("the kernel gave it back by itself: nothing is tested")
    return left or "no driver"


def killed_at_work_then_restored() -> str:
    """SIGKILL in the middle of work; doctor --restore gives back; the next open works."""
    left = _killed_at_work()
    restored = python("-m", "drivers.doctor", "--restore")
    succeeded(restored)
    expect("the driver afterwards", driver(), FIRST_DRIVER)
    return f"left with {left}; then {_last_line(python(WORK))}"


def killed_at_work_then_given_back() -> str:
    """SIGKILL in the middle of work; doctor --restore gives back."""
    left = _killed_at_work()
    succeeded(python("-m", "drivers.doctor", "--restore"))
    expect("the driver afterwards", driver(), FIRST_DRIVER)
    return f"left with {left}; bound again"


def killed_at_work_then_opened() -> str:
    """SIGKILL in the middle of work; the next open takes over and gives back in the end."""
    left = _killed_at_work()
    return f"left with {left}; then {_last_line(python(WORK))}"

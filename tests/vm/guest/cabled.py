"""Checks of a GPU on USB: a real xHCI driver, usbfs and libusb, and a cable that is pulled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from hardware import Wrong, expect
from whole import WORK, python, succeeded

from drivers.usb.asm24.enclosures import Enclosure, enclosures
from drivers.world.linux import LinuxWorld

PANEL = "/dev/ttyS1"
APPEAR_S, NOTICE_S = 20, 20
BOOTING = 300
"""A transfer in the middle of a boot."""


def panel(line: str) -> None:
    """Plug or unplug; the board has done it when this returns."""
    descriptor = os.open(PANEL, os.O_RDWR | os.O_NOCTTY)
    try:
        os.write(descriptor, line.encode() + b"\n")
        expect(f"the answer to {line!r}", os.read(descriptor, 64).strip(), b"ok")
    finally:
        os.close(descriptor)


def found() -> list[Enclosure]:
    """Enclosures of this machine."""
    return enclosures(LinuxWorld())


def appears(count: int) -> None:
    """Wait until the kernel has taken note of the cable."""
    deadline = time.monotonic() + APPEAR_S
    while len(found()) != count:
        if time.monotonic() > deadline:
            raise Wrong(f"{len(found())} enclosures after {APPEAR_S} s, wanted {count}")
        time.sleep(0.05)


def enclosure() -> str:
    """The kernel has enumerated the bridge, and nothing stands between it and the driver."""
    appears(1)
    (one,) = found()
    expect("the reason against it", one.reason, "")
    expect("its speed in Mb/s", one.mbit_s, 5000)
    expect("its serial number", one.serial, "c0ffee01")
    folder = Path("/sys/bus/usb/devices", one.address)
    expect("its endpoints", (folder / f"{one.address}:1.0/bNumEndpoints").read_text(), "02\n")
    return str(one)


def usb_tensor_program() -> str:
    """Boot, a sum and a matrix product that agree with numpy."""
    done = python(WORK)
    succeeded(done)
    return done.stdout.splitlines()[-1]


def _worker() -> subprocess.Popen[str]:
    """A program that works without end, once it works."""
    worker = subprocess.Popen(
        [sys.executable, WORK, "--forever"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for line in worker.stdout or []:
        if line.startswith("working"):
            return worker
    raise Wrong(f"the worker ended with {worker.wait(10)}: {worker.stderr.read()[-300:]}")


def two_openers() -> str:
    """The second one is refused, with the pid of the first, which is killed then."""
    worker = _worker()
    try:
        done = python(WORK)
        expect("whether it was refused", done.returncode != 0, True)
        if f"{worker.pid}" not in done.stderr or "Busy" not in done.stderr:
            raise Wrong(f"no owner in {done.stderr.strip().splitlines()[-1:]}")
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
        panel("killed")
    return f"the owner is {worker.pid}; then it was killed"


def _gone(said: str) -> str:
    """The line that names it. Raises: Wrong without one."""
    lines = [line for line in said.splitlines() if "DeviceGone" in line]
    if not lines:
        raise Wrong(f"no DeviceGone in {said[-300:]!r}")
    return lines[0]


def unplugged_at_boot() -> str:
    """The cable is pulled in the middle of a boot: the program ends by itself and says so."""
    panel(f"unplug {BOOTING}")
    done = python(WORK)
    expect("whether it failed", done.returncode > 0, True)
    appears(0)
    panel("plug")
    appears(1)
    return _gone(done.stderr)


def unplugged_at_work() -> str:
    """The cable is pulled under a program that works; then there is no GPU; then there is."""
    worker = _worker()
    try:
        time.sleep(0.5)
        began = time.monotonic()
        panel("unplug")
        _, said = worker.communicate(timeout=NOTICE_S)
        seconds = time.monotonic() - began
    finally:
        worker.kill()
    expect("whether it failed", worker.returncode > 0, True)
    appears(0)
    absent = python(WORK)
    expect("NotFound without a cable", "NotFound" in absent.stderr, True)
    panel("plug")
    appears(1)
    return f"after {seconds:.1f} s: {_gone(said)}; plugged in: {usb_tensor_program()}"

"""One boot of the virtual machine: the board's server beside it, the console in a log."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO

from tests.vm.image import ROOT

MEMORY_MIB = 2048
SOCKET_S, BOARD_S = 30, 5
_LINE = re.compile(r"^(PASS|FAIL|SKIP)\s+(.*?)\s*$")
_STATUS = re.compile(r"^vm: exit status (\d+)\s*$")


@dataclass(frozen=True, slots=True)
class Boot:
    """How the machine is put together this time."""

    name: str
    checks: str
    """Which of the guest's lists of checks."""
    limit_s: int
    cable: bool = False
    """Whether the GPU is on USB, behind a bridge and a cable that the guest can pull."""


@dataclass(slots=True)
class Outcome:
    """What one boot showed."""

    boot: Boot
    seconds: float = 0.0
    lines: list[tuple[str, str]] = field(default_factory=list)
    trouble: str = ""

    @property
    def failed(self) -> bool:
        """Whether anything was not as it should be."""
        return bool(self.trouble) or any(kind == "FAIL" for kind, _ in self.lines)


@dataclass(frozen=True, slots=True)
class Places:
    """Where the parts are."""

    qemu: Path
    kernel: Path
    initrd: Path


def qemu_program(qemu: Path) -> list[str]:
    """QEMU through the loader and libraries of its own suite, which may be newer than ours."""
    libraries = qemu / "usr/lib/x86_64-linux-gnu"
    data = ("usr/share/seabios", "usr/share/qemu", "usr/lib/ipxe/qemu")
    return [
        str(qemu / "usr/lib64/ld-linux-x86-64.so.2"), "--library-path", str(libraries),
        str(qemu / "usr/bin/qemu-system-x86_64"),
        *(word for folder in data for word in ("-L", str(qemu / folder))),
    ]  # fmt: skip


def qemu_environ(qemu: Path) -> dict[str, str]:
    """Where its devices that are modules lie, usb-redir among them."""
    return {**os.environ, "QEMU_MODULE_DIR": str(qemu / "usr/lib/x86_64-linux-gnu/qemu")}


def _gpu(boot: Boot, socket: Path) -> list[str]:
    """The GPU, and the panel of its cable behind the second serial port."""
    if boot.cable:
        return [
            "-device", "qemu-xhci", "-chardev", f"socket,id=cable,path={socket}",
            "-device", "usb-redir,chardev=cable",
            "-chardev", f"socket,id=panel,path={_panel(socket)}", "-serial", "chardev:panel",
        ]  # fmt: skip
    device = {
        "driver": "vfio-user-pci", "bus": "rp1",
        "socket": {"path": str(socket), "type": "unix"},
    }  # fmt: skip
    # The first display is another one's: a GPU that the machine booted with is refused.
    return [
        "-device", "VGA", "-device", "pcie-root-port,id=rp1,chassis=1,slot=1",
        "-device", json.dumps(device),
    ]  # fmt: skip


def _panel(socket: Path) -> Path:
    return socket.with_name("panel.sock")


def _server(boot: Boot, board: str, socket: Path) -> list[str]:
    """The board, beside QEMU."""
    words = [sys.executable, "-m", "boards", "usbredir" if boot.cable else "vfio-user", board]
    panel = ["--panel", str(_panel(socket))] if boot.cable else []
    return [*words, "--socket", str(socket), *panel, "--once"]


def _arguments(boot: Boot, places: Places, socket: Path) -> list[str]:
    append = f"console=ttyS0 quiet panic=-1 vm_checks={boot.checks} hugepages=16"
    return [
        *qemu_program(places.qemu), "-nodefaults", "-no-user-config", "-nographic",
        "-serial", "stdio", "-no-reboot", "-machine", "q35,memory-backend=ram",
        "-accel", "tcg", "-cpu", "max", "-smp", "2",
        "-object", f"memory-backend-memfd,id=ram,size={MEMORY_MIB}M,share=on",
        "-kernel", str(places.kernel), "-initrd", str(places.initrd),
        *_gpu(boot, socket), "-append", append,
    ]  # fmt: skip


def run(boot: Boot, board: str, places: Places, log: IO[bytes]) -> Outcome:
    """Boot, wait for the end, read the console."""
    outcome = Outcome(boot)
    began = time.monotonic()
    with TemporaryDirectory() as folder, TemporaryFile() as said:
        socket = Path(folder, "gpu.sock")  # a socket's path has little room
        with child(_server(boot, board, socket), said) as server:
            console = ""
            if _listens(socket, server):
                console = _console(boot, places, socket, log, outcome)
            else:
                outcome.trouble = "the board did not start"
            status = _stop(server)
        said.seek(0)
        board_said = said.read()
    outcome.seconds = time.monotonic() - began
    log.write(b"\n----- the board -----\n" + board_said)
    judge(outcome, console, status, board_said.decode(errors="replace"))
    return outcome


@contextmanager
def child(
    words: Sequence[str], said: IO[bytes], environ: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A program that does not outlive the block, whatever ends the block."""
    child = subprocess.Popen(
        words, cwd=ROOT, env=environ, stdin=subprocess.DEVNULL, stdout=said,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


def _listens(socket: Path, server: subprocess.Popen[bytes]) -> bool:
    """Wait until the board listens; whether it does."""
    deadline = time.monotonic() + SOCKET_S
    while not socket.exists() and time.monotonic() < deadline:
        if server.poll() is not None:
            break
        time.sleep(0.05)
    return socket.exists()


def _stop(server: subprocess.Popen[bytes]) -> int:
    """The board ends when QEMU has left; a signal otherwise."""
    try:
        return server.wait(BOARD_S)
    except subprocess.TimeoutExpired:
        server.send_signal(signal.SIGINT)
    try:
        return server.wait(BOARD_S)
    except subprocess.TimeoutExpired:
        server.kill()
        return server.wait()


def _console(boot: Boot, places: Places, socket: Path, log: IO[bytes], outcome: Outcome) -> str:
    arguments = _arguments(boot, places, socket)
    log.write(f"\n===== {boot.name} =====\n{' '.join(arguments)}\n".encode())
    log.flush()
    start = log.tell()
    with child(arguments, log, qemu_environ(places.qemu)) as guest:
        try:
            status = guest.wait(boot.limit_s)
            if status:
                outcome.trouble = f"QEMU ended with {status}"
        except subprocess.TimeoutExpired:
            outcome.trouble = f"no end after {boot.limit_s} s"
    log.seek(start)
    console = log.read().decode(errors="replace")
    log.seek(0, os.SEEK_END)
    return console


def judge(outcome: Outcome, console: str, board_status: int, board_said: str) -> None:
    """What console and board said, as lines of the outcome; silence is a failure."""
    ended = None
    for line in console.splitlines():
        if match := _LINE.match(line):
            outcome.lines.append((match[1], match[2]))
        elif match := _STATUS.match(line):
            ended = int(match[1])
    if not outcome.trouble and not outcome.lines:
        outcome.trouble = "the guest checked nothing"
    if not outcome.trouble and ended is None:
        outcome.trouble = "the guest did not come to its end"
    elif not outcome.trouble and ended:
        outcome.trouble = f"the guest's checks ended with {ended}"
    if board_status:
        last = board_said.strip().splitlines()[-1:] or [""]
        outcome.lines.append(("FAIL", f"the board: exit status {board_status}: {last[0]}"))
    else:
        outcome.lines.append(("PASS", "the board has no violations"))

"""A guest that stays: the board is hot-plugged into it and pulled out, again and again.

So amdgpu is inserted once, and a try takes seconds; several chips share one boot of the guest.
"""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from boards.vfio_user.command import GOES_ON, WAITS
from tests.vm.image import ROOT
from tests.vm.machine import Places, qemu_program

MEMORY_MIB = 3072
MAX_STEPS = 100_000
"""An endless kernel hangs after some seconds; none of the guest's programs has as many."""
ANSWER_MS = 120_000
"""How long QEMU waits for the board, which computes meanwhile; its own 5 s end the connection."""
_SLOT, _GPU = "rp1", "gpu"
_END = re.compile(rb"@@END (\d+)\r?\n$")
_POLL_S = 0.2


class LabError(Exception):
    """The guest, QEMU or the board did not do what the lab asked; the message says what."""


@dataclass(slots=True)
class Lab:
    """QEMU, the guest in it and the board's server; `folder` has sockets, console and logs."""

    places: Places
    folder: Path
    iommu: bool = False
    """Whether the machine has one. The kernel's own DMA goes past it."""
    firmware: Path | None = None
    """AMD's own files, which the board then takes; None: made-up ones."""
    rocr: str = ""
    """Debian's ROCr in the guest, with its version; "": it is not there."""
    _qemu: subprocess.Popen[bytes] | None = None
    _board: subprocess.Popen[bytes] | None = None
    _files: list[IO[bytes]] = field(default_factory=list)
    _log: Path | None = None
    """The board's."""

    # The machine

    def arguments(self) -> list[str]:
        """QEMU's command line: a root port that takes a GPU with a large BAR, and no GPU yet."""
        append = "console=ttyS0 panic=-1 mitigations=off nokaslr"
        # On a busy host the kernel's test of its timer fails, and with interrupt remapping it
        # panics then. src: arch/x86/kernel/apic/io_apic.c check_timer(), no_timer_check
        append += " intel_iommu=on iommu=pt no_timer_check" if self.iommu else ""
        behind = ["-device", "intel-iommu,intremap=on,caching-mode=on"] if self.iommu else []
        machine = "q35,memory-backend=ram" + (",kernel-irqchip=split" if self.iommu else "")
        return [
            *qemu_program(self.places.qemu), "-nodefaults", "-no-user-config", "-nographic",
            "-no-reboot", "-machine", machine, "-accel", "tcg", "-cpu", "max", *behind,
            "-smp", "2", "-object", f"memory-backend-memfd,id=ram,size={MEMORY_MIB}M,share=on",
            "-kernel", str(self.places.kernel), "-initrd", str(self.places.initrd),
            "-global", "q35-pcihost.pci-hole64-size=64G", "-device", "VGA",
            "-device",
            f"pcie-root-port,id={_SLOT},chassis=1,slot=1,pref64-reserve=8G,mem-reserve=64M",
            "-chardev", f"file,id=c0,path={self.folder / 'console'}", "-serial", "chardev:c0",
            "-chardev", f"socket,id=c1,path={self.folder / 'shell'},server=on,wait=off",
            "-serial", "chardev:c1", "-qmp", f"unix:{self.folder / 'qmp'},server=on,wait=off",
            "-append", append,
        ]  # fmt: skip

    def start(self, limit_s: float = 600) -> None:
        """Boot the guest and wait for its shell. Raises: LabError."""
        log = (self.folder / "qemu.log").open("wb")
        self._files.append(log)
        self._qemu = subprocess.Popen(
            self.arguments(), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        self._wait(lambda: "vm: up after" in self.console(), limit_s, "boot of the guest")

    def close(self) -> None:
        """End QEMU and the board, whatever they do."""
        for child in (self._qemu, self._board):
            if child is not None and child.poll() is None:
                child.kill()
                child.wait()
        for file in self._files:
            file.close()
        self._files.clear()

    def console(self, since: int = 0) -> str:
        """What the guest's kernel has said, from a byte of the console on."""
        path = self.folder / "console"
        data = path.read_bytes()[since:] if path.exists() else b""
        return data.decode(errors="replace").replace("\r", "")

    def mark(self) -> int:
        """Where the console ends now."""
        path = self.folder / "console"
        return path.stat().st_size if path.exists() else 0

    def _wait(self, done: Callable[[], bool], limit_s: float, what: str) -> None:
        deadline = time.monotonic() + limit_s
        while not done():
            if self._qemu is not None and self._qemu.poll() is not None:
                log = (self.folder / "qemu.log").read_text(errors="replace")
                raise LabError(f"{what}: QEMU ended with {self._qemu.returncode}: {log[-300:]}")
            if time.monotonic() > deadline:
                raise LabError(f"{what}: no end after {limit_s:.0f} s{self.waits()}")
            time.sleep(_POLL_S)

    def waits(self) -> str:
        """What the guest reads again and again, at the end of a time-out's message; else ""."""
        if self._log is None:
            return ""
        lines = self._log.read_text(errors="replace").splitlines()
        last = [line for line in lines if f": {WAITS} " in line or line.endswith(GOES_ON)][-1:]
        return f": {last[0].partition(': ')[2]}" if last and not last[0].endswith(GOES_ON) else ""

    # The guest's shell, QEMU's monitor

    def run(self, command: str, limit_s: float = 600) -> tuple[int, str]:
        """Run a line in the guest; its exit status and output. Raises: LabError."""
        with socket.socket(socket.AF_UNIX) as shell:
            shell.connect(str(self.folder / "shell"))
            shell.settimeout(limit_s)
            shell.sendall(command.encode() + b"\n")
            said = b""
            while (end := _END.search(said)) is None:  # until the end, or the socket's time
                try:
                    data = shell.recv(1 << 16)
                except TimeoutError as error:
                    late = f"{command!r}: no end after {limit_s:.0f} s{self.waits()}"
                    raise LabError(late) from error
                if not data:
                    raise LabError(f"{command!r}: the guest is gone")
                said += data
        return int(end[1]), said[: end.start()].decode(errors="replace").replace("\r", "")

    def monitor(self, command: str, **arguments: object) -> dict[str, object]:
        """One command of QEMU's monitor. Raises: LabError."""
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(180)
            monitor.connect(str(self.folder / "qmp"))
            with monitor.makefile("rw") as lines:
                lines.readline()
                reply: dict[str, object] = {}
                for name, given in (("qmp_capabilities", {}), (command, arguments)):
                    lines.write(json.dumps({"execute": name, "arguments": given}) + "\n")
                    lines.flush()
                    reply = _reply(lines)
        if "error" in reply:
            raise LabError(f"QEMU refused {command}: {reply['error']}")
        return reply

    # The board

    def plug(self, board: str, *, limit_s: float = 120) -> None:
        """Start a board's server and put its GPU into the guest's slot. Raises: LabError."""
        path = self.folder / f"{board}.sock"
        self._log = self.folder / f"{board}.log"
        log = self._log.open("wb")
        self._files.append(log)
        words = [sys.executable, "-m", "boards", "vfio-user", board, "--socket", str(path)]
        words += ["--once", "--vram-mib", "1024", "--max-steps", str(MAX_STEPS)]
        words += ["--journal", str(self.folder / f"{board}.txt")]
        if self.firmware is not None:
            words += ["--firmware", str(self.firmware)]
        self._board = subprocess.Popen(
            words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        self._wait(path.exists, limit_s, f"start of board {board}")
        self.monitor(
            "device_add", driver="vfio-user-pci", bus=_SLOT, id=_GPU,
            **{"x-msg-timeout": ANSWER_MS}, socket={"path": str(path), "type": "unix"},
        )  # fmt: skip

    def journal(self, board: str) -> list[str]:
        """Whole lines of the board's trace so far (boards/access_log.py)."""
        return (self.folder / f"{board}.txt").read_text().split("\n")[:-1]

    def unplug(self, limit_s: float = 180) -> int:
        """Pull the GPU; the board's exit status. Raises: LabError."""
        self.monitor("device_del", id=_GPU)
        self._wait(self._gone, limit_s, "removal of the GPU")
        board = self._board
        if board is None:
            raise LabError("there is no board")
        try:
            return board.wait(60)
        except subprocess.TimeoutExpired:
            board.send_signal(signal.SIGINT)
            return board.wait(60)

    def _gone(self) -> bool:
        return f'"{_GPU}"' not in json.dumps(self.monitor("query-pci"))


def _reply(lines: IO[str]) -> dict[str, object]:
    """The answer to a command; events in between are passed over."""
    for line in lines:
        reply: dict[str, object] = json.loads(line)
        if "return" in reply or "error" in reply:
            return reply
    raise LabError("QEMU's monitor is gone")
